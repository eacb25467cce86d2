"""Which rows of a decided order are shown."""

from __future__ import annotations

import numpy as np

from autodeploy.search.decided import _cut


def shown(likely: list[int], predicted: list[int], expected: list[float], top: int) -> list[int]:
    order = np.arange(len(likely))
    return _cut(order, np.array(likely, dtype=bool), np.array(predicted), np.array(expected), top).tolist()


def test_a_tie_longer_than_the_list_still_shows_the_expected_fastest() -> None:
    assert shown([1, 1, 1, 1], [4, 3, 2, 1], [5.0, 4.0, 3.0, 2.0], 2) == [0, 3]
    assert shown([1, 1, 1, 1], [1, 2, 3, 4], [2.0, 3.0, 4.0, 5.0], 2) == [0, 1]


def test_a_quarter_is_kept_for_what_is_faster_and_may_not_fit() -> None:
    """Rows 4 and 5 may not fit and are predicted faster than row 0: of 4 rows one is theirs."""
    assert shown([1, 1, 1, 1, 0, 0], [3, 4, 5, 6, 1, 2], [3.0, 4.0, 5.0, 6.0, 1.0, 2.0], 4) == [0, 1, 2, 4]

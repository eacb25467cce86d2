"""What is read off draws is what numpy reads off them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.decide.draws import quantile


@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.floats(0.0, 0.99))
def test_a_quantile_is_numpy_s(seed: int, draws: int, share: float) -> None:
    drawn = np.random.default_rng(seed).random((draws, 3))
    assert quantile(drawn, share) == pytest.approx(np.quantile(drawn, share, axis=0), rel=1e-14)

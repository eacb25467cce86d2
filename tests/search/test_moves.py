from __future__ import annotations

import numpy as np
import pytest

from autodeploy.search.moves import MOVES, group_sizes, landscape_around
from autodeploy.study.landscape import Catalogue, nearest_row
from cost_models.strategies import RECOMPUTE_BIT, StrategyBatch, single
from tests.search.fakes import layout


def test_group_sizes_of_ten_micro_batches_over_four_ranks() -> None:
    assert 5 in group_sizes(4, 10)  # user case 60: 10 micro-batches over PP4 run with G = 5
    assert 4 not in group_sizes(4, 10)  # leaves a group of 2 < PP
    assert group_sizes(4, 3) == []


free = dict.fromkeys(MOVES, True)


@pytest.fixture
def two() -> StrategyBatch:
    return StrategyBatch.concatenate(
        [
            single(layout=layout(2, 2), pp=2, vpp=2, dp=2, schedule="interleaved"),
            single(layout=layout(2, 1), pp=2, dp=2, recompute=RECOMPUTE_BIT["full"]),
        ]
    )


def params(two: StrategyBatch, row: int, **moves: float) -> dict[str, object]:
    return {**Catalogue(two).params(row), **moves}


def test_moves_decode(two: StrategyBatch) -> None:
    around = landscape_around(two, 2, 32, lambda batch: np.ones(len(batch), bool), free)
    batch = around.decode(
        [
            params(two, 0, group_choice=1, recompute_spared_frac=0.5, swap_least_frac=0.5, offload_least_frac=1.0),
            params(two, 1, group_choice=1, recompute_spared_frac=0.5),
        ]
    )
    assert batch.micro_batch_group.tolist() == [3, 0]  # sizes of 16 micro-batches over 2 ranks: 2, 3 (4 are left), ...
    assert batch.recompute_layers.tolist() == [0, 2]  # half of 4 layers a stage, only where recompute is full
    assert batch.swap_frac.tolist() == [0.5, 0.0] and batch.offload_frac.tolist() == [1.0, 0.0]


def test_the_start_is_the_strategies_themselves(two: StrategyBatch) -> None:
    around = landscape_around(two, 2, 32, lambda batch: np.ones(len(batch), bool), free)
    batch = around.decode(around.start)
    assert batch.vpp.tolist() == two.vpp.tolist() and batch.recompute.tolist() == two.recompute.tolist()
    assert around.choices["schedule"] == ("1f1b", "interleaved") and around.choices["recompute"] == ("none", "full")


def test_forbidden_moves_are_not_made(two: StrategyBatch) -> None:
    around = landscape_around(two, 2, 32, lambda batch: batch.swap_frac == 0, free)
    batch = around.decode([params(two, 0, swap_least_frac=1.0)])
    assert batch.swap_frac.tolist() == [0.0]


def test_nearest_row_repairs_axis_after_axis() -> None:
    rows = np.array([[0, 0, 1, 2], [0, 3, 1, 0]])  # sorted columns: (0,0) (0,3) (1,1) (2,0)
    assert nearest_row(rows, [0, 2]) == 1
    assert nearest_row(rows, [1, 9]) == 2
    assert nearest_row(rows, [9, 9]) == 3

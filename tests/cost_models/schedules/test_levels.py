"""Orders worked through: by hand, in waves as by levels, and whatever stands beside a strategy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.errors import ConfigError
from cost_models.schedules import SCHEDULE_TABLE, PipelineCosts, closed_form_step_s, closed_forms_s
from cost_models.schedules.interleaved import interleaved_orders, overlapped_orders
from cost_models.schedules.interleaved_waves import ROUNDS
from cost_models.schedules.lanes import LaneCosts
from cost_models.schedules.levels import end_s, levels_of
from cost_models.schedules.program import work_through
from tests.cost_models.schedules.pipelines import random_pipeline

ALL = sorted(SCHEDULE_TABLE)
PAIRED = sorted(name for name, record in SCHEDULE_TABLE.items() if record.pairs != "none")


def form_s(name: str, c: PipelineCosts, lanes: LaneCosts | None) -> np.ndarray:
    return closed_form_step_s(
        name, c.forward_s.T, c.input_s.T, c.weight_s.T, c.p2p_s, c.pp, c.vpp, c.micro_batches, c.group, lanes
    )


def test_two_ranks_by_hand() -> None:
    """Two operations of 1 s each; the second rank's first waits for the other's first and a hop of 0.5 s, and takes 3 s."""
    levels = levels_of([2, 1], np.array([[-1, -1, 0]]), cost=np.array([0, 0, 1]), delay=np.array([1, 0, 0]))
    end = end_s(levels, costs=np.array([[1.0], [3.0]]), delays=np.array([[0.0], [0.5]]))
    assert end.tolist() == [4.5]


def test_a_circle_is_refused() -> None:
    nothing = np.array([0, 0])
    with pytest.raises(ConfigError, match="2 operations"):
        levels_of([1, 1], np.array([[1, 0]]), cost=nothing, delay=nothing)


def test_rows_are_used_again() -> None:
    """A thousand operations one after the other need no more than a few rows."""
    zeros = np.zeros(1000, dtype=np.int64)
    levels = levels_of([1000], np.full((1, 1000), -1), cost=zeros, delay=zeros)
    assert levels.rows < 10 and end_s(levels, np.ones((1, 2)), np.zeros((1, 2))).tolist() == [1000.0, 1000.0]


@pytest.mark.parametrize(
    ("name", "orders"), [("interleaved", interleaved_orders), ("adaptive-pipe", overlapped_orders)]
)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_waves_are_the_order(name: str, orders: object, seed: int) -> None:
    """What runs in waves is what the operations of each rank say, one by one; up to the rounds that are worked through."""
    c = random_pipeline(name, seed)
    m, group = int(c.micro_batches[0]), int(c.group[0])
    last = m % group
    group = group if c.pp <= group <= m and (last == 0 or last >= c.pp) else m
    if m // group <= ROUNDS:
        assert form_s(name, c, None) == pytest.approx(work_through(orders, c, m, group), rel=1e-12)


@pytest.mark.parametrize(("name", "on_lanes"), [(n, False) for n in ALL] + [(n, True) for n in PAIRED])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_strategy_costs_the_same_alone(name: str, on_lanes: bool, seed: int) -> None:
    """Layouts, micro-batches and groups may differ in a call."""
    c = random_pipeline(name, seed, on_lanes=on_lanes)
    record = SCHEDULE_TABLE[name]
    c = replace(
        c, micro_batches=c.micro_batches * [1, 2, 1, 6], group=c.group + [0, 0, c.pp, 0] if record.grouped else c.group
    )
    together = form_s(name, c, c.lanes)
    for n in range(4):
        own = slice(n, n + 1)
        alone = replace(
            c, forward_s=c.forward_s[:, own], input_s=c.input_s[:, own], weight_s=c.weight_s[:, own], p2p_s=c.p2p_s[own],
            micro_batches=c.micro_batches[own], group=c.group[own], lanes=c.lanes.take(own) if c.lanes else None,
        )  # fmt: skip
        assert form_s(name, alone, alone.lanes)[0] == pytest.approx(together[n], rel=1e-14)


@pytest.mark.parametrize(("name", "on_lanes"), [(n, False) for n in ALL] + [(n, True) for n in PAIRED])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_shapes_go_together(name: str, on_lanes: bool, seed: int) -> None:
    """Of any ranks, chunks, micro-batches and groups, in one propagation where there is one."""
    shapes = [random_pipeline(name, seed + k, on_lanes=on_lanes, strategies=k + 1) for k in range(5)]
    together = closed_forms_s([(SCHEDULE_TABLE[name], c) for c in shapes])
    for c, seconds in zip(shapes, together, strict=True):
        assert seconds == pytest.approx(form_s(name, c, c.lanes), rel=1e-14)

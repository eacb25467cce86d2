"""What a pipeline takes at least: worked by hand, no longer than any closed form, and not much shorter."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.schedule import SCHEDULES, simulate
from cost_models.schedules import (
    SCHEDULE_TABLE,
    PipelineCosts,
    RankSeconds,
    closed_form_step_s,
    least_pipeline_s,
    rank_seconds,
)
from tests.cost_models.schedules.pipelines import random_pipeline
from tests.schedule.cases import uneven

ALL = sorted(SCHEDULE_TABLE)
WITH_LANES = sorted(name for name, record in SCHEDULE_TABLE.items() if record.pairs != "none")


def least_s(name: str, c: PipelineCosts) -> np.ndarray:
    record = SCHEDULE_TABLE[name]
    return least_pipeline_s(record, rank_seconds(record, c), c.micro_batches).max(axis=0)


def form_s(name: str, c: PipelineCosts) -> np.ndarray:
    return closed_form_step_s(
        name, c.forward_s.T, c.input_s.T, c.weight_s.T, c.p2p_s, c.pp, c.vpp, c.micro_batches, c.group, c.lanes
    )


def ones(**seconds: float) -> RankSeconds:
    return RankSeconds(**{name: np.array([value]) for name, value in seconds.items()})


def test_a_whole_backward_goes_all_the_way_up() -> None:
    """Third rank of 1F1B, F 1, I 1, W 1, hops of 0.5: down 2 + 1, ten micro-batches 30, up 4 + 1."""
    rank = ones(whole_s=3.0, chain_s=2.0, fill_s=3.0, drain_s=5.0)
    assert least_pipeline_s(SCHEDULE_TABLE["1f1b"], rank, np.array(10))[0] == 38.0


def test_weight_parts_fill_the_way_up() -> None:
    """The same rank of ZB-H1, whose gradients go up in 2 + 1: ten micro-batches outlast that, one does not."""
    rank = ones(whole_s=3.0, chain_s=2.0, fill_s=3.0, drain_s=3.0)
    least = [least_pipeline_s(SCHEDULE_TABLE["zb-h1"], rank, np.array(m))[0] for m in (10, 1)]
    assert least == [33.0, 8.0]


def test_equal_stages_are_exact() -> None:
    """1F1B, interleaved and GPipe of equal stages: (m + (p-1)/v) (F + B)."""
    for name, vpp in (("1f1b", 1), ("interleaved", 2), ("gpipe", 1)):
        one = np.ones((4 * vpp, 1)) / vpp
        c = PipelineCosts(
            forward_s=one, input_s=one, weight_s=one, p2p_s=np.zeros(1), micro_batches=np.array([8]), group=np.array([4]),
            pp=4, vpp=vpp,
        )  # fmt: skip
        assert least_s(name, c)[0] == pytest.approx(3 * (8 + 3 / vpp))


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_longer_than_the_closed_form(name: str, seed: int) -> None:
    c = random_pipeline(name, seed)
    assert (least_s(name, c) <= form_s(name, c) * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", WITH_LANES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_no_longer_than_the_closed_form_on_lanes(name: str, seed: int) -> None:
    c = random_pipeline(name, seed, on_lanes=True)
    assert (least_s(name, c) <= form_s(name, c) * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", [n for n in sorted(SCHEDULES) if n != "none" and SCHEDULE_TABLE[n].pairs != "early"])
def test_no_longer_than_the_order_itself(name: str) -> None:
    """Every order does at least this, automatic ones too. Early pairs hand gradients on before weights: on lanes only."""
    for pp, m in ((2, 4), (4, 32)):
        request = uneven(name, pp, m, seed=pp, scenarios=1 if SCHEDULE_TABLE[name].plans_with_costs else 8)
        costs, record = request.costs, SCHEDULE_TABLE[name]
        count = len(costs.forward_s)
        c = PipelineCosts(
            forward_s=costs.forward_s.T, input_s=costs.backward_input_s.T, weight_s=costs.backward_weight_s.T,
            p2p_s=np.broadcast_to(request.p2p_s, count), micro_batches=np.full(count, m), group=np.full(count, pp),
            pp=pp, vpp=record.chunks.least,
        )  # fmt: skip
        assert (least_s(name, c) <= simulate(request).pipeline_s * (1 + 1e-12)).all()


def test_ranks_may_be_any_of_them() -> None:
    """Elementwise: the caller may give the ranks that differ, and as [N, P]."""
    c = random_pipeline("interleaved", 1)
    record = SCHEDULE_TABLE["interleaved"]
    whole = least_pipeline_s(record, rank_seconds(record, c), c.micro_batches)
    ranks = rank_seconds(record, c)
    two = RankSeconds(**{field.name: getattr(ranks, field.name)[[0, -1]].T for field in fields(RankSeconds)})
    assert (least_pipeline_s(record, two, c.micro_batches[:, None]) == whole[[0, -1]].T).all()

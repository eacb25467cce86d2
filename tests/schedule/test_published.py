"""Bubbles and counts against published formulas and figures."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.schedule import OrderCosts, PipelineShape, SimulationRequest, StageCosts, build_schedule, simulate
from autodeploy.schedule.interleaved import warm_up_chunks
from tests.schedule.cases import CHUNKS, equal

F, I, W = 1.0, 1.1, 0.9
B = I + W

BUBBLES = {  # pp, m -> seconds; DualPipe README table, Megatron-LM, Qi et al.
    "gpipe": lambda p: (p - 1) * (F + B),
    "1f1b": lambda p: (p - 1) * (F + B),
    "interleaved": lambda p: (p - 1) * (F + B) / 2,
    "looped-bfs": lambda p: (p - 1) * (F + B) / 2,
    "zb-h1": lambda p: (p - 1) * (F + B - 2 * W),
    "dualpipe": lambda p: (p / 2 - 1) * ((F + B) + B - 3 * W),
    "dualpipev": lambda p: (p - 1) * ((F + B) + B - 3 * W) / 2,
}


@pytest.mark.parametrize("pp", [4, 8])
@pytest.mark.parametrize("name", sorted(BUBBLES))
def test_bubble_of_equal_stages(name: str, pp: int) -> None:
    m = 4 * pp
    result = simulate(equal(name, pp, m, F, I, W))
    bubble = result.pipeline_s[0] - m * (F + B)
    assert bubble == pytest.approx(BUBBLES[name](pp), rel=0.08 if name.startswith("dualpipe") else 0.04)
    thirds = simulate(equal(name, pp, m, 1.0, 1.0, 1.0))  # F = I = W: where every published formula is exact
    exact = {"zb-h1": pp - 1, "dualpipe": 2 * (pp / 2 - 1), "dualpipev": pp - 1}
    expected = exact.get(name, 3 * (pp - 1) / CHUNKS[name])
    assert thirds.pipeline_s[0] - 3 * m == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("vpp", "percent"), [(1, 30.43), (6, 6.80)])
def test_pangu_ultra_135b(vpp: int, percent: float) -> None:
    """PP8, 16 micro-batches: 7/23 and (7/6)/(7/6+16); published 30.45 and 6.8 (arXiv 2504.07866)."""
    result = simulate(equal("interleaved", 8, 16, 1.0, 1.0, 1.0, vpp=vpp))
    assert 100 * result.bubble_frac[0] == pytest.approx(percent, abs=0.005)


@pytest.mark.parametrize("acc", [16, 32])
def test_dualpipe_issue_15(acc: int) -> None:
    """User case 89: B = 2F = 2W. Over m(F+B): PP (p-1)/m, VPP a v-th, DualPipe (p-2)/(3m); they cross at v = 3."""
    pp, work = 8, 3.0 * acc
    bubble = {
        name: (simulate(equal(name, pp, acc, 1.0, 1.0, 1.0, vpp=v)).pipeline_s[0] - work) / work
        for name, v in (("1f1b", 1), ("dualpipe", 1))
    }
    assert bubble["1f1b"] == pytest.approx((pp - 1) / acc)
    assert bubble["dualpipe"] == pytest.approx((pp - 2) / acc / 3)
    for vpp in (2, 4):
        ours = (simulate(equal("interleaved", pp, acc, 1.0, 1.0, 1.0, vpp=vpp)).pipeline_s[0] - work) / work
        assert ours == pytest.approx((pp - 1) / acc / vpp)
        assert (ours < bubble["dualpipe"]) == (vpp > 3)


def test_bubble_share_is_not_the_efficiency() -> None:
    """User case 91: bubble = (p-1)/v / (m + (p-1)/v), not m / (m + (p-1)/v)."""
    assert simulate(equal("interleaved", 4, 8, vpp=2)).bubble_frac[0] == pytest.approx(1.5 / 9.5)


def test_fused_pair_time_is_an_input() -> None:
    """User case 92, PP8 m20: with F1 B2 and a pair that takes as long as F + B the main step leaves no bubble; a
    shorter pair shortens the step by what the pairs save."""
    whole = simulate(equal("dualpipe", 8, 20))
    short = simulate(equal("dualpipe", 8, 20, pair_saving_frac=0.25))
    assert whole.pipeline_s[0] - 60 == pytest.approx(3 * (3 + 2 - 3))
    schedule = build_schedule("dualpipe", PipelineShape(pp=8, micro_batches=20))
    fewest = min(sum(len(slot) == 2 for slot in order) for order in schedule.orders)
    assert fewest >= 8
    assert whole.pipeline_s[0] - short.pipeline_s[0] >= 0.25 * 3 * fewest


@pytest.mark.parametrize("group", [4, 8])
@pytest.mark.parametrize("overlap", [False, True])
def test_interleaved_warm_up_counts(group: int, overlap: bool) -> None:
    """User case 93: 2(p-r-1) + (v-1)G, +1 with EP overlap."""
    shape = PipelineShape(pp=4, micro_batches=16, vpp=3, group=group, ep_overlap=overlap)
    schedule = build_schedule("interleaved", shape)
    for rank in range(4):
        expected = 2 * (4 - rank - 1) + 2 * group + overlap
        assert warm_up_chunks(shape, rank) == expected
        assert schedule.warm_up[rank] == expected + 1  # the first steady slot is a forward too


def test_any_group_size() -> None:
    """10 micro-batches over PP4 run with G = 5, and every step time stays within one bubble of the work."""
    result = simulate(equal("interleaved", 4, 10, group=5))
    assert 30 < result.pipeline_s[0] < 30 + 3 * 3


def test_per_stage_memory_peaks() -> None:
    """User case 94: peaks come per rank, in bytes."""
    from autodeploy.schedule import StageMemory

    memory = StageMemory(activation_bytes=np.array([[4.0, 1.0, 1.0, 1.0]]), static_bytes=np.array([[10.0, 0, 0, 0]]))
    result = simulate(equal("1f1b", 4, 8, memory=memory))
    assert result.peak_activation_bytes is not None and result.peak_memory_bytes is not None
    assert result.peak_activation_bytes[0].tolist() == [16.0, 3.0, 2.0, 1.0]
    assert result.peak_memory_bytes[0].tolist() == [26.0, 3.0, 2.0, 1.0]


def test_chunk_placement() -> None:
    """User case 95: 8 layers, PP2 VPP2: rank 0 holds virtual stages 0 and 2, layers 0-1 and 4-5. V: r and 2p-1-r."""
    loop = build_schedule("interleaved", PipelineShape(pp=2, micro_batches=2, vpp=2))
    assert loop.rank_of == ((0, 1, 0, 1),)
    assert build_schedule("zb-v", PipelineShape(pp=2, micro_batches=4, vpp=2)).rank_of == ((0, 1, 1, 0),)
    dual = build_schedule("dualpipe", PipelineShape(pp=4, micro_batches=8))
    assert dual.rank_of == ((0, 1, 2, 3), (3, 2, 1, 0)) and dual.weight_copies == 2


PEER = [  # zero-bubble scheduler: F=10 B=10 W=8 comm=1 (V: F=5 B=5 W=4), period bubble in percent
    ("zb-1p", 8, 32, 11.11),
    ("zb-2p", 8, 32, 0.88),
    ("zb-v-auto", 8, 32, 5.49),
    ("zb-1p", 16, 128, 6.28),
    ("zb-2p", 16, 128, 0.55),
    ("zb-v-auto", 16, 128, 3.14),
]


@pytest.mark.parametrize(("name", "pp", "m", "percent"), PEER)
def test_automatic_schedule_as_good_as_the_published_scheduler(name: str, pp: int, m: int, percent: float) -> None:
    chunks = CHUNKS[name]
    one = np.ones((1, pp * chunks)) / chunks
    costs = StageCosts(forward_s=10 * one, backward_input_s=10 * one, backward_weight_s=8 * one)
    result = simulate(
        SimulationRequest(
            schedule=name, pp=pp, vpp=chunks, micro_batches=m, costs=costs, p2p_s=1.0, sync_optimizer=False
        )
    )
    period = result.step_s[0]
    assert 100 * (1 - 28 * m / period) <= percent + 0.005


def test_automatic_schedule_never_worse_than_h1() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        u = rng.uniform(0.5, 1.5, 8)
        u[-1] *= 3 if seed % 2 else 1
        costs = StageCosts(forward_s=u[None], backward_input_s=1.1 * u[None], backward_weight_s=0.8 * u[None])
        plan = OrderCosts(
            forward_s=tuple(u), backward_input_s=tuple(1.1 * u), backward_weight_s=tuple(0.8 * u), p2p_s=0.1
        )
        spans = {
            name: simulate(
                SimulationRequest(schedule=name, pp=8, micro_batches=24, costs=costs, p2p_s=0.1, order_costs=plan)
            ).rank_span_s.max()
            for name in ("zb-h1", "zb-1p", "zb-2p")
        }
        assert spans["zb-1p"] <= spans["zb-h1"] * 1.001
        assert spans["zb-2p"] <= spans["zb-1p"] * 1.02

"""Every schedule of the table: complete, free of deadlock, exact against a plain simulator, memory as published."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autodeploy.schedule import SCHEDULES, ScheduleError, build_schedule, simulate
from autodeploy.schedule.live_memory import held_chunks, in_flight_chunks
from autodeploy.schedule.operations import B, F, I, OrderCosts, W
from tests.schedule.cases import CHUNKS, equal, shape, uneven
from tests.schedule.reference import in_order

ALL = sorted(SCHEDULES)
SIZES = [(2, 4), (4, 9), (4, 16), (8, 16)]


def fits(name: str, pp: int, m: int) -> bool:
    return not (name == "dualpipe" and m % 2) and not (name.startswith("dualpipe") and m < 2 * pp)


@pytest.mark.parametrize(("pp", "m"), SIZES)
@pytest.mark.parametrize("name", ALL)
def test_every_micro_batch_once_per_stage(name: str, pp: int, m: int) -> None:
    if not fits(name, pp, m):
        m = 2 * pp + pp % 2
    group = m if m % pp > 0 else 0
    schedule = build_schedule(name, shape(name, pp, m, group=group))
    count = Counter(op for order in schedule.orders for slot in order for op in slot)
    assert set(count.values()) == {1}
    assert schedule.stages == pp * CHUNKS[name]
    for stage in range(schedule.stages):
        for i in range(m):
            assert count[F, stage, i] == 1
            assert count[B, stage, i] + count[I, stage, i] == 1
            assert count[W, stage, i] == count[I, stage, i]
    for rank, order in enumerate(schedule.orders):
        for slot in order:
            assert all(schedule.rank(stage, i) == rank for _, stage, i in slot)


@pytest.mark.parametrize(("pp", "m"), SIZES)
@pytest.mark.parametrize("name", ALL)
def test_times_equal_the_plain_simulator(name: str, pp: int, m: int) -> None:
    if not fits(name, pp, m):
        m = 2 * pp + pp % 2
    request = uneven(name, pp, m, seed=pp * m, group=m if m % pp else 0, overlap="none")
    costs = request.costs
    result = simulate(request)
    schedule = build_schedule(
        name,
        shape(
            name, pp, m, group=request.group, costs=OrderCosts(
                forward_s=tuple(costs.forward_s[0]), backward_input_s=tuple(costs.backward_input_s[0]),
                backward_weight_s=tuple(costs.backward_weight_s[0]), p2p_s=float(request.p2p_s[0]),
            ),
        ),
    )  # fmt: skip
    if name == "adaptive-pipe":
        return  # the gradient leaves early there: held against `dynamic` below
    expected = in_order(
        schedule, costs.forward_s[0], costs.backward_input_s[0], costs.backward_weight_s[0], float(request.p2p_s[0])
    )
    assert result.pipeline_s[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_work_is_conserved(name: str) -> None:
    request = uneven(name, 4, 8, scenarios=3)
    result = simulate(request)
    costs = request.costs
    total = 8 * (costs.forward_s + costs.backward_input_s + costs.backward_weight_s).sum(axis=1)
    assert result.busy_s.sum(axis=(1, 2)) == pytest.approx(total * (1 if name != "dualpipe" else 1))
    assert (result.rank_span_s <= result.pipeline_s[:, None] + 1e-12).all()
    assert (result.bubble_s >= -1e-9).all()


LIMITS = {
    "gpipe": lambda p, m: [m] * p,
    "1f1b": lambda p, m: [p - r for r in range(p)],
    "interleaved": lambda p, m: [2 * (p - r - 1) + p + 1 for r in range(p)],
    "adaptive-pipe": lambda p, m: [2 * (p - r - 1) + p + 2 for r in range(p)],
    "zb-h1": lambda p, m: [p - r for r in range(p)],
    "dualpipe": lambda p, m: [p + 1] * p,
    "dualpipev": lambda p, m: [2 * p + 1] * p,
    "zb-v": lambda p, m: [2 * p] * p,
    "zb-v-half": lambda p, m: [p + 2] * p,
}


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_in_flight_as_published(name: str) -> None:
    assert in_flight_chunks(build_schedule(name, shape(name, 8, 32))).tolist() == LIMITS[name](8, 32)


@pytest.mark.parametrize(
    ("name", "limit"), [("zb-1p", 8), ("zb-2p", 16), ("zb-h1", 8), ("zb-v", 16), ("zb-v-half", 10), ("zb-v-min", 8)]
)
def test_zero_bubble_keeps_its_limit_on_uneven_stages(name: str, limit: int) -> None:
    """zb-h1 counts a chunk whole until its W, the automatic ones half, as they plan."""
    request = uneven(name, 8, 32, seed=3)
    costs = request.costs
    plan = OrderCosts(
        forward_s=tuple(costs.forward_s[0]),
        backward_input_s=tuple(costs.backward_input_s[0]),
        backward_weight_s=tuple(costs.backward_weight_s[0]),
        p2p_s=0.1,
    )
    schedule = build_schedule(name, shape(name, 8, 32, costs=plan))  # type: ignore[arg-type]
    held = held_chunks(schedule, 1.0 if name == "zb-h1" else 0.5)
    assert held.max() <= limit
    assert held.max() >= limit - 3  # and it is used


def test_shapes_that_do_not_run_say_why() -> None:
    with pytest.raises(ScheduleError, match="even"):
        build_schedule("dualpipe", shape("dualpipe", 3, 12))
    with pytest.raises(ScheduleError, match="at least 2 pp"):
        build_schedule("dualpipev", shape("dualpipev", 4, 7))
    with pytest.raises(ScheduleError, match=r"10 % group is 0 or >= pp = 4; these do: \[5"):
        build_schedule("interleaved", shape("interleaved", 4, 10))
    with pytest.raises(ScheduleError, match="vpp"):
        build_schedule("1f1b", shape("interleaved", 4, 8).__class__(pp=4, vpp=2, micro_batches=8))
    with pytest.raises(ScheduleError, match="one of 1f1b"):
        build_schedule("nope", shape("1f1b", 4, 8))


def test_batch_equals_one_by_one() -> None:
    request = uneven("dualpipev", 4, 12, scenarios=5, seed=7)
    together = simulate(request).step_s
    for n in range(5):
        one = uneven("dualpipev", 4, 12, scenarios=5, seed=7)
        costs = one.costs
        single = type(costs)(
            forward_s=costs.forward_s[n : n + 1],
            backward_input_s=costs.backward_input_s[n : n + 1],
            backward_weight_s=costs.backward_weight_s[n : n + 1],
        )
        alone = simulate(
            type(one)(schedule="dualpipev", pp=4, vpp=2, micro_batches=12, costs=single, p2p_s=one.p2p_s[n : n + 1])
        )
        assert alone.step_s[0] == together[n]


def test_tail_and_optimizer_meeting() -> None:
    from autodeploy.schedule import StepTail

    tail = StepTail(gradient_reduction_s=np.array([[3.0, 0.0, 0.0, 0.0]]), optimizer_s=2.0, parameter_gather_s=1.0)
    plain = simulate(equal("1f1b", 4, 8))
    with_tail = simulate(equal("1f1b", 4, 8, tail=tail))
    assert plain.step_s[0] == plain.pipeline_s[0] == 33.0
    assert with_tail.step_s[0] == 33.0 + 3.0 + 2.0 + 1.0  # rank 0 ends last and reduces longest
    free = simulate(equal("zb-2p", 4, 16, sync_optimizer=False))
    assert free.step_s[0] == pytest.approx(48.0)  # ranks go on: no bubble at all
    assert simulate(equal("zb-2p", 4, 16)).step_s[0] == pytest.approx(51.0)


def test_exposed_p2p_holds_the_sender() -> None:
    hidden = simulate(equal("1f1b", 4, 8, p2p_s=0.25))
    exposed = simulate(equal("1f1b", 4, 8, p2p_s=0.25, p2p_exposed=True))
    assert hidden.pipeline_s[0] < exposed.pipeline_s[0]
    assert exposed.busy_s[0, 1, 2] == pytest.approx(8 * 2 * 0.25)  # a middle rank sends both ways
    assert exposed.busy_s[0, 0, 2] == pytest.approx(8 * 0.25)

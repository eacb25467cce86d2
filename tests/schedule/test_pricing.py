"""Slots priced together, and requests replayed together, are what each is alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.schedule import (
    CATALOGUE,
    SCHEDULES,
    SEGMENTS,
    OrderCosts,
    PipelineShape,
    build_schedule,
    simulate,
    simulated_s,
)
from autodeploy.schedule.fixed_order import FixedOrder
from autodeploy.schedule.operations import B, F, I, W, v_placement
from autodeploy.schedule.placing import Placer
from autodeploy.schedule.pricing import SlotCosts, transfer_matrices
from autodeploy.schedule.slots import slot_template
from autodeploy.schedule.templates import INPUTS, node_ends_s
from autodeploy.schedule.zb_v_memory import Limits, PatternPlayer, best_pattern, half_pattern
from cost_models.schedules.interleaved import interleaved_orders
from cost_models.schedules.one_f_one_b import one_f_one_b_orders
from cost_models.schedules.zero_bubble import h1_orders
from tests.schedule.cases import CHUNKS, moe_layers, uneven
from tests.schedule.test_lanes import request

KINDS = ((F,), (B,), (I,), (W,), (F, B), (F, F), (B, B), (F, I))
MASKS = (0b1010_0000_0000_0000_0001, 0b1111_1111_1111_1111_1111, 0b1111_1111_0000_0000_1111_11)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_a_matrix_is_what_the_nodes_of_the_slot_do(data: st.DataObject) -> None:
    """Outputs of a slot from random inputs: by its matrix, priced beside others, and node by node."""
    drawn = st.tuples(
        st.sampled_from(KINDS), st.lists(st.sampled_from(MASKS), min_size=1, max_size=2), st.sampled_from(CATALOGUE)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    seconds, inputs = rng.uniform(0, 1, (2 * SEGMENTS, 3)), list(rng.uniform(0, 2, (INPUTS, 3)))
    slots = [
        slot_template(kinds, (tuple(masks),) * len(kinds), entry.name, joint=len(kinds) == 2 and rng.random() < 0.3)
        for kinds, masks, entry in data.draw(st.lists(drawn, min_size=1, max_size=4))
    ]
    costs = SlotCosts(seconds=seconds, at=np.zeros((len(slots), 2), dtype=np.int64))
    matrix = transfer_matrices(slots, costs, range(INPUTS))
    for at, template in enumerate(slots):
        durations = list(costs.durations_s(template, np.array([at]))[0])
        rows = [*inputs, np.full(3, -np.inf), *node_ends_s(template, durations, inputs)]
        for output in sorted(template.uses):
            by_nodes = np.max([rows[row] for row in template.exits[output]], axis=0)
            by_matrix = np.max([inputs[j] + matrix[j, output, at] for j in range(INPUTS)], axis=0)
            assert by_matrix == pytest.approx(by_nodes, rel=1e-12)


def test_many_requests_at_once_are_each_alone() -> None:
    asked = [uneven(name, 4, 12, scenarios=2) for name in SCHEDULES]
    asked += [request(moe_layers(n, 8, dense_stages=n)) for n in (1, 2)]
    for one, seconds in zip(asked, simulated_s(asked), strict=True):
        assert seconds == pytest.approx(simulate(one).step_s, rel=1e-12), one.schedule


def test_what_no_order_runs_is_not_a_number() -> None:
    seconds = simulated_s([uneven("dualpipe", 4, 6), uneven("1f1b", 4, 6)])
    assert np.isnan(seconds[0]).all() and not np.isnan(seconds[1]).any()


@pytest.mark.parametrize(("pp", "micro_batches"), [(1, 3), (4, 2), (4, 9), (4, 12), (6, 18)])
def test_orders_by_arithmetic_are_the_listed_ones(pp: int, micro_batches: int) -> None:
    """The closed forms work through lists of their own."""
    listed = {"1f1b": one_f_one_b_orders, "zb-h1": h1_orders}
    if micro_batches % pp == 0:
        listed["interleaved"] = interleaved_orders
    for name, orders in listed.items():
        shape = PipelineShape(pp=pp, vpp=CHUNKS[name], micro_batches=micro_batches)
        ours = [[slot[0] for slot in order] for order in build_schedule(name, shape).orders]
        assert ours == [list(order) for order in orders(pp, CHUNKS[name], micro_batches, pp)], name


@settings(deadline=None, max_examples=15)
@given(pp=st.integers(2, 5), micro_batches=st.integers(1, 12), seed=st.integers(0, 99))
def test_passes_that_stop_early_would_not_have_won(pp: int, micro_batches: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forward, inputs, weights = (tuple(rng.uniform(0.3, 1.5, 2 * pp).tolist()) for _ in range(3))
    costs = OrderCosts(forward_s=forward, backward_input_s=inputs, backward_weight_s=weights, p2p_s=0.1)
    limits = Limits(half_pattern(pp), pp + 2, pp + 2)
    scores = []
    for planned_with in (costs, OrderCosts.equal(2 * pp)):
        for greedily, early in ((True, True), (True, False), (False, True), (False, False)):
            player = PatternPlayer(pp, micro_batches, planned_with, limits)
            player.run(greedily, early)
            run = Placer(v_placement(pp), micro_batches, costs, pp + 2)
            run.play([[(c // micro_batches // (2 * pp), c // micro_batches % (2 * pp), c % micro_batches) for c in order]
                      for order in player.orders])  # fmt: skip
            fixed = FixedOrder(v_placement(pp), micro_batches, player.orders)
            assert fixed.score_s(costs) == pytest.approx(run.score_s(), rel=1e-12)
            scores.append(run.score_s())
    score_s, _ = best_pattern(PipelineShape(pp=pp, vpp=2, micro_batches=micro_batches), costs, limits)
    assert score_s == pytest.approx(min(scores), rel=1e-12)

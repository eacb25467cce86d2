"""From strategies to the simulator: what goes in adds up, what comes out agrees with the closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.replay import simulate_strategy, simulated_step_s
from autodeploy.replay.groups import groups_of
from autodeploy.replay.segments import affected_stages, layer_columns, layer_segments
from autodeploy.schedule import Segment
from cost_models.step import evaluate
from cost_models.strategies import StrategyBatch
from tests.replay.cases import DENSE, MOE, SELECTIVE, strategy

WITHOUT_OVERLAP = [
    (DENSE, "TP2/PP1"),
    (DENSE, "TP2/PP4"),
    (DENSE, "TP2/PP4/gpipe"),
    (DENSE, "TP2/PP4/VPP4"),
    (DENSE, "TP2/PP4/full"),
    (DENSE, "TP2/PP4/zb-h1"),
    (MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}"),
    (MOE, f"TP8/PP16/EP32/{SELECTIVE}/hierarchical-dedup"),
    (MOE, "TP8/PP16/VPP2/EP32/MBS2/full"),
    (MOE, "TP8/PP16/EP32/MBS2/full/1f1b/ep-overlap"),
]


@pytest.mark.parametrize(("of", "text"), WITHOUT_OVERLAP, ids=[text for _, text in WITHOUT_OVERLAP])
def test_agrees_with_the_closed_form_where_nothing_overlaps(of: tuple, text: str) -> None:
    case, batch = strategy(of, text)
    closed = evaluate(case, batch).step_s
    simulated = simulated_step_s(case, batch)
    assert simulated == pytest.approx(closed, rel=0.03)
    assert simulate_strategy(case, batch).step_s == pytest.approx(simulated[0], rel=1e-9)


@pytest.mark.parametrize("dispatcher", ["", "/hierarchical-allgather", "/hierarchical-dedup", "/allgather"])
@pytest.mark.parametrize("recompute", ["", "/selective(moe_act)", "/selective(mla_up_proj,layernorm,moe)", "/full"])
def test_segments_of_layers_add_up_to_the_stages(dispatcher: str, recompute: str) -> None:
    case, batch = strategy(MOE, f"TP8/PP16/VPP2/EP32/MBS2{recompute}{dispatcher}")
    group = next(groups_of(case, batch))
    affected = affected_stages(group)
    costs, segments = affected.costs, layer_segments(group, affected)
    sums = segments.stage_costs()
    for name in ("forward_s", "backward_input_s", "backward_weight_s"):
        assert getattr(sums, name) == pytest.approx(getattr(costs, name), rel=1e-9), name
    ep = segments.ep_s
    assert ep == pytest.approx(costs.forward_ep_s + costs.backward_ep_s, rel=1e-9)


def test_recompute_of_the_expert_module_brings_its_communication_back() -> None:
    case, batch = strategy(MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}")
    group = next(groups_of(case, batch))
    seconds = layer_segments(group, affected_stages(group)).seconds[0, 8, 0]
    assert seconds[Segment.EXPERTS_R] == pytest.approx(seconds[Segment.EXPERTS_F])
    assert seconds[Segment.DISPATCH_INTER_R] == pytest.approx(seconds[Segment.DISPATCH_INTER_F])
    assert 0 < seconds[Segment.ATTENTION_R] < seconds[Segment.ATTENTION_F]


def test_layers_stand_in_model_order() -> None:
    *_, batch = strategy(DENSE, "TP2/PP2")
    columns = layer_columns(batch.layouts[0])
    assert columns[0, 0] == 1 and columns[0, 1] == 0  # embedding, then decoder layers
    assert columns[1][columns[1] >= 0][-1] == 3  # the head is last


def test_a_batch_gives_what_its_strategies_give_alone() -> None:
    texts = [text for of, text in WITHOUT_OVERLAP if of is DENSE]
    case, _ = strategy(DENSE, texts[0])
    batch = StrategyBatch.concatenate([strategy(DENSE, text)[1] for text in texts])
    together = simulated_step_s(case, batch)
    alone = [float(simulated_step_s(replace(case), strategy(DENSE, text)[1])[0]) for text in texts]  # remembers nothing
    assert together == pytest.approx(alone, rel=1e-12)


def test_a_step_that_was_asked_for_is_remembered_by_its_case_alone() -> None:
    given, batch = strategy(DENSE, "TP2/PP4/VPP2")
    case = replace(given)
    twice = StrategyBatch.concatenate([batch, batch])
    seconds = simulated_step_s(case, twice)
    assert seconds[0] == seconds[1] and list(case.replayed_s.values()) == [seconds[0]]
    faster = replace(case, workload=replace(case.workload, global_batch=case.workload.global_batch // 2))
    assert not faster.replayed_s and simulated_step_s(faster, batch)[0] < seconds[0]


def test_many_micro_batches_are_carried_on_in_a_straight_line() -> None:
    from autodeploy.replay import batch as many
    from autodeploy.replay.request import step_request
    from autodeploy.schedule import simulate

    case, batch = strategy(DENSE, "TP2/PP4/VPP4")
    case = replace(case, workload=replace(case.workload, global_batch=8 * 256))
    asked = step_request(next(groups_of(case, batch)))
    assert asked.request.micro_batches * asked.request.stages > many.MANY_SLOTS
    whole = asked.step_s(simulate(asked.request).step_s)
    assert simulated_step_s(case, batch) == pytest.approx(whole, rel=1e-6)


def test_overlap_masks_expert_communication() -> None:
    serial = simulate_strategy(*strategy(MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}"))
    masked = simulate_strategy(*strategy(MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}/adaptive-pipe"))
    assert serial.masked_frac is not None and serial.masked_frac < 0.1
    assert masked.steady_masked_frac is not None and masked.steady_masked_frac > 0.8
    assert masked.step_s < serial.step_s
    assert np.all(masked.result.busy_s[0, :, 0] < masked.result.pipeline_s[0])


def test_an_overlap_without_lanes_is_the_closed_forms() -> None:
    """On plain 1F1B a paired forward and backward would hold each other up; what is hidden counts as masked."""
    serial = simulate_strategy(*strategy(MOE, f"TP8/PP16/EP32/{SELECTIVE}"))
    hidden = simulate_strategy(*strategy(MOE, f"TP8/PP16/EP32/{SELECTIVE}/1f1b/ep-overlap"))
    assert hidden.ep_s == pytest.approx(serial.ep_s, rel=1e-9) and hidden.step_s < serial.step_s
    assert hidden.masked_frac is not None and 0.4 < hidden.masked_frac < 0.8 and hidden.steady_masked_frac is None


def test_pangu_masks_98_percent_in_the_steady_phase() -> None:
    """Published: over 98% of expert communication masked by Adaptive Pipe with hierarchical all-to-all, +37.5% with both."""
    case = (MOE[0], MOE[1], MOE[2], 4608)
    layout = "layout(noop:61,62,63)"
    serial = simulate_strategy(*_at_8k(strategy(case, f"TP8/PP16/VPP2/EP32/{SELECTIVE}/{layout}")))
    text = f"TP8/PP16/VPP2/EP32/{SELECTIVE}/adaptive-pipe/hierarchical-allgather/{layout}"
    masked = simulate_strategy(*_at_8k(strategy(case, text)))
    assert masked.steady_masked_frac is not None and masked.steady_masked_frac >= 0.98
    assert masked.masked_frac is not None and masked.masked_frac >= 0.95
    assert 1.25 < serial.step_s / masked.step_s < 1.50


def _at_8k(given: tuple) -> tuple:
    case, batch = given
    return replace(case, workload=replace(case.workload, seq_length=8192)), batch

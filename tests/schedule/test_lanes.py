"""Three lanes: the max-plus replay against its own events, a plain longest path, and a simulator that arbitrates."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.schedule import CATALOGUE, SEGMENTS, LayerSegments, Segment, SimulationRequest, simulate
from autodeploy.schedule.adaptive_pipe import adaptive_pipe_with
from autodeploy.schedule.lane_orders import lane_order, ordered_streams
from autodeploy.schedule.operations import B, F, PipelineShape
from autodeploy.schedule.segments import IS_EP
from autodeploy.schedule.timeline import hops, slices
from tests.schedule.cases import moe_layers
from tests.schedule.reference import dynamic

PP, M, VPP = 4, 8, 2


def request(costs: LayerSegments, name: str = "adaptive-pipe", **more: object) -> SimulationRequest:
    return SimulationRequest(
        schedule=name,
        pp=PP,
        vpp=VPP,
        micro_batches=M,
        costs=costs,
        p2p_s=0.05,
        keep_events=True,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("ends", ["none", "warm-up", "cool-down", "both"])
@pytest.mark.parametrize("entry", [e.name for e in CATALOGUE])
def test_events_keep_lanes_and_dependencies(entry: str, ends: str) -> None:
    result = simulate(request(moe_layers(1, PP * VPP, dense_stages=1), lane_order=entry, ends=ends))
    pieces = slices(result)
    assert max(p.end_s for p in pieces) == pytest.approx(result.pipeline_s[0], rel=1e-12)
    for before, after in zip(pieces, pieces[1:], strict=False):
        if (before.rank, before.lane) == (after.rank, after.lane):
            assert after.start_s >= before.end_s - 1e-9, "two segments on one lane at once"
    for hop in hops(result, pieces):
        assert pieces[hop.target].start_s >= hop.arrives_s - 1e-9
    assert len(hops(result, pieces)) == 2 * M * (PP * VPP - 1)
    by_op: dict[tuple[int, int, int], list] = {}
    for p in pieces:
        by_op.setdefault((p.kind, p.stage, p.micro_batch), []).append(p)
    for (kind, stage, _), parts in by_op.items():
        order = [(p.layer, p.segment) for p in sorted(parts, key=lambda p: (p.start_s, p.end_s)) if p.segment < 18]
        if kind == F and lane_order(entry).pieces == 1:
            assert order == sorted(order), f"forward of stage {stage} out of order"
    expected = {(kind, s, i) for kind in (F, B) for s in range(PP * VPP) for i in range(M)}
    assert set(by_op) == expected


@pytest.mark.parametrize("entry", ["sub-layer-1.0", "pieces-2-1.6"])
@pytest.mark.parametrize("ends", ["none", "warm-up"])
@pytest.mark.parametrize("all_to_all", [0.2, 0.6])
def test_static_lists_against_dynamic_arbitration(entry: str, ends: str, all_to_all: float) -> None:
    """Serving lanes in list order costs little against serving whoever is ready; nothing is lost or double counted."""
    costs = moe_layers(1, PP * VPP, layers=1, all_to_all=all_to_all)
    static = simulate(request(costs, lane_order=entry, ends=ends)).pipeline_s[0]
    schedule = adaptive_pipe_with(
        PipelineShape(pp=PP, vpp=VPP, micro_batches=M), pair_warm_up=ends == "warm-up", pair_cool_down=False
    )
    structures = costs.structures()
    sequences = {}
    for order in schedule.orders:
        for slot in order:
            key = (tuple(op[0] for op in slot), tuple(structures[op[1]] for op in slot))
            sequences[key] = ordered_streams(*key, lane_order(entry))
    free = dynamic(schedule, structures, costs.packed()[..., 0], 0.05, sequences)
    assert static == pytest.approx(free, rel=0.05)


def test_no_contention_equals_dynamic_exactly() -> None:
    """Without all-to-alls only the compute lane is left, and its order is the same in both."""
    costs = moe_layers(1, PP * VPP, layers=2, all_to_all=0.0)
    schedule = adaptive_pipe_with(PipelineShape(pp=PP, vpp=VPP, micro_batches=M), False, False)
    structures = costs.structures()
    sequences = {}
    for order in schedule.orders:
        for slot in order:
            key = (tuple(op[0] for op in slot), tuple(structures[op[1]] for op in slot))
            sequences[key] = ordered_streams(*key, lane_order("sub-layer-1.0"))
    free = dynamic(schedule, structures, costs.packed()[..., 0], 0.05, sequences)
    result = simulate(request(costs, lane_order="sub-layer-1.0", ends="none"))
    assert result.pipeline_s[0] == pytest.approx(free, rel=1e-12)
    assert result.masking is None


def test_overlap_hides_all_to_all() -> None:
    costs = moe_layers(1, PP * VPP, all_to_all=0.3)
    adaptive, serial = simulate(request(costs)), simulate(request(costs, overlap="none"))
    plain = simulate(request(costs, name="interleaved"))
    assert serial.masking is not None and adaptive.masking is not None and plain.masking is not None
    for result in (adaptive, serial, plain):
        assert result.masking.ep_s[0] == pytest.approx(M * costs.ep_s.sum())
        assert result.masking.exposed_s[0] <= result.masking.ep_s[0] * (1 + 1e-9)
    assert abs(serial.masking.masked_frac[0]) < 0.05  # what bubbles hide
    assert abs(plain.masking.masked_frac[0]) < 0.05
    assert np.isnan(plain.masking.steady_masked_frac[0])
    assert adaptive.masking.steady_masked_frac[0] > 0.95
    assert adaptive.masking.masked_frac[0] < adaptive.masking.steady_masked_frac[0]
    assert adaptive.pipeline_s[0] < serial.pipeline_s[0]
    no_ep = simulate(request(costs.without_ep()))
    assert no_ep.pipeline_s[0] <= adaptive.pipeline_s[0]


def test_serial_step_is_the_coarse_step() -> None:
    """Nothing overlapped: the same time as one number per stage and direction."""
    costs = moe_layers(2, PP * VPP, dense_stages=1)
    fine = SimulationRequest(schedule="interleaved", pp=PP, vpp=VPP, micro_batches=M, costs=costs, p2p_s=0.05)
    coarse = SimulationRequest(
        schedule="interleaved", pp=PP, vpp=VPP, micro_batches=M, costs=costs.stage_costs(), p2p_s=0.05
    )
    assert simulate(fine).step_s == pytest.approx(simulate(coarse).step_s, rel=1e-12)


def test_pipelined_all_to_all_in_a_serial_step() -> None:
    """One layer, one rank: 4 all-to-alls of 3 s and 2 s each take 3 + 2/4 instead of 3 + 2."""
    seconds = np.zeros((1, 1, 1, SEGMENTS))
    seconds[..., [Segment.ATTENTION_F, Segment.EXPERTS_F, Segment.EXPERTS_B, Segment.ATTENTION_B]] = 1.0
    for segment in Segment:
        if segment.name.endswith(("INTER_F", "INTER_B")):
            seconds[..., segment] = 3.0
        if segment.name.endswith(("INTRA_F", "INTRA_B")):
            seconds[..., segment] = 2.0
    costs = LayerSegments(seconds=seconds)
    for layers, expected in ((costs, 4 + 4 * 5.0), (costs.with_pipelined_all_to_all(4), 4 + 4 * 3.5)):
        asked = SimulationRequest(schedule="1f1b", pp=1, micro_batches=2, costs=layers)
        assert simulate(asked).step_s[0] == pytest.approx(2 * expected)


def test_busy_is_the_sum_of_the_segments() -> None:
    costs = moe_layers(2, PP * VPP)
    result = simulate(
        SimulationRequest(schedule="adaptive-pipe", pp=PP, vpp=VPP, micro_batches=M, costs=costs, p2p_s=0.05)
    )
    ep = np.array(IS_EP)
    assert result.busy_s[:, :, 1:].sum(axis=(1, 2)) == pytest.approx(M * costs.seconds[..., ep].sum(axis=(1, 2, 3)))
    assert result.busy_s[:, :, 0].sum(axis=1) == pytest.approx(M * costs.seconds[..., ~ep].sum(axis=(1, 2, 3)))
    assert result.idle_s == pytest.approx(result.pipeline_s[:, None, None] - result.busy_s)


def test_choice_is_per_scenario_and_never_worse_than_fixed() -> None:
    light, heavy = moe_layers(1, PP * VPP, all_to_all=0.02), moe_layers(1, PP * VPP, all_to_all=0.7)
    both = LayerSegments(seconds=np.concatenate([light.seconds, heavy.seconds]))
    asked = SimulationRequest(
        schedule="adaptive-pipe", pp=PP, vpp=VPP, micro_batches=M, costs=both, p2p_s=0.05, piece_overhead_s=0.1
    )
    result = simulate(asked)
    assert result.lane_order[0] != result.lane_order[1]
    for n, costs in enumerate((light, heavy)):
        fixed = {}
        for entry in CATALOGUE:
            one = SimulationRequest(
                schedule="adaptive-pipe", pp=PP, vpp=VPP, micro_batches=M, costs=costs, p2p_s=0.05,
                piece_overhead_s=0.1, lane_order=entry.name,
            )  # fmt: skip
            fixed[entry.name] = simulate(one).step_s[0]
        assert result.step_s[n] == pytest.approx(fixed[result.lane_order[n]], rel=1e-12)
        assert result.step_s[n] <= min(fixed.values()) * 1.02


def test_dualpipe_pairs_hide_all_to_all_too() -> None:
    costs = moe_layers(1, PP, all_to_all=0.4)
    asked = {"schedule": "dualpipe", "pp": PP, "micro_batches": 16, "costs": costs, "p2p_s": 0.05, "keep_events": True}
    lanes, none = simulate(SimulationRequest(**asked)), simulate(SimulationRequest(**asked, overlap="none"))
    assert lanes.masking is not None and lanes.masking.steady_masked_frac[0] > 0.7
    assert lanes.step_s[0] < 0.85 * none.step_s[0]


def test_recompute_waits_for_nothing_but_its_lane() -> None:
    """Recomputed attention runs while the gradient is still on the wire."""
    costs = moe_layers(1, 2, layers=1, all_to_all=1.0)
    result = simulate(
        SimulationRequest(
            schedule="adaptive-pipe", pp=1, vpp=2, micro_batches=2, costs=costs, keep_events=True,
            lane_order="sub-layer-1.0", ends="none",
        )
    )  # fmt: skip
    pieces = slices(result)
    assert any(p.segment == Segment.ATTENTION_R for p in pieces)
    for p in pieces:
        if p.segment == Segment.EXPERTS_B:
            own = [
                q
                for q in pieces
                if (q.stage, q.micro_batch, q.segment) == (p.stage, p.micro_batch, Segment.ATTENTION_R)
            ]
            assert own[0].end_s <= p.start_s + 1e-9

"""Virtual stages of a group: layer segments in model order that add up to the stage costs after the effects.

Axes: N strategies, S virtual stages, L layers of a stage, C columns of the price list, K segments.
"""

from __future__ import annotations

import numpy as np

from autodeploy.replay.columns import column_segments
from autodeploy.replay.groups import ReplayGroup
from autodeploy.schedule import LayerSegments, Segment
from autodeploy.schedule import StageCosts as StageSeconds
from autodeploy.schedule.segments import IS_EP
from cost_models.step.effects import Affected, with_effects, with_effects_on_computing
from cost_models.step.group import PricedGroup
from cost_models.step.stages import StageCosts, full_share, stage_costs
from cost_models.strategies import F64, I64, Layout

COMPUTE_WITH_EP = (
    Segment.ATTENTION_F, Segment.EXPERTS_F, Segment.ATTENTION_R, Segment.EXPERTS_R, Segment.ATTENTION_B,
    Segment.EXPERTS_B, Segment.EXPERTS_W, Segment.ATTENTION_W,
)  # fmt: skip


def affected_stages(group: ReplayGroup) -> Affected:
    """Stage costs after the effects that the closed form knows. Where expert communication has lanes of its own, the
    replay hides it: it is not taken out here."""
    costs = stage_costs(group.priced)
    return with_effects_on_computing(costs, group.priced) if group.lanes else with_effects(costs, group.priced)


def whole_stages(costs: StageCosts) -> StageSeconds:
    """One number a stage and direction."""
    return StageSeconds(
        forward_s=costs.forward_s, backward_input_s=costs.backward_input_s, backward_weight_s=costs.backward_weight_s
    )


def layer_segments(group: ReplayGroup, affected: Affected) -> LayerSegments:
    """Every layer of every stage in its segments; sums per stage are those of the costs, hidden communication off."""
    chunks = group.case.workload.stack.hierarchical_chunks if group.lanes else 0
    columns = layer_columns(group.layout)
    seconds = _blended(group.priced, columns, chunks)
    hidden_s = -affected.of("ep_comm")
    if hidden_s.any():
        ep = LayerSegments(seconds=seconds).ep_s
        left = 1.0 - np.divide(hidden_s, ep, out=np.zeros_like(ep), where=ep > 0)
        seconds[..., np.array(IS_EP)] *= left[:, :, None, None]
    exact = _blended(group.priced, columns, 0) if chunks > 1 else seconds
    _add_rest(seconds, exact, affected.costs)
    if group.lanes:
        seconds = _slowed(seconds, group, group.case.hardware.overheads.overlap_slowdown_frac)
    return LayerSegments(seconds=seconds)


def layer_columns(layout: Layout) -> I64:
    """Column of each layer of each stage, [S, L], -1 where a stage has fewer: embedding, decoder layers, MTP, head."""
    kinds = layout.counts.shape[1] - 3
    order = [kinds, *range(kinds), kinds + 1, kinds + 2]
    stages = [[c for c in order for _ in range(int(round(row[c])))] for row in layout.counts]
    longest = max(1, *(len(stage) for stage in stages))
    return np.array([stage + [-1] * (longest - len(stage)) for stage in stages], dtype=np.int64)


def _blended(group: PricedGroup, columns: I64, chunks: int) -> F64:
    """[N, S, L, K]; layers under full recompute and those without it in the share that the stage has of them."""
    covered = column_segments(group, group.table.mask, chunks)[:, columns]
    share = full_share(group)[:, :, None, None]
    if not (share == 1.0).all():
        plain = column_segments(group, group.table.plain, chunks)[:, columns]
        covered = share * covered + (1.0 - share) * plain
    covered[:, columns < 0] = 0.0
    return covered


def _add_rest(seconds: F64, exact: F64, costs: StageCosts) -> None:
    """What a stage has beside its layers (parameter gathers, waits for swapped activations) is spread over its layers."""
    found = LayerSegments(seconds=exact).stage_costs()
    present = np.asarray((exact > 0).any(axis=(0, 3)))  # [S, L]
    present[:, 0] |= ~present.any(axis=1)
    share = present / present.sum(axis=1, keepdims=True)
    for segment, whole, part in (
        (Segment.ATTENTION_F, costs.forward_s, found.forward_s),
        (Segment.ATTENTION_B, costs.backward_input_s, found.backward_input_s),
        (Segment.ATTENTION_W, costs.backward_weight_s, found.backward_weight_s),
    ):
        rest = np.maximum(whole - part, 0.0)
        seconds[..., segment] += np.where(rest > 1e-9 * whole, rest, 0.0)[:, :, None] * share


def _slowed(seconds: F64, group: ReplayGroup, slowdown_frac: float) -> F64:
    """Computing and expert communication slow each other while both run: by the closed form's share, that of the steady
    phase."""
    chunks = group.micro_batches * group.layout.vpp
    steady = max(0.0, (chunks - (group.layout.pp - 1)) / chunks)
    communication, slowed = list(np.flatnonzero(IS_EP)), seconds.copy()
    ep, computing = (seconds[..., lanes].sum(axis=(2, 3)) for lanes in (communication, list(COMPUTE_WITH_EP)))
    both = np.minimum(ep, computing)
    for lanes, whole in ((communication, ep), (list(COMPUTE_WITH_EP), computing)):
        beside = np.divide(both, whole, out=np.zeros_like(whole), where=whole > 0)
        slowed[..., lanes] *= (1.0 + slowdown_frac * steady * beside)[:, :, None, None]
    return slowed

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
from cost_models.step.effects import Affected, with_effects
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
    affected = with_effects(stage_costs(group.priced), group.priced)
    return affected.without("ep_comm") if group.lanes else affected


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
    share = full_share(group.batch, group.layout)[:, :, None, None]
    if not (share == 1.0).all():
        plain = column_segments(group, group.table.plain, chunks)[:, columns]
        covered = share * covered + (1.0 - share) * plain
    covered[:, columns < 0] = 0.0
    return covered


def _add_rest(seconds: F64, exact: F64, costs: StageCosts) -> None:
    """What a stage has beside its layers (parameter gathers, waits for swapped activations) goes to its first layer."""
    found = LayerSegments(seconds=exact).stage_costs()
    for segment, whole, part in (
        (Segment.ATTENTION_F, costs.forward_s, found.forward_s),
        (Segment.ATTENTION_B, costs.backward_input_s, found.backward_input_s),
        (Segment.ATTENTION_W, costs.backward_weight_s, found.backward_weight_s),
    ):
        rest = np.maximum(whole - part, 0.0)
        seconds[:, :, 0, segment] += np.where(rest > 1e-9 * whole, rest, 0.0)


def _slowed(seconds: F64, group: ReplayGroup, slowdown_frac: float) -> F64:
    """Computing slows while expert communication runs beside it: by the closed form's share, that of the steady phase."""
    chunks = group.micro_batches * group.layout.vpp
    steady = max(0.0, (chunks - (group.layout.pp - 1)) / chunks)
    ep = LayerSegments(seconds=seconds).ep_s
    computing = seconds[..., list(COMPUTE_WITH_EP)].sum(axis=(2, 3))
    beside = np.divide(np.minimum(ep, computing), computing, out=np.zeros_like(ep), where=computing > 0)
    slowed = seconds.copy()
    slowed[..., list(COMPUTE_WITH_EP)] *= (1.0 + slowdown_frac * steady * beside)[:, :, None, None]
    return slowed

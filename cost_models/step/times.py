"""Seconds of one step by cause along the critical rank, by the closed form.

Axes: N strategies, S virtual stages, P pipeline ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.layer_price import FAMILIES
from cost_models.step.effects import Affected, with_effects, with_effects_on_computing
from cost_models.step.end import (
    RankLoad,
    StepEnd,
    overhead_s,
    rank_load,
    slowed_by_reduction_s,
    step_end,
    straggler_frac,
)
from cost_models.step.group import PricedGroup
from cost_models.step.pipeline import on_lanes, overlapped_pipeline_s, pipeline_s, wait_for_sends
from cost_models.step.stages import StageCosts
from cost_models.strategies import F64, I64

STEP_CAUSES = FAMILIES + ("recompute", "pp_comm", "dp_comm", "swap", "bubble", "optimizer", "overhead", "straggler")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """``by_cause`` [N] each, in the order of ``STEP_CAUSES``; they sum to ``step_s``."""

    step_s: F64
    by_cause: dict[str, F64]
    critical_rank: I64
    busy_s: F64  # [N, P]


def step_times(costs: StageCosts, group: PricedGroup) -> StepTimes:
    """``costs``: stages before any effect."""
    affected = with_effects(costs, group)
    stages, sends = wait_for_sends(affected.costs, group)
    affected = Affected(stages, (*affected.taken, sends))
    load = rank_load(stages, group)
    busy = (load.forward_s + load.backward_s) * group.micro_batches[:, None]
    critical = np.argmax(busy, axis=1)
    times = _busy_causes(affected, group, busy, critical)
    _share_out(times, _pipeline_s(costs, stages, group) - _at(busy, critical))
    for cause, seconds in _end_causes(stages, load, group).items():
        times[cause] = times.get(cause, 0.0) + seconds
    total = np.sum(np.stack(list(times.values())), axis=0)
    times["straggler"] = total * straggler_frac(group)
    by_cause = {cause: times[cause] for cause in STEP_CAUSES}
    return StepTimes(step_s=total + times["straggler"], by_cause=by_cause, critical_rank=critical, busy_s=busy)


def _pipeline_s(costs: StageCosts, stages: StageCosts, group: PricedGroup) -> F64:
    """Seconds of the pipeline, [N]; `costs` before any effect, `stages` after all. What overlaps expert communication
    across micro-batches is priced on lanes, nothing hidden beforehand."""
    lanes = on_lanes(group)
    out = np.empty(len(lanes))
    at, rest = np.flatnonzero(lanes), np.flatnonzero(~lanes)
    if len(at):
        own = group.take(at)
        unhidden, _ = wait_for_sends(with_effects_on_computing(costs.take(at), own).costs, own)
        out[at] = overlapped_pipeline_s(unhidden, own)
    if len(rest):
        out[rest] = pipeline_s(stages.take(rest), group.take(rest))
    return out


def _share_out(times: dict[str, F64], left: F64) -> None:
    """What the pipeline takes beyond the rank's own work is bubble; less than that: more communication is hidden, then
    that of recomputed dispatches."""
    times["bubble"] = left
    for cause in ("ep_comm", "recompute"):
        over = np.minimum(np.maximum(-times["bubble"], 0.0), np.maximum(times[cause], 0.0))
        times[cause], times["bubble"] = times[cause] - over, times["bubble"] + over


def _at(by_rank: F64, rank: I64) -> F64:
    """[N, P] -> [N]"""
    return by_rank[np.arange(len(rank)), rank]


def _busy_causes(affected: Affected, group: PricedGroup, busy: F64, critical: I64) -> dict[str, F64]:
    """What the critical rank is busy with; recompute is what is left."""
    m = group.micro_batches.astype(float)
    prices = group.table.prices
    rank_counts = group.work_by_rank(group.layout.counts.T.astype(float)).T  # [P, C]
    per_layer = prices.forward_s + prices.backward_input_s + prices.backward_weight_s
    family = np.einsum("nc,ncf->nf", rank_counts[critical], group.priced(per_layer)) * m[:, None]
    times = {name: family[:, i] for i, name in enumerate(FAMILIES)}
    for cause in ("ep_comm", "pp_comm", "dp_comm", "swap"):
        times[cause] = times.get(cause, 0.0) + _at(group.work_by_rank(affected.of(cause)), critical) * m
    # What is hidden of recomputed dispatches comes off "recompute", which is the rest of the rank's busy time.
    times["ep_comm"] = np.maximum(times["ep_comm"], 0.0)
    listed = np.sum(np.stack(list(times.values())), axis=0)
    times["recompute"] = _at(busy, critical) - listed
    return times


def _end_causes(stages: StageCosts, load: RankLoad, group: PricedGroup) -> dict[str, F64]:
    end = step_end(load, group)
    return {
        "dp_comm": exposed_after_slack_s(end, stages, group)
        + end.embedding_reduce_s
        + slowed_by_reduction_s(end, load, group),
        "optimizer": end.optimizer_s.max(axis=1),
        "overhead": overhead_s(group),
    }


def exposed_after_slack_s(end: StepEnd, stages: StageCosts, group: PricedGroup) -> F64:
    """Later ranks finish their last backward earlier and start their first forward later, by the stages before them:
    that time hides their gradient reduction and parameter gathering. [N, P] -> [N]."""
    pp = group.layout.pp
    if pp == 1 or group.schedule.v_shaped:
        return end.exposed_s.max(axis=1)
    first = stages.backward_s[:, :pp] + stages.p2p_s[:, None]
    slack = np.cumsum(first, axis=1) - first
    return np.maximum(end.exposed_s - slack, 0.0).max(axis=1)

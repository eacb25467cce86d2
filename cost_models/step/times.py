"""Seconds of one step by cause along the critical rank, by the closed form.

Axes: N strategies, S distinct stages, P distinct ranks, C columns of the price list.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.layer_price import FAMILIES
from cost_models.records import record
from cost_models.step.effects import Affected, with_effects
from cost_models.step.end import (
    RankLoad,
    StepEnd,
    overhead_s,
    rank_load,
    slowed_by_reduction_s,
    step_end,
    straggler_frac,
)
from cost_models.step.geometry import most
from cost_models.step.group import PricedBatch
from cost_models.step.pipeline import pipeline_s, wait_for_sends
from cost_models.step.stages import StageCosts
from cost_models.strategies import F64, I64

STEP_CAUSES = FAMILIES + ("recompute", "pp_comm", "dp_comm", "swap", "bubble", "optimizer", "overhead", "straggler")


Pipeline = Callable[[StageCosts, StageCosts, PricedBatch], F64]


@record(eq=False)
class StepTimes:
    """``by_cause`` [N] each, in the order of ``STEP_CAUSES``; they sum to ``step_s``."""

    step_s: F64
    by_cause: dict[str, F64]
    critical_rank: I64
    busy_s: F64  # [N, P]


def step_times(costs: StageCosts, group: PricedBatch) -> StepTimes:
    """``costs``: stages before any effect."""
    affected = affected_stages(costs, group)
    stages = affected.costs
    load = rank_load(stages, group)
    busy = (load.forward_s + load.backward_s) * group.micro_batches[:, None]
    critical = np.argmax(busy, axis=1)
    times = _busy_causes(affected, group, busy, critical)
    _share_out(times, pipeline_s(costs, stages, group) - _at(busy, critical))
    for cause, seconds in end_causes(stages, load, group).items():
        times[cause] = times.get(cause, 0.0) + seconds
    total = np.sum(np.stack(list(times.values())), axis=0)
    times["straggler"] = total * straggler_frac(group)
    by_cause = {cause: times[cause] for cause in STEP_CAUSES}
    return StepTimes(step_s=total + times["straggler"], by_cause=by_cause, critical_rank=critical, busy_s=busy)


def step_s(costs: StageCosts, group: PricedBatch, pipeline: Pipeline = pipeline_s) -> F64:
    """The sum of ``step_times`` alone, [N]; with another ``pipeline`` than the closed form, a bound."""
    stages = affected_stages(costs, group).costs
    end = sum(end_causes(stages, rank_load(stages, group), group).values())
    return np.asarray((pipeline(costs, stages, group) + end) * (1.0 + group.once(straggler_frac)))


def affected_stages(costs: StageCosts, group: PricedBatch) -> Affected:
    """After all effects, sends that a rank waits for among them."""
    affected = with_effects(costs, group)
    stages, sends = wait_for_sends(affected.costs, group)
    return Affected(stages, (*affected.taken, sends))


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


def _busy_causes(affected: Affected, group: PricedBatch, busy: F64, critical: I64) -> dict[str, F64]:
    """What the critical rank is busy with; recompute is what is left."""
    m = group.micro_batches.astype(float)
    prices = group.table.prices
    per_layer = prices.forward_s + prices.backward_input_s + prices.backward_weight_s
    layers = group.geometry.rank_counts[group.geometry.of, critical]  # [N, C]
    family = np.einsum("nc,ncf->nf", layers, group.priced(per_layer)) * m[:, None]
    times = {name: family[:, i] for i, name in enumerate(FAMILIES)}
    for cause in ("ep_comm", "pp_comm", "dp_comm", "swap"):
        times[cause] = times.get(cause, 0.0) + _at(group.work_by_rank(affected.of(cause)), critical) * m
    # What is hidden of recomputed dispatches comes off "recompute", which is the rest of the rank's busy time.
    times["ep_comm"] = np.maximum(times["ep_comm"], 0.0)
    listed = np.sum(np.stack(list(times.values())), axis=0)
    times["recompute"] = _at(busy, critical) - listed
    return times


def end_causes(stages: StageCosts, load: RankLoad, group: PricedBatch) -> dict[str, F64]:
    """What a step has beside its pipeline, before stragglers, [N] each."""
    end = step_end(load, group)
    return {
        "dp_comm": exposed_after_slack_s(end, stages, group)
        + end.embedding_reduce_s
        + slowed_by_reduction_s(end, load, group),
        "optimizer": most(end.optimizer_s),
        "overhead": overhead_s(group),
    }


def exposed_after_slack_s(end: StepEnd, stages: StageCosts, group: PricedBatch) -> F64:
    """Later ranks finish their last backward earlier and start their first forward later, by the stages before them:
    that time hides their gradient reduction and parameter gathering; not where a V comes back. [N, P] -> [N]."""
    geometry = group.geometry
    slack = geometry.contract(stages.backward_s + stages.p2p_s[:, None], geometry.ahead)
    return most(np.maximum(end.exposed_s - slack, 0.0))

"""What the step asks of a pipeline schedule: its time.

Axes: N strategies, S virtual stages, P ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, Schedule, closed_form_step_s
from cost_models.step.effects import with_effects_on_computing
from cost_models.step.group import PricedBatch, shards_each_use
from cost_models.step.lanes import lane_costs
from cost_models.step.stages import StageCosts, Taken
from cost_models.strategies import F64, I64, SCHEDULES, Bool


def pipeline_s(unaffected: StageCosts, after: StageCosts, group: PricedBatch) -> F64:
    """Seconds from the first forward to the last backward, [N]; ``unaffected`` before any effect, ``after`` after all.

    What overlaps expert communication across micro-batches is priced on lanes, nothing hidden beforehand."""
    out = np.empty(len(group.batch))
    lanes = on_lanes(group)
    for rows, schedule in alike(group, lanes):
        own, chunked = group.take(rows), lanes[rows[0]]
        if chunked:
            costs, _ = wait_for_sends(with_effects_on_computing(unaffected.take(rows), own).costs, own)
        else:
            costs = after.take(rows)
        out[rows] = _closed_form_s(costs, own, schedule, chunked)
    return out


def alike(group: PricedBatch, lanes: Bool) -> Iterator[tuple[I64, Schedule]]:
    """Rows that one closed form prices at once: of a schedule, PP and VPP, all on lanes or none."""
    batch = group.batch
    key = ((batch.schedule * 2 + lanes) << 40) | (batch.pp << 20) | batch.vpp
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(index.reshape(-1), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(index.reshape(-1)))[:-1])
    for start, rows in zip(first, parts, strict=True):
        yield rows, SCHEDULE_TABLE[SCHEDULES[int(batch.schedule[start])]]


def _closed_form_s(costs: StageCosts, group: PricedBatch, schedule: Schedule, lanes: bool) -> F64:
    """Of strategies alike, [N]. On lanes sends go on that between nodes."""
    stage = group.geometry.every_stage()
    pp, vpp = int(group.batch.pp[0]), int(group.batch.vpp[0])
    name, hop_s, on = schedule.name, costs.p2p_s, None
    if lanes:
        assert schedule.overlapped_as is not None
        name, hop_s, on = schedule.overlapped_as, np.zeros_like(hop_s), lane_costs(costs, group, stage)
    parts = (costs.forward_s, costs.backward_input_s, costs.backward_weight_s)
    forward_s, input_s, weight_s = (np.take_along_axis(part, stage, axis=1) for part in parts)
    return closed_form_step_s(
        name, forward_s, input_s, weight_s, hop_s, pp=pp, vpp=vpp, micro_batches=group.micro_batches,
        group=group.micro_batch_group, lanes=on,
    )  # fmt: skip


def on_lanes(group: PricedBatch) -> Bool:
    """Strategies that overlap expert communication across micro-batches on links that no gathers fill, [N]."""
    runs = (group.batch.pp > 1) & group.has("runs_overlapped")
    return group.batch.ep_overlap & runs & ~shards_each_use(group.batch, group.case.workload)


def wait_for_sends(costs: StageCosts, group: PricedBatch) -> tuple[StageCosts, Taken]:
    """Without overlap a rank waits for its sends: they cost each stage as computing does. The replay has lanes for them."""
    if group.case.workload.stack.overlap_p2p:
        return costs, Taken(cause="pp_comm", before=costs, after=costs)
    sends_s = np.where(group.batch.pp > 1, costs.p2p_s, 0.0)[:, None]
    after = replace(
        costs,
        forward_s=costs.forward_s + sends_s,
        backward_input_s=costs.backward_input_s + sends_s,
        p2p_s=np.zeros_like(costs.p2p_s),
    )
    return after, Taken(cause="pp_comm", before=costs, after=after)

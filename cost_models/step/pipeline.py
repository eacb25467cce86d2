"""What the step asks of a pipeline schedule: its time.

Axes: N strategies, S virtual stages, P ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, PipelineCosts, Schedule, closed_forms_s
from cost_models.step.effects import with_effects_on_computing
from cost_models.step.group import PricedBatch, shards_each_use
from cost_models.step.lanes import lane_costs, lane_parts
from cost_models.step.stages import StageCosts, Taken
from cost_models.strategies import F64, I64, SCHEDULES, Bool


def pipeline_s(unaffected: StageCosts, after: StageCosts, group: PricedBatch) -> F64:
    """Seconds from the first forward to the last backward, [N]; ``unaffected`` before any effect, ``after`` after all.

    What overlaps expert communication across micro-batches is priced on lanes, nothing hidden beforehand."""
    out = np.empty(len(group.batch))
    lanes = on_lanes(group)
    asked, places = [], []
    for chunked in (False, True):
        rows = np.flatnonzero(lanes == chunked)
        if not len(rows):
            continue
        own = group.take(rows)
        costs = after.take(rows)
        if chunked:
            costs, _ = wait_for_sends(with_effects_on_computing(unaffected.take(rows), own).costs, own)
        for some, one in _alike(costs, own, chunked):
            places.append(rows[some])
            asked.append(one)
    for place, seconds in zip(places, closed_forms_s(asked), strict=True):
        out[place] = seconds
    return out


def _alike(
    costs: StageCosts, group: PricedBatch, chunked: bool
) -> Iterator[tuple[I64, tuple[Schedule, PipelineCosts]]]:
    """Strategies of a schedule, PP and VPP, and what their closed form takes: of every stage. On lanes (``chunked``) sends go on
    that between nodes."""
    parts = [costs.forward_s, costs.backward_input_s, costs.backward_weight_s]
    every = np.stack([*parts, *lane_parts(costs, group)] if chunked else parts)
    hop_s, batch = costs.p2p_s, group.batch
    for rows in _rows_alike((batch.schedule << 40) | (batch.pp << 20) | batch.vpp):
        stage = group.geometry.take(rows).every_stage().T  # [all stages, rows]
        own = every[:, rows].reshape(len(every), -1).take(stage + every.shape[2] * np.arange(len(rows)), axis=1)
        at = int(rows[0])
        schedule = SCHEDULE_TABLE[SCHEDULES[int(batch.schedule[at])]]
        if chunked:
            assert schedule.overlapped_as is not None
            schedule = SCHEDULE_TABLE[schedule.overlapped_as]
        yield rows, (schedule, PipelineCosts(
            forward_s=own[0], input_s=own[1], weight_s=own[2], p2p_s=np.zeros(len(rows)) if chunked else hop_s[rows],
            micro_batches=group.micro_batches[rows], group=group.micro_batch_group[rows], pp=int(batch.pp[at]),
            vpp=int(batch.vpp[at]), lanes=lane_costs(own[3:], hop_s[rows]) if chunked else None,
        ))  # fmt: skip


def _rows_alike(key: I64) -> list[I64]:
    """Rows of each value, in order."""
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1)


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

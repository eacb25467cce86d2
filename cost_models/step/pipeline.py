"""What the step asks of a pipeline schedule: its time and its in-flight chunks, for a group.

Axes: N strategies, S virtual stages, P ranks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.schedules import closed_form_step_s, in_flight_chunks
from cost_models.step.group import PricedGroup, shards_each_use
from cost_models.step.lanes import lane_costs
from cost_models.step.stages import StageCosts, Taken
from cost_models.strategies import F64


def pipeline_s(costs: StageCosts, group: PricedGroup) -> F64:
    """Seconds from the first forward to the last backward, [N]: stages one after another."""
    layout = group.layout
    return closed_form_step_s(
        group.schedule.name, costs.forward_s, costs.backward_input_s, costs.backward_weight_s, costs.p2p_s, pp=layout.pp,
        vpp=layout.vpp, micro_batches=group.micro_batches, group=group.micro_batch_group,
    )  # fmt: skip


def overlapped_pipeline_s(costs: StageCosts, group: PricedGroup) -> F64:
    """The same with expert communication on lanes of its own, sends on that between nodes; `costs` are those of nothing
    hidden, [N]."""
    layout, schedule = group.layout, group.schedule.overlapped_as
    assert schedule is not None
    return closed_form_step_s(
        schedule, costs.forward_s, costs.backward_input_s, costs.backward_weight_s, np.zeros_like(costs.p2p_s), pp=layout.pp,
        vpp=layout.vpp, micro_batches=group.micro_batches, group=group.micro_batch_group, lanes=lane_costs(costs, group),
    )  # fmt: skip


def on_lanes(group: PricedGroup) -> NDArray[np.bool_]:
    """Strategies that overlap expert communication across micro-batches on links that no gathers fill, [N]."""
    runs = group.layout.pp > 1 and group.schedule.runs_overlapped
    return group.batch.ep_overlap & runs & ~shards_each_use(group.batch, group.case.workload)


def wait_for_sends(costs: StageCosts, group: PricedGroup) -> tuple[StageCosts, Taken]:
    """Without overlap a rank waits for its sends: they cost each stage as computing does. The replay has lanes for them."""
    if group.layout.pp == 1 or group.case.workload.stack.overlap_p2p:
        return costs, Taken.between("pp_comm", costs, costs)
    after = replace(
        costs,
        forward_s=costs.forward_s + costs.p2p_s[:, None],
        backward_input_s=costs.backward_input_s + costs.p2p_s[:, None],
        p2p_s=np.zeros_like(costs.p2p_s),
    )
    return after, Taken.between("pp_comm", costs, after)


def held_chunks(group: PricedGroup) -> F64:
    """Most chunks that each rank holds, [N, P]. Forward/backward EP overlap runs one more forward ahead."""
    layout, schedule = group.layout, group.schedule
    out = np.empty((len(group.batch), layout.pp))
    overlapped = schedule.overlapped_as or schedule.name
    for ahead in (False, True):
        at = group.batch.ep_overlap == ahead
        if at.any():
            name = overlapped if ahead else schedule.name
            m, g = group.micro_batches[at], group.micro_batch_group[at]
            out[at] = in_flight_chunks(name, layout.pp, layout.vpp, m, g)
    return out

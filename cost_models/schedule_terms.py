"""What the step model asks of a pipeline schedule: its time and its in-flight chunks, for a batch of one layout.

Axes: N strategies, S virtual stages, P ranks.
"""

from __future__ import annotations

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, closed_form_step_s, in_flight_chunks
from cost_models.stages import StageCosts
from cost_models.strategies import F64, I64, Layout, StrategyBatch


def pipeline_s(schedule: str, costs: StageCosts, layout: Layout, micro_batches: I64, group: I64) -> F64:
    """Seconds from the first forward to the last backward, [N]."""
    return closed_form_step_s(
        schedule, costs.forward_s, costs.backward_input_s, costs.backward_weight_s, costs.p2p_s, pp=layout.pp,
        vpp=layout.vpp, micro_batches=micro_batches, group=group,
    )  # fmt: skip


def held_chunks(schedule: str, layout: Layout, micro_batches: I64, group: I64, batch: StrategyBatch) -> F64:
    """Most chunks that each rank holds, [N, P]. Forward/backward EP overlap runs one more forward ahead."""
    out = np.empty((len(batch), layout.pp))
    overlapped = SCHEDULE_TABLE[schedule].overlapped_as or schedule
    for ahead in (False, True):
        at = batch.ep_overlap == ahead
        if at.any():
            name = overlapped if ahead else schedule
            out[at] = in_flight_chunks(name, layout.pp, layout.vpp, micro_batches[at], group[at])
    return out

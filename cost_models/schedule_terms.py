"""What the step model asks of a pipeline schedule: its time and its in-flight chunks, for a batch of one layout.

Axes: N strategies, S virtual stages, P ranks.
"""

from __future__ import annotations

import numpy as np

from cost_models.pipeline import CLOSED_FORMS, closed_form_step_s, in_flight_chunks
from cost_models.stages import StageCosts
from cost_models.strategies import F64, I64, Layout, StrategyBatch

V_SHAPED = ("zb-v", "zb-v-half", "zb-v-min", "dualpipev")


def pipeline_s(schedule: str, costs: StageCosts, layout: Layout, micro_batches: I64, group: I64) -> F64:
    """Seconds from the first forward to the last backward, [N]."""
    forward, inputs, weights = costs.forward_s, costs.backward_input_s, costs.backward_weight_s
    if layout.pp == 1:
        return micro_batches * (forward + inputs + weights).sum(axis=1)
    name, vpp = schedule, layout.vpp
    if name not in CLOSED_FORMS:  # ZB-V orders: each rank's two chunks as one stage of the automatic order
        name, vpp = "zb-1p", 1
        forward, inputs, weights = (_fold(x, layout.pp) for x in (forward, inputs, weights))
    return closed_form_step_s(
        name, forward, inputs, weights, costs.p2p_s, pp=layout.pp, vpp=vpp, micro_batches=micro_batches, group=group
    )


def _fold(stage_s: F64, pp: int) -> F64:
    """Rank r holds stages r and 2p - 1 - r: [N, 2P] -> [N, P]."""
    return stage_s[:, :pp] + stage_s[:, : pp - 1 : -1]


def held_chunks(schedule: str, layout: Layout, micro_batches: I64, group: I64, batch: StrategyBatch) -> F64:
    """Most chunks that each rank holds, [N, P]. Forward/backward EP overlap runs one more forward ahead."""
    if schedule == "none":
        return np.ones((len(batch), layout.pp))
    out = np.empty((len(batch), layout.pp))
    shapes = np.stack([micro_batches, group, batch.ep_overlap.astype(np.int64)], axis=1)
    for m, g, ahead in np.unique(shapes, axis=0):
        at = (micro_batches == m) & (group == g) & (batch.ep_overlap == bool(ahead))
        name = "adaptive-pipe" if ahead and schedule == "interleaved" else schedule
        out[at] = in_flight_chunks(name, pp=layout.pp, vpp=layout.vpp, micro_batches=int(m), group=int(g))
    return out

"""Expert communication of one micro-batch under the computing of another, in closed form.

Axes: N strategies, S virtual stages. The event simulator replays the same; this is what screening uses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.step.group import PricedBatch
from cost_models.step.stages import StageCosts, Taken
from cost_models.strategies import F64

# MindSpeed states for its forward/backward overlap: all of it hidden in the steady phase, half of it in warm-up and cool-down
# (docs/zh/features, --moe-fb-overlap). Adaptive Pipe overlaps two micro-batches of one direction there, to the same effect.
ENDS_HIDDEN_FRAC = 0.5


def hide_expert_communication(costs: StageCosts, group: PricedBatch) -> tuple[StageCosts, Taken]:
    """Takes the hidden share out of the stages' forward and backward seconds."""
    if not group.batch.ep_overlap.any():
        return costs, Taken(cause="ep_comm", before=costs, after=costs)
    ep = costs.forward_ep_s + costs.backward_ep_s
    computing = costs.forward_s + costs.backward_s - ep
    # P2P that is not waited for runs under the same computing, on the same links.
    sends = 2.0 * costs.p2p_s[:, None] if group.case.workload.stack.overlap_p2p else 0.0
    hidden = np.minimum(ep, np.maximum(computing - sends, 0.0)) * hidden_share(group)
    # Computing slows while it runs beside communication, so what is hidden is not all gained.
    gained = hidden * (1.0 - group.case.hardware.overheads.overlap_slowdown_frac)
    ratio = np.divide(gained, ep, out=np.zeros_like(ep), where=ep > 0)
    after = replace(
        costs,
        forward_s=costs.forward_s - ratio * costs.forward_ep_s,
        backward_input_s=costs.backward_input_s - ratio * costs.backward_ep_s,
    )
    return after, Taken(cause="ep_comm", before=costs, after=after)


def hidden_share(group: PricedBatch) -> F64:
    """Share of what can be hidden that is: all of it in the steady phase, some at the ends; 0 without overlap. [N, 1]."""
    chunks = group.micro_batches.astype(float) * group.batch.vpp
    # Without a pipeline the first forward and the last backward are alone, too (MindSpeed, no_pipelining_schedules.py).
    alone = np.maximum(group.batch.pp - 1, 1)
    steady = np.clip((chunks - alone) / chunks, 0.0, 1.0)
    ends = np.where(group.has("pairs_ends"), ENDS_HIDDEN_FRAC, 0.0)
    return np.where(group.batch.ep_overlap, steady + ends * (1.0 - steady), 0.0)[:, None]

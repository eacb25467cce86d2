"""Expert communication of one micro-batch under the computing of another, in closed form.

Axes: N strategies, S virtual stages. The event simulator replays the same; this is what screening uses.
"""

from __future__ import annotations

import numpy as np

from cost_models.inputs import HardwareProfile
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.stages import StageCosts
from cost_models.strategies import F64, I64, Layout, StrategyBatch

# MindSpeed states for its forward/backward overlap: all of it hidden in the steady phase, half of it in warm-up and cool-down
# (docs/zh/features, --moe-fb-overlap). Adaptive Pipe overlaps two micro-batches of one direction there, to the same effect.
ENDS_HIDDEN_FRAC = 0.5


def hide_expert_communication(
    costs: StageCosts,
    batch: StrategyBatch,
    layout: Layout,
    schedule: str,
    micro_batches: I64,
    hardware: HardwareProfile,
) -> F64:
    """Takes the hidden share out of the stages' forward and backward seconds; returns it per micro-batch, [N, S]."""
    overlap = batch.ep_overlap
    if not overlap.any():
        return np.zeros_like(costs.forward_s)
    ep = costs.forward_ep_s + costs.backward_ep_s
    computing = costs.forward_s + costs.backward_input_s + costs.backward_weight_s - ep
    pair = np.minimum(ep, computing)
    chunks = micro_batches.astype(float) * layout.vpp
    steady = np.clip((chunks - (layout.pp - 1)) / chunks, 0.0, 1.0)
    ends = ENDS_HIDDEN_FRAC if SCHEDULE_TABLE[schedule].pairs_ends else 0.0
    share = np.where(overlap, steady + ends * (1.0 - steady), 0.0)[:, None]
    hidden = pair * share
    # Computing slows while it runs beside communication, so what is hidden is not all gained.
    gained = hidden * (1.0 - hardware.overheads.overlap_slowdown_frac)
    ratio = np.divide(gained, ep, out=np.zeros_like(ep), where=ep > 0)
    costs.forward_s = costs.forward_s - ratio * costs.forward_ep_s
    costs.backward_input_s = costs.backward_input_s - ratio * costs.backward_ep_s
    return gained

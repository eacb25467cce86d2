"""Activation swap to the host: saved bytes leave during the forward and return during the backward of a stage.

What is swapped is the attention half's part of the saved tensors, as MindSpeed's swap-attention does.

Axes: N strategies, S virtual stages.
"""

from __future__ import annotations

import numpy as np

from cost_models.inputs import HardwareProfile
from cost_models.stages import StageCosts
from cost_models.strategies import StrategyBatch


def swap_activations(costs: StageCosts, batch: StrategyBatch, hardware: HardwareProfile) -> None:
    """Lengthens a stage to the time its swapped share needs on the host link, where computing does not cover it."""
    if not batch.swap_frac.any():
        return
    link_s = costs.swapped_bytes / hardware.overheads.host_link_bytes_per_s
    backward = costs.backward_input_s + costs.backward_weight_s
    costs.forward_s = np.maximum(costs.forward_s, link_s)
    costs.backward_input_s = costs.backward_input_s + np.maximum(link_s - backward, 0.0)

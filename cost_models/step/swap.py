"""Activation swap to the host: saved bytes leave during the forward and return during the backward of a stage.

What is swapped is the attention half's part of the saved tensors, as MindSpeed's swap-attention does.

Axes: N strategies, S virtual stages.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.step.group import PricedBatch
from cost_models.step.stages import StageCosts, Taken


def swap_activations(costs: StageCosts, group: PricedBatch) -> tuple[StageCosts, Taken]:
    """Lengthens a stage to the time its swapped share needs on the host link, where computing does not cover it."""
    if not group.batch.swap_frac.any():
        return costs, Taken(cause="swap", before=costs, after=costs)
    hardware = group.case.hardware
    # In a pipeline one micro-batch leaves while another comes back; without one, forward and backward take turns.
    rate = np.where(group.batch.pp > 1, hardware.host_swap_bytes_per_s, hardware.host_copy_bytes_per_s)
    link_s = costs.swapped_bytes / rate[:, None]
    backward = np.maximum(costs.backward_s, link_s)
    # The input gradient waits for what comes back, the weight part is the rest: neither shrinks when computing grows.
    inputs = np.minimum(np.maximum(costs.backward_input_s, link_s), backward)
    after = replace(
        costs,
        forward_s=np.maximum(costs.forward_s, link_s),
        backward_input_s=inputs,
        backward_weight_s=backward - inputs,
    )
    return after, Taken(cause="swap", before=costs, after=after)

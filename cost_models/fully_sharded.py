"""ZeRO-3 / FSDP: parameters are gathered before each use, gradients scattered after each micro-batch.

Axes: N strategies, S virtual stages. Gathers run under the computing of the layer before; a stage costs the larger of the
two, and its first gather and last scatter are exposed.
"""

from __future__ import annotations

import numpy as np

from cost_models.communication import ring_s
from cost_models.inputs import HardwareProfile, Workload
from cost_models.layer_price import LayerPrices
from cost_models.stages import StageCosts
from cost_models.strategies import F64, Layout, StrategyBatch


def gather_parameters(
    costs: StageCosts, prices: LayerPrices, batch: StrategyBatch, layout: Layout, hardware: HardwareProfile, workload: Workload
) -> None:
    """Adds exposed parameter gathers and gradient scatters to the stages of ZeRO-3 strategies."""
    sharded = batch.zero_stage >= 3
    if not sharded.any():
        return
    counts = layout.counts.T
    parameters = (prices.dense_parameters + prices.expert_parameters)[costs.point] @ counts
    size = np.broadcast_to((batch.dp * batch.cp).astype(float)[:, None], parameters.shape)
    stride = np.broadcast_to(batch.tp.astype(float)[:, None], parameters.shape)
    layers = np.maximum(layout.layers_per_stage, 1.0)[None, :]
    gather = _by_layer(ring_s, "all_gather", parameters * workload.weight_bytes, layers, size, stride, hardware)
    scatter = _by_layer(ring_s, "reduce_scatter", parameters * workload.grad_reduce_bytes, layers, size, stride, hardware)
    slow = hardware.overheads.overlap_slowdown_frac
    on = sharded[:, None]
    forward = np.maximum(costs.forward_s + slow * np.minimum(gather, costs.forward_s), gather) + gather / layers
    backward = costs.backward_input_s + costs.backward_weight_s
    wire = gather + scatter
    longer = np.maximum(backward + slow * np.minimum(wire, backward), wire) + scatter / layers
    costs.forward_s = np.where(on, forward, costs.forward_s)
    costs.backward_input_s = np.where(on, costs.backward_input_s + longer - backward, costs.backward_input_s)


def _by_layer(
    collective: object, op: str, size_bytes: F64, layers: F64, size: F64, stride: F64, hardware: HardwareProfile
) -> F64:
    """One collective per layer: latency counts once for each."""
    return layers * ring_s(op, size_bytes / layers, size, stride, hardware)

"""Model FLOPs: what MFU counts. Convention: causal attention halved, head and MTP in, no recompute."""

from __future__ import annotations

from cost_models.inputs import FeedForward, LayerKind, ModelSpec, Workload
from cost_models.mixers.table import mixer_of

FLOPS_CONVENTION = "causal attention, head and MTP, no recompute"


def feed_forward_flop(ffn: FeedForward, hidden: int) -> float:
    """Forward FLOPs per token: active experts only."""
    matrices = 3 if ffn.gated else 2
    if not ffn.is_moe:
        return 2.0 * matrices * hidden * ffn.width
    return 2.0 * (matrices * hidden * (ffn.top_k * ffn.width + ffn.shared_width) + hidden * ffn.experts)


def layer_flop(kind: LayerKind, model: ModelSpec, workload: Workload) -> float:
    flop = 0.0
    if kind.attention is not None:
        flop = mixer_of(kind.attention).flop(kind.attention, model.hidden, workload)
    return flop + (feed_forward_flop(kind.feed_forward, model.hidden) if kind.feed_forward else 0.0)


def model_flop_per_token(model: ModelSpec, workload: Workload) -> float:
    """Forward and backward FLOPs per token of the whole model (three times forward)."""
    head = 2.0 * model.hidden * model.vocab
    forward = head + sum(count * layer_flop(kind, model, workload) for kind, count in model.layers)
    module = layer_flop(model.mtp_layer_kind, model, workload) + head + 4.0 * model.hidden**2
    return 3.0 * (forward + model.mtp_modules * module)

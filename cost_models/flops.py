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
    routed = (ffn.latent or hidden) * ffn.expert_calls * ffn.width
    choice = hidden * (ffn.experts + ffn.zero_experts)
    return 2.0 * (matrices * (routed + hidden * ffn.shared_width) + choice + 2 * hidden * ffn.latent)


def layer_flop(kind: LayerKind, model: ModelSpec, workload: Workload) -> float:
    flop = sum(mixer_of(a).flop(a, model.hidden, workload) for a in kind.attentions)
    flop += sum(feed_forward_flop(ffn, model.hidden) for ffn in kind.feed_forwards)
    return flop + 2.0 * kind.side_elements


def model_flop_per_token(model: ModelSpec, workload: Workload) -> float:
    """Forward and backward FLOPs per token of the whole model (three times forward)."""
    head = 2.0 * model.hidden * model.vocab
    forward = head + sum(count * layer_flop(kind, model, workload) for kind, count in model.layers)
    module = layer_flop(model.mtp_layer_kind, model, workload) + head + 4.0 * model.hidden**2
    return 3.0 * (forward + model.mtp_modules * module)

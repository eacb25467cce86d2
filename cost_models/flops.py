"""Model FLOPs: what MFU counts. Convention: causal attention halved, head and MTP in, no recompute."""

from __future__ import annotations

from cost_models.attention_layers import LINEAR_CHUNK, score_pairs
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec, Workload

FLOPS_CONVENTION = "causal attention, head and MTP, no recompute"


def attention_flop(a: Attention, hidden: int, workload: Workload) -> float:
    """Forward FLOPs per token of one attention half: projections and the score products."""
    if a.kind == "mla":
        q = hidden * a.q_lora_rank + a.q_lora_rank * a.query_heads * a.head_dim if a.q_lora_rank else (
            hidden * a.query_heads * a.head_dim
        )  # fmt: skip
        kv = hidden * (a.kv_lora_rank + a.qk_rope_head_dim)
        kv += a.kv_lora_rank * a.query_heads * (a.qk_nope_head_dim + a.v_head_dim)
        weights = q + kv + a.query_heads * a.v_head_dim * hidden
    elif a.kind == "softmax":
        gate = a.query_heads * a.v_head_dim if a.output_gate else 0
        weights = hidden * (
            a.query_heads * (a.head_dim + a.v_head_dim) + a.kv_heads * (a.head_dim + a.v_head_dim) + gate
        )
    else:
        values = a.value_heads or a.query_heads
        state = a.state_dim or a.head_dim
        keys = 2 * (a.state_groups * a.state_dim if a.kind == "mamba" else a.query_heads * a.head_dim)
        inner = values * a.v_head_dim
        weights = hidden * (3 * inner + keys + 2 * values)
        mixing = 2 * LINEAR_CHUNK * (state + a.v_head_dim) + 4 * state * a.v_head_dim
        return 2.0 * weights + values * mixing
    pairs_per_token = score_pairs(a, workload) / workload.seq_length
    return 2.0 * weights + 2.0 * pairs_per_token * a.query_heads * (a.head_dim + a.v_head_dim)


def feed_forward_flop(ffn: FeedForward, hidden: int) -> float:
    """Forward FLOPs per token: active experts only."""
    matrices = 3 if ffn.gated else 2
    if not ffn.is_moe:
        return 2.0 * matrices * hidden * ffn.width
    return 2.0 * (matrices * hidden * (ffn.top_k * ffn.width + ffn.shared_width) + hidden * ffn.experts)


def layer_flop(kind: LayerKind, model: ModelSpec, workload: Workload) -> float:
    flop = attention_flop(kind.attention, model.hidden, workload) if kind.attention else 0.0
    return flop + (feed_forward_flop(kind.feed_forward, model.hidden) if kind.feed_forward else 0.0)


def model_flop_per_token(model: ModelSpec, workload: Workload) -> float:
    """Forward and backward FLOPs per token of the whole model (three times forward)."""
    head = 2.0 * model.hidden * model.vocab
    forward = head + sum(count * layer_flop(kind, model, workload) for kind, count in model.layers)
    module = layer_flop(model.mtp_layer_kind, model, workload) + head + 4.0 * model.hidden**2
    return 3.0 * (forward + model.mtp_modules * module)

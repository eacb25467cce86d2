"""Rough weight of a layer in time: matmul parameters that one token uses, and attention scores.

Only ranks candidate layouts against each other; the cost models price what is kept. Unit: multiply-adds per token.
"""

from __future__ import annotations

from functools import lru_cache

from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec

SCORE_TOKENS = 4096  # context that a token attends to, for the score term


def attention_weight(hidden: int, a: Attention) -> float:
    """Projections (MHA/GQA: 2h(aq d + g d), MLA: its five factors, linear kinds: as value heads) plus causal scores."""
    scores = a.query_heads * (a.head_dim + a.v_head_dim) * SCORE_TOKENS / 2
    if a.kind == "mla":
        query = hidden * a.q_lora_rank + a.q_lora_rank * a.query_heads * a.head_dim
        if not a.q_lora_rank:
            query = hidden * a.query_heads * a.head_dim
        key_value = hidden * (a.kv_lora_rank + a.qk_rope_head_dim)
        key_value += a.kv_lora_rank * a.query_heads * (a.qk_nope_head_dim + a.v_head_dim)
        return query + key_value + a.query_heads * a.v_head_dim * hidden + scores
    if a.kind == "softmax":
        per_token = a.query_heads * (a.head_dim + a.v_head_dim) + a.kv_heads * (a.head_dim + a.v_head_dim)
        if a.window_tokens:
            scores = a.query_heads * (a.head_dim + a.v_head_dim) * min(a.window_tokens, SCORE_TOKENS / 2)
        return hidden * per_token + scores
    values = max(a.value_heads, a.query_heads)
    return hidden * (2 * a.query_heads * a.head_dim + 2 * values * a.v_head_dim)


def feed_forward_weight(hidden: int, f: FeedForward) -> float:
    """Matrices of the dense or of the top-k and shared experts."""
    width = f.width * f.top_k + f.shared_width if f.is_moe else f.width
    return hidden * width * (3 if f.gated else 2)


@lru_cache(maxsize=4096)
def layer_weight(hidden: int, kind: LayerKind) -> float:
    attention = attention_weight(hidden, kind.attention) if kind.attention else 0.0
    return attention + (feed_forward_weight(hidden, kind.feed_forward) if kind.feed_forward else 0.0)


def head_weight(model: ModelSpec) -> float:
    return float(model.hidden * model.vocab)


def mtp_weight(model: ModelSpec) -> float:
    """All MTP modules: a layer, the 2h -> h projection and the head once more, each."""
    one = layer_weight(model.hidden, model.mtp_layer_kind) + 2 * model.hidden**2 + head_weight(model)
    return model.mtp_modules * one

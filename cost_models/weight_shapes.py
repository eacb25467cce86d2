"""Weight tensors that a card holds of one layer, as element counts: what a weight gradient or an optimizer step copies.

Axis: N strategies.
"""

from __future__ import annotations

import numpy as np

from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec, Workload
from cost_models.parameters import padded_vocab
from cost_models.strategies import F64, StrategyBatch


def attention_weights(a: Attention, hidden: int, tp: F64) -> list[F64]:
    """Projections of the token mixer, sharded over TP but for the down-projections of MLA. [N] each."""
    h = float(hidden)
    if a.kind == "mla":
        heads = a.query_heads / tp
        narrow = h * (a.kv_lora_rank + a.qk_rope_head_dim)
        query = [np.full_like(tp, h * a.q_lora_rank), a.q_lora_rank * heads * a.head_dim]
        if not a.q_lora_rank:
            query = [h * heads * a.head_dim]
        up = a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim)
        return [*query, np.full_like(tp, narrow), up, heads * a.v_head_dim * h]
    values = a.value_heads or a.query_heads
    inputs = a.query_heads * a.head_dim + a.kv_heads * (a.head_dim + a.v_head_dim)
    return [h * inputs / tp, values * a.v_head_dim * h / tp]


def dense_weights(width: float, gated: bool, hidden: int, tp: F64) -> list[F64]:
    return [hidden * width * (2.0 if gated else 1.0) / tp, hidden * width / tp]


def expert_weights(ffn: FeedForward, hidden: int, batch: StrategyBatch, as_one: bool) -> list[F64]:
    """Of one local expert, or of all local experts in one tensor (Megatron's legacy GroupedMLP, MindSpeed)."""
    together = ffn.experts / batch.ep if as_one else 1.0
    return [weight * together for weight in dense_weights(float(ffn.width), ffn.gated, hidden, batch.etp.astype(float))]


def layer_weights(
    kind: LayerKind, model: ModelSpec, batch: StrategyBatch, workload: Workload
) -> tuple[list[F64], list[F64]]:
    """(dense, expert) weight tensors of one layer, elements a card, [N] each."""
    tp = batch.tp.astype(float)
    dense = attention_weights(kind.attention, model.hidden, tp) if kind.attention is not None else []
    expert: list[F64] = []
    ffn = kind.feed_forward
    if ffn is not None and ffn.is_moe:
        as_one = workload.stack.grouped_gemm and not workload.stack.transformer_engine
        expert = expert_weights(ffn, model.hidden, batch, as_one)
        if ffn.shared_width:
            dense += dense_weights(float(ffn.shared_width), ffn.gated, model.hidden, tp)
    elif ffn is not None:
        dense += dense_weights(float(ffn.width), ffn.gated, model.hidden, tp)
    return dense, expert


def vocabulary_weight(model: ModelSpec, batch: StrategyBatch) -> F64:
    """Embedding or head, elements a card. [N]."""
    sizes = {int(t): padded_vocab(model.vocab, int(t)) / t for t in np.unique(batch.tp)}
    return np.array([sizes[int(t)] for t in batch.tp], dtype=float) * model.hidden

"""Weight tensors that a card holds of one layer, as element counts: what a weight gradient or an optimizer step copies.

Axis: N strategies.
"""

from __future__ import annotations

import numpy as np

from cost_models.inputs import FeedForward, LayerKind, ModelSpec, Workload
from cost_models.mixers.table import mixer_of
from cost_models.parameters import padded_vocab
from cost_models.strategies import F64, StrategyBatch


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
    dense = [weight for a in kind.attentions for weight in mixer_of(a).weights(a, model.hidden, tp)]
    expert: list[F64] = []
    for ffn in kind.feed_forwards:
        if not ffn.is_moe:
            dense += dense_weights(float(ffn.width), ffn.gated, model.hidden, tp)
            continue
        as_one = workload.stack.grouped_gemm and not workload.stack.transformer_engine
        expert += expert_weights(ffn, ffn.latent or model.hidden, batch, as_one)
        if ffn.shared_width:
            dense += dense_weights(float(ffn.shared_width), ffn.gated, model.hidden, tp)
        if ffn.latent:
            dense += [np.full_like(tp, model.hidden * ffn.latent)] * 2
    if kind.side_elements:
        dense.append(np.full_like(tp, kind.side_elements))
    return dense, expert


def vocabulary_weight(model: ModelSpec, batch: StrategyBatch) -> F64:
    """Embedding or head, elements a card. [N]."""
    tp = batch.tp.tolist()
    rows = {t: padded_vocab(model.vocab, t) / t for t in set(tp)}
    return np.array([rows[t] for t in tp], dtype=float) * model.hidden

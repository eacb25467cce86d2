"""Rough weight of a layer in time: matmul parameters that one token uses, and attention scores.

Only ranks candidate layouts against each other; the cost models price what is kept. Unit: multiply-adds per token.
"""

from __future__ import annotations

from functools import lru_cache

from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec, Workload
from cost_models.mixers.table import mixer_of

SCORE_TOKENS = 4096  # context that a token attends to, for the score term
CONTEXT = Workload(seq_length=SCORE_TOKENS, global_batch=1)


def attention_weight(hidden: int, a: Attention) -> float:
    """Projections, and what the mixer does between them over a context of SCORE_TOKENS."""
    return mixer_of(a).flop(a, hidden, CONTEXT) / 2.0


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

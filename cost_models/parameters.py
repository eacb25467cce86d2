"""How many parameters a model, a layer and a pipeline stage hold, in three buckets by how they are sharded.

Whole numbers, exact: norms and biases included. h hidden, a query heads, g KV heads, d head dim, f width, E experts.
The buckets and their divisors are Megatron's (Megatron-Bridge PR 3744): TP-sharded / TP, replicated / 1,
routed experts / (EP x ETP).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.errors import ConfigError
from cost_models.inputs import FeedForward, LayerKind, ModelSpec
from cost_models.mixers.table import mixer_of

VOCAB_MULTIPLE = 128  # Megatron-LM --make-vocab-size-divisible-by default, multiplied by TP


# -------------------------------------------------------------------------------------------------- feed-forward


def _mlp(h: int, f: int, gated: bool, bias: bool) -> tuple[int, int]:
    """(sharded, replicated) parameters of one MLP: 3hf gated, 2hf plain; the output bias is replicated."""
    up = 2 * f if gated else f
    return h * up + f * h + (up if bias else 0), h if bias else 0


def feed_forward_parameters(ffn: FeedForward, hidden: int) -> LayerParameters:
    """Dense MLP, or router, routed and shared experts. Expert biases go with their expert."""
    if not ffn.is_moe:
        return LayerParameters(*_mlp(hidden, ffn.width, ffn.gated, ffn.bias))
    shared, shared_bias = _mlp(hidden, ffn.shared_width, ffn.gated, ffn.bias) if ffn.shared_width else (0, 0)
    replicated = hidden * (ffn.experts + ffn.zero_experts) + shared_bias
    replicated += ffn.experts if ffn.router_bias else 0
    replicated += 2 * hidden * ffn.latent  # down before dispatch, up after combine
    replicated += hidden if ffn.shared_gate else 0
    return LayerParameters(
        shared, replicated, ffn.experts * sum(_mlp(ffn.latent or hidden, ffn.width, ffn.gated, ffn.bias))
    )


def layer_parameters(kind: LayerKind, hidden: int, norm_bias: bool) -> LayerParameters:
    """One block of this kind, unsharded, in three buckets."""
    beside = kind.extra_parameters + kind.side_elements
    buckets = LayerParameters(0, kind.norms * norm_weights(hidden, norm_bias) + beside)
    for attention in kind.attentions:
        buckets += mixer_of(attention).parameters(attention, hidden, norm_bias)
    for feed_forward in kind.feed_forwards:
        buckets += feed_forward_parameters(feed_forward, hidden)
    return buckets


# -------------------------------------------------------------------------------------------------- whole models


def padded_vocab(vocab: int, tp: int) -> int:
    """Rows of the embedding as Megatron pads it: the next multiple of 128 x TP (151936 -> 152576 at TP8)."""
    multiple = VOCAB_MULTIPLE * tp
    return -(-vocab // multiple) * multiple


def embedding_parameters(model: ModelSpec, vocab: int = 0) -> LayerParameters:
    """Input embedding, learned positions and the norm after them. ``vocab``: padded rows, 0 for the model's own."""
    positions = model.learned_positions * model.hidden
    norm = norm_weights(model.hidden, model.norm_bias) if model.embedding_norm else 0
    return LayerParameters((vocab or model.vocab) * model.hidden + model.extra_embedding, positions + norm)


def head_parameters(model: ModelSpec, vocab: int = 0) -> LayerParameters:
    """Output projection (nothing if tied to the embedding), its bias, and the final norm."""
    rows = vocab or model.vocab
    weights = 0 if model.tied_embeddings else rows * model.hidden
    return LayerParameters(
        weights + (rows if model.head_bias else 0), norm_weights(model.hidden, model.norm_bias) + model.extra_head
    )


def mtp_parameters(model: ModelSpec) -> LayerParameters:
    """One multi-token-prediction module: a layer of its kind, the 2h -> h projection, two input norms and a final one.

    Source: DeepSeek-V3, arXiv 2412.19437, section 2.2. Embedding and head are shared, not counted.
    """
    extra = LayerParameters(2 * model.hidden * model.hidden, 3 * norm_weights(model.hidden, model.norm_bias))
    return layer_parameters(model.mtp_layer_kind, model.hidden, model.norm_bias) + extra


def active_layer_parameters(kind: LayerKind, hidden: int, norm_bias: bool) -> int:
    """Parameters of one block that one token uses: top_k of the routed experts."""
    buckets = layer_parameters(kind, hidden, norm_bias)
    visited = 0.0
    for ffn in kind.feed_forwards:
        if ffn.is_moe:
            visited += feed_forward_parameters(ffn, hidden).routed_experts // ffn.experts * ffn.expert_calls
    return buckets.tp_sharded + buckets.replicated + round(visited)


@lru_cache(maxsize=64)
def model_parameters(model: ModelSpec, *, active_only: bool) -> int:
    """Parameters of the whole model: both embedding matrices in (one if tied), MTP modules out."""
    count = embedding_parameters(model).total + head_parameters(model).total
    for kind, layers in model.layers:
        if active_only:
            count += layers * active_layer_parameters(kind, model.hidden, model.norm_bias)
        else:
            one = layer_parameters(kind, model.hidden, model.norm_bias).total
            count += layers * (one - kind.reused_parameters)
    return count


def model_buckets(model: ModelSpec) -> LayerParameters:
    """The whole model in three buckets, without MTP modules."""
    buckets = embedding_parameters(model) + head_parameters(model)
    for kind, layers in model.layers:
        buckets += layer_parameters(kind, model.hidden, model.norm_bias).times(layers)
    return buckets


def stage_parameters(model: ModelSpec, layers_per_stage: Sequence[int], *, tp: int = 1) -> tuple[LayerParameters, ...]:
    """Buckets of each pipeline stage [S] for consecutive layers: embedding first, MTP and head last.

    With more than one stage the last one holds its own copy of a tied embedding. ``tp`` > 1 pads the vocabulary.
    """
    if sum(layers_per_stage) != model.num_layers:
        allowed = f"whole numbers that sum to {model.num_layers} layers"
        raise ConfigError("layers_per_stage", list(layers_per_stage), allowed)
    vocab = padded_vocab(model.vocab, tp) if tp > 1 else model.vocab
    by_kind = [layer_parameters(kind, model.hidden, model.norm_bias) for kind in model.kinds]
    sequence, start = model.layer_sequence(), 0
    stages: list[LayerParameters] = []
    for count in layers_per_stage:
        stages.append(sum((by_kind[k] for k in sequence[start : start + count]), LayerParameters()))
        start += count
    stages[0] += embedding_parameters(model, vocab)
    stages[-1] += head_parameters(model, vocab)
    if model.tied_embeddings and len(stages) > 1:
        stages[-1] += LayerParameters(vocab * model.hidden)
    if model.mtp_modules:
        stages[-1] += mtp_parameters(model).times(model.mtp_modules)
    return tuple(stages)


def heaviest_stage(stages: Sequence[LayerParameters], *, tp: int = 1, ep: int = 1, etp: int = 1) -> int:
    """Index of the stage whose cards hold the most parameters (user case: never layers / PP)."""
    return max(range(len(stages)), key=lambda s: stages[s].on_card(tp=tp, ep=ep, etp=etp))

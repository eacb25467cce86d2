"""What ``autodeploy models`` prints, as plain data: the list of shipped models, and one model with its counts."""

from __future__ import annotations

from typing import Any

import autodeploy
from autodeploy.models import zoo
from autodeploy.models.document import to_document
from autodeploy.models.load import load_model
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec
from cost_models.parameters import (
    LayerParameters,
    active_layer_parameters,
    embedding_parameters,
    head_parameters,
    layer_parameters,
    model_buckets,
    mtp_parameters,
)

SCHEMA = "autodeploy.models/1"


def list_document() -> dict[str, Any]:
    """The shipped models, one row each."""
    rows = [_row(zoo.zoo_model(name)) | {"source": zoo.zoo_document(name)["source"]} for name in zoo.zoo_names()]
    return {"schema": SCHEMA, "tool_version": autodeploy.__version__, "models": rows}


def model_document(name_or_path: str, assume: str = "") -> dict[str, Any]:
    """One model: its row, its parts with their counts in three buckets, notes, and the model as our YAML has it."""
    model = load_model(name_or_path, assume)
    shipped = zoo.zoo_name(name_or_path)
    source = zoo.zoo_document(shipped)["source"] if shipped else str(name_or_path)
    shown = _row(model) | {
        "source": source,
        "tied_embeddings": model.tied_embeddings,
        "max_seq_length": model.max_seq_length,
        "buckets": _buckets(model_buckets(model)),
        "parts": _parts(model),
        "notes": list(model.notes),
        "unread": list(model.unread),
    }
    document = to_document(model, source)
    return {"schema": SCHEMA, "tool_version": autodeploy.__version__, "model": shown, "document": document}


def _row(model: ModelSpec) -> dict[str, Any]:
    sparse = [half for kind, _ in model.layers for half in kind.feed_forwards if half.is_moe]
    return {
        "name": model.name,
        "parameters": model.parameters(),
        "active_parameters": model.active_parameters(),
        "layers": model.num_layers,
        "hidden": model.hidden,
        "vocab": model.vocab,
        "attention": attention_name(model),
        "experts": sparse[0].experts if sparse else 0,
        "top_k": sparse[0].top_k if sparse else 0,
        "mtp_modules": model.mtp_modules,
    }


def _buckets(parameters: LayerParameters) -> dict[str, int]:
    return {
        "tp_sharded": parameters.tp_sharded,
        "replicated": parameters.replicated,
        "routed_experts": parameters.routed_experts,
    }


def _parts(model: ModelSpec) -> list[dict[str, Any]]:
    """Embedding, each kind of layer, head and MTP module; counts are of one, ``count`` says how many there are."""
    counts: dict[LayerKind, int] = {}
    for kind, layers in model.layers:
        counts[kind] = counts.get(kind, 0) + layers
    parts = [_part("embedding", 1, embedding_parameters(model))]
    for kind, count in counts.items():
        part = layer_parameters(kind, model.hidden, model.norm_bias)
        parts.append(_part(kind_name(kind), count, part, active_layer_parameters(kind, model.hidden, model.norm_bias)))
    parts.append(_part("head", 1, head_parameters(model)))
    if model.mtp_modules:
        module = mtp_parameters(model)
        idle = layer_parameters(model.mtp_layer_kind, model.hidden, model.norm_bias).total - active_layer_parameters(
            model.mtp_layer_kind, model.hidden, model.norm_bias
        )
        parts.append(_part("mtp module (not in the totals)", model.mtp_modules, module, module.total - idle))
    return parts


def _part(name: str, count: int, parameters: LayerParameters, active: int | None = None) -> dict[str, Any]:
    total = parameters.total
    shown = {"part": name, "count": count, "parameters": total}
    return shown | {"active_parameters": total if active is None else active} | _buckets(parameters)


# ------------------------------------------------------------------------------------------- in words


def attention_name(model: ModelSpec) -> str:
    """The kinds of attention of a model in a few words, such as ``GQA`` or ``gated_delta + GQA``."""
    kinds = [attention for kind, _ in model.layers for attention in kind.attentions]
    return " + ".join(dict.fromkeys(_mixer_word(attention) for attention in kinds))


def _mixer_word(attention: Attention) -> str:
    if attention.kind != "softmax":
        return attention.kind.upper() if attention.kind == "mla" else attention.kind
    if attention.window_tokens:
        return "sliding"
    if attention.kv_heads == attention.query_heads:
        return "MHA"
    return "GQA" if attention.kv_heads > 1 else "MQA"


def kind_name(kind: LayerKind) -> str:
    """A layer kind in words, such as ``MLA 128 heads, MoE 8 of 256 x 2048 + shared 2048``."""
    halves = [_attention_words(attention) for attention in kind.attentions]
    halves += [_feed_forward_words(feed_forward) for feed_forward in kind.feed_forwards]
    return ", ".join(halves) or "norms only"


def _attention_words(attention: Attention) -> str:
    word = _mixer_word(attention)
    if attention.window_tokens:
        word = f"sliding {attention.window_tokens}"
    heads = attention.value_heads or attention.query_heads
    if attention.kind == "softmax" and attention.kv_heads != attention.query_heads:
        return f"{word} {heads}/{attention.kv_heads} heads x {attention.head_dim}"
    return f"{word} {heads} heads x {attention.v_head_dim}"


def _feed_forward_words(half: FeedForward) -> str:
    gate = "gated" if half.gated else "plain"
    if not half.is_moe:
        return f"dense {half.width} {gate}"
    shared = f" + shared {half.shared_width}" if half.shared_width else ""
    return f"MoE {half.top_k} of {half.experts} x {half.width} {gate}{shared}"

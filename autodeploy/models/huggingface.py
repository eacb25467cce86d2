"""Hugging Face ``config.json`` to ``ModelSpec``.

Known families get what their modelling code fixes (``hf_families.py``); any other is read by its generic keys, with a
note. The text part of a multi-modal model is taken, and a note says so. dtype and quantisation keys are ignored: they
say how the checkpoint is stored, not how it is trained. Shape-like keys that nothing read are named (``hf_unread.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models import hf_attention, hf_extras, hf_feed_forward, hf_linear
from autodeploy.models.hf_blocks import block_configs
from autodeploy.models.hf_families import ENCODERS, Family, find_family
from autodeploy.models.hf_keys import Keys, text_part
from autodeploy.models.hf_unread import unread_keys
from autodeploy.models.hf_words import LINEAR, MLP, MOE, NONE, SLIDING, Words, layer_count, layer_words, mtp_words
from autodeploy.models.runs import MOST_LAYERS, runs_of
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec


def parse_config(document: Mapping[str, Any], name: str = "model", assume: str = "") -> ModelSpec:
    """The language model that a config.json describes. InputError names the key that is missing or wrong.

    ``assume``: what an unknown layer word is taken for ("" makes it an error).
    """
    raw, nested = text_part(document)
    keys, notes = Keys(raw), []
    if nested or any(isinstance(raw.get(part), dict) for part in ("vision_config", "audio_config")):
        notes.append("only the text model is counted, not vision or audio parts")
    model_type, family = _family(raw, notes)
    layers = _layers(keys, model_type)
    reader = _Reader(keys=keys, family=family, model_type=model_type, notes=notes)
    kinds = _kinds(reader, layers, assume)
    ends = hf_extras.model_extra(model_type, keys)
    tied = _tied(keys, family, notes)
    mtp = _mtp_modules(keys)
    model = ModelSpec(
        name=name,
        hidden=keys.count("hidden"),
        vocab=keys.count("vocab"),
        layers=runs_of(kinds),
        tied_embeddings=tied,
        mtp_modules=mtp,
        mtp_kind=_mtp_kind(reader, mtp_words(keys, assume)) if mtp else None,
        norm_bias=family.norm_bias or _layer_norm(keys, family, notes),
        learned_positions=keys.count("max_seq_length", 0) if family.learned_positions else 0,
        embedding_norm=family.embedding_norm,
        head_bias=keys.flag("lm_head_bias", family.head_bias),
        extra_embedding=ends.embedding,
        extra_head=ends.head,
        max_seq_length=keys.count("max_seq_length", 0, least=0),
    )
    unread = unread_keys(keys)
    if unread:
        notes.append(f"not used: {', '.join(unread)}; the model may have more than is counted here")
    return replace(model, notes=tuple(dict.fromkeys(notes)), unread=unread)


def _layers(keys: Keys, model_type: str) -> int:
    layers = layer_count(keys)
    if model_type == "hrm_text":  # two stacks, run in turns
        layers = 2 * keys.count("num_layers_per_stack")
    if layers > MOST_LAYERS:
        raise InputError(keys.found("layers")[0], layers, f"a whole number <= {MOST_LAYERS}")
    return layers


def _family(raw: Mapping[str, Any], notes: list[str]) -> tuple[str, Family]:
    architectures = raw.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    model_type = raw.get("model_type") if isinstance(raw.get("model_type"), str) else ""
    name = str(model_type).lower().replace("-", "_")
    if name in ENCODERS or raw.get("is_encoder_decoder") is True:
        raise InputError("model_type", model_type, "a decoder-only language model", "encoders are not priced")
    family = find_family(str(model_type), architecture)
    if not family.known:
        shown = model_type or architecture or "not stated"
        notes.append(
            f"unknown architecture ({shown}): read by its generic keys; `models --check` compares it with transformers"
        )
    return name, family


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """What every layer of one configuration is read with."""

    keys: Keys
    family: Family
    model_type: str
    notes: list[str]


def _kinds(reader: _Reader, layers: int, assume: str) -> list[LayerKind]:
    """The block of every layer; equal words and equal per-layer values give equal blocks, read once."""
    keys, family = reader.keys, reader.family
    if keys.has("block_configs"):
        return block_configs(keys, family, layers, reader.notes)
    words = layer_words(keys, family, layers, reader.notes, assume)
    windows = hf_attention.windows(keys, family, [word.mixer for word in words], reader.notes)
    experts = hf_feed_forward.moe_layers(keys, layers)
    gated = hf_feed_forward.is_gated(keys, family, reader.notes)
    shared_kv = keys.count("num_kv_shared_layers", 0, least=0)
    raw_words = keys.per_layer("layer_types", layers)
    known: dict[Any, LayerKind] = {}
    kinds: list[LayerKind] = []
    for i, word in enumerate(words):
        typed = str(raw_words[i]) if raw_words is not None else ""
        sparse = word.feed_forward == MOE or (word.feed_forward == MLP and experts[i])
        mark = (word, windows[i], sparse, typed, i >= layers - shared_kv, keys.signature(i, layers), _looped(keys, i))
        if mark not in known:
            own = replace(reader, keys=keys.at(i))
            known[mark] = _block(own, word, windows[i], sparse, gated, typed)
        kinds.append(known[mark])
    if family.shared_block:
        return _share(kinds)
    return kinds


def _mtp_kind(reader: _Reader, words: Sequence[Words]) -> LayerKind | None:
    """One block with all the halves that a module lists; None where it lists none: as the last layer."""
    if not words:
        return None
    gated = hf_feed_forward.is_gated(reader.keys, reader.family, reader.notes)
    blocks = [_block(reader, word, 0, word.feed_forward == MOE, gated, "") for word in words]
    attentions = [half for block in blocks for half in block.attentions]
    mlps = [half for block in blocks for half in block.feed_forwards]
    return LayerKind(
        attention=attentions[0] if attentions else None,
        feed_forward=mlps[0] if mlps else None,
        norms=sum(block.norms for block in blocks),
        more=(*attentions[1:], *mlps[1:]),
    )


def _looped(keys: Keys, layer: int) -> bool:
    start, end = keys.raw.get("loop_layer_index_start"), keys.raw.get("loop_layer_index_end")
    return isinstance(start, int) and isinstance(end, int) and start <= layer < end


def _block(reader: _Reader, word: Words, window: int, sparse: bool, gated: bool, typed: str) -> LayerKind:
    """One block: its mixer, its feed-forward, what else the architecture puts into it."""
    keys, family = reader.keys, reader.family
    ffn = None
    if word.feed_forward != NONE and _has_feed_forward(family, word):
        ffn = hf_feed_forward.feed_forward(keys, family, sparse, gated)
    norms = 4 if keys.flag("sandwich_norm", keys.flag("use_sandwich_norm", False)) else family.norms
    more: tuple[Attention | FeedForward, ...] = ()
    if _half_block(word):
        norms = min(norms, 1)
    if family.norm_per_half and keys.flag("new_decoder_architecture", False):
        norms = 2
    attention = _mixer(reader, word, window, typed)
    if word.mixer == "parallel":
        more += (hf_linear.mamba(keys, family),)
    if family.double and attention is not None:  # LongCat: two attentions, two dense MLPs, experts across them
        plain = hf_feed_forward.dense(keys, family, gated)
        more += (attention, plain, plain)
    kind = LayerKind(attention=attention, feed_forward=ffn, norms=norms, more=more)
    if word.mixer == "shared":
        kind = _with_shared_block(reader, kind, gated)
    beside = hf_extras.block_extra(reader.model_type, keys, kind)
    return replace(
        kind,
        extra_parameters=kind.extra_parameters + beside.extra,
        side_elements=kind.side_elements + beside.side,
    )


def _half_block(word: Words) -> bool:
    return NONE in (word.mixer, word.feed_forward)


def _has_feed_forward(family: Family, word: Words) -> bool:
    """Pure state-space models have no MLP, nor do Zamba's Mamba layers."""
    if family.shared_block:
        return False
    return not (family.linear_only and family.norms == 1 and word.feed_forward == MLP)


def _mixer(reader: _Reader, word: Words, window: int, typed: str) -> Attention | None:
    keys, family = reader.keys, reader.family
    if word.mixer == NONE:
        return None
    if word.mixer in (LINEAR, "shared"):
        return hf_linear.linear_mixer(keys, family)
    if word.mixer == "conv":
        return hf_linear.short_conv(keys)
    if word.mixer == "recurrent":
        return hf_linear.recurrent(keys)
    if word.mixer == SLIDING and not window:
        keys.implied("window")
    return hf_attention.softmax(keys, family, reader.notes, window=window, word=typed)


def _with_shared_block(reader: _Reader, kind: LayerKind, gated: bool) -> LayerKind:
    """Zamba: the hybrid layers add a transformer block over the hidden state beside the embedding (twice as wide), whose
    weights they all share, and a projection of their own."""
    from cost_models.parameters import layer_parameters

    keys, hidden = reader.keys, reader.keys.count("hidden")
    heads, head_dim = keys.count("heads"), keys.count("attention_head_dim", 2 * hidden // keys.count("heads"))
    keys.implied(
        "kv_heads", "attention_hidden_size", "num_query_groups", "adapter_rank", "num_mem_blocks", "kv_channels"
    )
    attention = Attention(query_heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim)
    plain = hf_feed_forward.dense(keys, reader.family, gated)
    columns = heads * head_dim
    shared = LayerKind(attention=attention, feed_forward=plain, norms=3, side_elements=3 * hidden * columns)
    held = layer_parameters(shared, hidden, False).total
    rank = keys.count("adapter_rank", 0, least=0)  # Zamba2: every use has its own low-rank change of the MLP
    own = hidden * hidden + rank * (hidden + 2 * plain.width)
    return replace(
        kind,
        norms=kind.norms + shared.norms,
        more=(attention, plain),
        side_elements=shared.side_elements + own,
        reused_parameters=held,
    )


def _share(kinds: list[LayerKind]) -> list[LayerKind]:
    """The first layer with the shared block holds it; the others use it."""
    first = next((i for i, kind in enumerate(kinds) if kind.reused_parameters), None)
    if first is not None:
        kinds[first] = replace(kinds[first], reused_parameters=0)
    return kinds


def _tied(keys: Keys, family: Family, notes: list[str]) -> bool:
    if not keys.has("tied") and not family.known:
        notes.append("tie_word_embeddings is not stated: untied assumed")
    return keys.flag("tied", family.tied)


def _layer_norm(keys: Keys, family: Family, notes: list[str]) -> bool:
    """An unknown architecture that names a layer-norm epsilon and no RMS one has LayerNorm."""
    if family.known:
        return False
    named = any(key in keys.raw for key in ("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"))
    layer_norm = named and "rms_norm_eps" not in keys.raw
    if layer_norm:
        notes.append("LayerNorm with bias assumed, from the name of its epsilon")
    return layer_norm


def _mtp_modules(keys: Keys) -> int:
    """Multi-token-prediction modules, which come on top of num_hidden_layers."""
    if keys.flag("use_mtp", True):
        return keys.count("mtp", 0, least=0)
    keys.implied("mtp")
    return 0

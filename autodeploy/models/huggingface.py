"""Hugging Face ``config.json`` to ``ModelSpec``.

Known families get what their modelling code fixes (``hf_families.py``); any other is read by its generic keys, with a
note. The text part of a multi-modal model is taken, and a note says so. dtype and quantisation keys are ignored: they
say how the checkpoint is stored, not how it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models import hf_attention, hf_feed_forward
from autodeploy.models.hf_families import Family, find_family
from autodeploy.models.hf_keys import Keys, text_part
from autodeploy.models.runs import MOST_LAYERS, runs_of
from cost_models.inputs import LayerKind, ModelSpec


def parse_config(document: Mapping[str, Any], name: str = "model") -> ModelSpec:
    """The language model that a config.json describes. InputError names the key that is missing or wrong."""
    raw, nested = text_part(document)
    keys, notes = Keys(raw), []
    if nested:
        notes.append("only the text model is counted, not vision or audio parts")
    family = _family(raw, notes)
    layers = keys.count("layers")
    if layers > MOST_LAYERS:
        raise InputError(keys.found("layers")[0], layers, f"a whole number <= {MOST_LAYERS}")
    return ModelSpec(
        name=name,
        hidden=keys.count("hidden"),
        vocab=keys.count("vocab"),
        layers=runs_of(_kinds(keys, family, layers, notes)),
        tied_embeddings=_tied(keys, family, notes),
        mtp_modules=_mtp_modules(keys),
        norm_bias=family.norm_bias or _layer_norm(keys, family, notes),
        learned_positions=keys.count("max_seq_length", 0) if family.learned_positions else 0,
        embedding_norm=family.embedding_norm,
        head_bias=keys.flag("lm_head_bias", family.head_bias),
        max_seq_length=keys.count("max_seq_length", 0, least=0),
        notes=tuple(dict.fromkeys(notes)),
    )


def _family(raw: Mapping[str, Any], notes: list[str]) -> Family:
    architectures = raw.get("architectures")
    architecture = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    model_type = raw.get("model_type")
    family = find_family(model_type if isinstance(model_type, str) else "", architecture)
    if not family.known:
        shown = model_type or architecture or "not stated"
        notes.append(f"unknown architecture ({shown}): read by its generic keys")
    return family


def _kinds(keys: Keys, family: Family, layers: int, notes: list[str]) -> list[LayerKind]:
    """The block of every layer."""
    pattern = keys.text("hybrid_override_pattern")
    if pattern:
        return _hybrid(keys, family, layers, pattern, notes)
    mixers = hf_attention.attentions(keys, family, layers, notes)
    mlps = hf_feed_forward.feed_forwards(keys, family, layers, notes)
    norms = family.norms
    if keys.flag("sandwich_norm", False):
        norms = 4
    return [LayerKind(attention=a, feed_forward=f, norms=norms) for a, f in zip(mixers, mlps, strict=True)]


def _hybrid(keys: Keys, family: Family, layers: int, pattern: str, notes: list[str]) -> list[LayerKind]:
    """Nemotron-H: one letter for each block, which has one half only. M Mamba, E experts, * attention, - dense MLP."""
    if len(pattern) != layers:
        raise InputError(
            "hybrid_override_pattern", f"{len(pattern)} letters", f"one letter for each of {layers} layers"
        )
    gated = hf_feed_forward.is_gated(keys, family, notes)
    kinds: dict[str, LayerKind] = {}
    for letter in sorted(set(pattern)):
        if letter == "M":
            kinds[letter] = LayerKind(attention=hf_attention.mamba(keys), feed_forward=None, norms=1)
        elif letter == "*":
            mixer = hf_attention.softmax(keys, family, notes)
            kinds[letter] = LayerKind(attention=mixer, feed_forward=None, norms=1)
        elif letter == "E":
            mlp = hf_feed_forward.moe(keys, family, gated, 0)
            kinds[letter] = LayerKind(attention=None, feed_forward=mlp, norms=1)
        elif letter == "-":
            mlp = hf_feed_forward.dense(keys, family, gated)
            kinds[letter] = LayerKind(attention=None, feed_forward=mlp, norms=1)
        else:
            raise InputError("hybrid_override_pattern", letter, "letters M, E, * and -")
    return [kinds[letter] for letter in pattern]


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
    return 0

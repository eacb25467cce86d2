"""Which kind of block every layer is: the words of a configuration, or the patterns that stand for them.

Every layer gets a mixer word (full, sliding, linear, conv, recurrent, parallel, shared, none) and a feed-forward word
(mlp: dense or experts as other keys say; dense; moe; none).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.hf_families import Family
from autodeploy.models.hf_keys import Keys

FULL, SLIDING, LINEAR, CONV, RECURRENT, NONE = "full", "sliding", "linear", "conv", "recurrent", "none"
MLP, DENSE, MOE = "mlp", "dense", "moe"
MIXER_WORDS = {
    "full_attention": FULL, "attention": FULL, "global": FULL, "full": FULL, "indexed_attention": FULL,
    "compressed_sparse_attention": FULL, "heavily_compressed_attention": FULL, "global_attention": FULL,
    "sliding_attention": SLIDING, "chunked_attention": SLIDING, "sliding": SLIDING, "local": SLIDING,
    "local_attention": SLIDING, "hybrid_sliding": SLIDING, "sliding_window_attention": SLIDING,
    "linear_attention": LINEAR, "lightning_attention": LINEAR, "mamba": LINEAR, "mamba2": LINEAR, "kda": LINEAR,
    "gated_deltanet": LINEAR, "conv": CONV, "short_conv": CONV, "recurrent": RECURRENT, "hybrid": "hybrid",
}  # fmt: skip
HALF_WORDS = {"mlp": DENSE, "dense": DENSE, "moe": MOE, "sparse": MOE}  # blocks that are a feed-forward alone
MLP_WORDS = {"dense": DENSE, "mlp": DENSE, "sparse": MOE, "moe": MOE, "hash_moe": MOE}
LETTERS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}  # Nemotron-H
LISTS = ("layer_types", "layers_block_type", "attention_layers")
ASSUMABLE = (FULL, SLIDING, LINEAR, CONV, RECURRENT, DENSE, MOE)


@dataclass(frozen=True, slots=True)
class Words:
    """Of one layer."""

    mixer: str
    feed_forward: str


def layer_count(keys: Keys) -> int:
    """num_hidden_layers, or the length of the list of layers where only that is given."""
    if not keys.has("layers"):
        for name in ("layers_block_type", "layer_types", "block_configs"):
            value = keys.raw.get(name)
            if isinstance(value, list) and value:
                keys.used.add(name)
                return len(value)
    return keys.count("layers")


def layer_words(keys: Keys, family: Family, layers: int, notes: list[str], assume: str = "") -> list[Words]:
    """The words of each of ``layers`` layers."""
    halves = _half_blocks(keys, layers, assume)
    if halves is not None:
        return halves
    mixers = _mixers(keys, family, layers, notes, assume)
    mlps = _mlps(keys, layers, assume)
    return [Words(mixer, mlp) for mixer, mlp in zip(mixers, mlps, strict=True)]


def translate(field: str, word: Any, known: dict[str, str], assume: str) -> str:
    """The canonical word; an unknown one is an error unless the user says what to take it for."""
    if isinstance(word, str) and word in known:
        return known[word]
    if assume:
        return assume
    remedy = f"--assume {'|'.join(ASSUMABLE)} says what to take it for"
    raise InputError(field, word, f"a known kind of layer: {', '.join(known)}", remedy)


def _half_blocks(keys: Keys, layers: int, assume: str) -> list[Words] | None:
    """Models whose blocks have one half only: a letter or a word for each block."""
    pattern = keys.text("hybrid_override_pattern")
    names: list[Any] | None = None
    if pattern:
        field = "hybrid_override_pattern"
        if len(pattern) != layers:
            raise InputError(field, f"{len(pattern)} letters", f"one letter for each of {layers} layers")
        unknown = sorted(set(pattern) - set(LETTERS))
        if unknown and not assume:
            raise InputError(field, unknown[0], "letters M, E, * and -")
        names = [LETTERS.get(letter, letter) for letter in pattern]
    else:
        for field in LISTS:
            found = keys.per_layer(field, layers)
            if found is not None and any(word in ("mlp", "moe") for word in found):
                names = found
                break
    if names is None:
        return None
    return [_half(field, word, assume) for word in names]


def mtp_words(keys: Keys, assume: str) -> list[Words]:
    """The half-blocks of a multi-token-prediction module where they are listed (Nemotron-H)."""
    pattern, listed = keys.text("mtp_hybrid_override_pattern"), keys.found("mtp_layers_block_type")[1]
    names = [LETTERS.get(letter, letter) for letter in pattern] or (listed if isinstance(listed, list) else [])
    return [_half("mtp_layers_block_type", name, assume) for name in names]


def _half(field: str, word: Any, assume: str) -> Words:
    known = MIXER_WORDS | HALF_WORDS
    taken = translate(field, word, known, assume)
    return Words(NONE, taken) if taken in (DENSE, MOE) else Words(taken, NONE)


def _mixers(keys: Keys, family: Family, layers: int, notes: list[str], assume: str) -> list[str]:
    """Explicit lists first, then periods and index lists, then what the family does."""
    for field in LISTS:
        listed = keys.per_layer(field, layers)
        if listed is not None:
            keys.implied(
                "attn_layer_period", "attn_layer_offset", "attention_types", "layer_group_size", "heads", "kv_heads"
            )
            return [_hybrid(translate(field, word, MIXER_WORDS, assume), family) for word in listed]
    pattern = keys.raw.get("block_types")
    if isinstance(pattern, list) and pattern:  # RecurrentGemma: a pattern that repeats
        keys.used.add("block_types")
        return [translate("block_types", pattern[i % len(pattern)], MIXER_WORDS, assume) for i in range(layers)]
    marked = _marked(keys, family, layers)
    if marked is not None:
        return marked
    if family.parallel:
        return ["parallel"] * layers
    if family.linear_only:
        return [LINEAR] * layers
    return [FULL] * layers


def _hybrid(word: str, family: Family) -> str:
    """``hybrid`` is a Mamba layer with a shared transformer in Zamba, an attention in others."""
    if word == "hybrid":
        return "shared" if family.shared_block else FULL
    return word


def _marked(keys: Keys, family: Family, layers: int) -> list[str] | None:
    """Which layers are linear, by the many ways to say so; None where nothing does."""
    marks = keys.per_layer("attn_type_list", layers)
    if marks is not None:
        return [LINEAR if mark == 0 else FULL for mark in marks]
    linear = keys.part("linear_attn_config")
    if linear is not None and linear.has("kda_layers"):  # numbered from 1
        delta = linear.indices("kda_layers")
        linear.indices("full_attn_layers")
        return [LINEAR if i + 1 in delta else FULL for i in range(layers)]
    if keys.has("attn_layer_period"):
        period, offset = keys.count("attn_layer_period"), keys.count("attn_layer_offset", 0, least=0)
        return [FULL if i % period == offset else LINEAR for i in range(layers)]
    if keys.has("full_attn_idxs"):
        full = keys.indices("full_attn_idxs")
        return [FULL if i in full else CONV for i in range(layers)]
    if family.linear in ("mamba", "mamba1") and "attn_layer_indices" in keys.raw:
        full = keys.indices("attn_layer_indices")
        keys.implied("heads", "kv_heads")
        return [FULL if i in full else LINEAR for i in range(layers)]
    if keys.has("full_attention_interval") and keys.has("linear_num_key_heads"):
        interval = keys.count("full_attention_interval")
        return [LINEAR if (i + 1) % interval else FULL for i in range(layers)]
    if family.linear in ("mamba", "mamba1") and not family.parallel:
        keys.implied("heads", "kv_heads")
        return [LINEAR] * layers
    return None


def _mlps(keys: Keys, layers: int, assume: str) -> list[str]:
    listed = keys.per_layer("mlp_layer_types", layers)
    if listed is None:
        return [MLP] * layers
    return [translate("mlp_layer_types", word, MLP_WORDS, assume) for word in listed]

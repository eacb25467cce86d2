"""Models that state every block by itself: ``block_configs`` of NVIDIA's pruned models (DeciLM, Nemotron-NAS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.hf_families import Family
from autodeploy.models.hf_keys import LARGEST, Keys
from cost_models.inputs import Attention, FeedForward, LayerKind

WIDTH_MULTIPLE = 256  # DeciLM modelling code: 2/3 of the multiple of hidden, rounded up to 256


def block_configs(keys: Keys, family: Family, layers: int, notes: list[str]) -> list[LayerKind]:
    """One block for each entry; a half that is a no-op is absent, with its norm."""
    entries = keys.per_layer("block_configs", layers) or []
    keys.implied("heads", "kv_heads", "width", "activation")
    return [_block(keys, i, entry) for i, entry in enumerate(entries)]


def _block(keys: Keys, index: int, entry: Any) -> LayerKind:
    place = f"block_configs[{index}]"
    if not isinstance(entry, dict):
        raise InputError(place, entry, "a mapping with attention and ffn")
    attention, attention_side = _attention(keys, f"{place}.attention", entry.get("attention"))
    ffn, ffn_side = _feed_forward(keys, f"{place}.ffn", entry.get("ffn"))
    norms = (attention is not None or attention_side > 0) + (ffn is not None or ffn_side > 0)
    return LayerKind(attention=attention, feed_forward=ffn, norms=int(norms), side_elements=attention_side + ffn_side)


def _half(place: str, half: Any) -> Mapping[str, Any] | None:
    if not isinstance(half, dict):
        raise InputError(place, half, "a mapping")
    return None if half.get("no_op") else half


def _attention(keys: Keys, place: str, stated: Any) -> tuple[Attention | None, int]:
    half, hidden = _half(place, stated), keys.count("hidden")
    if half is None:
        return None, 0
    if half.get("replace_with_linear"):
        return None, hidden * hidden
    heads, group = keys.count("heads"), half.get("n_heads_in_group")
    if type(group) is not int or group < 1 or heads % group:
        raise InputError(f"{place}.n_heads_in_group", group, f"a divisor of {heads} heads")
    if hidden % heads:
        raise InputError(keys.found("heads")[0], heads, f"a divisor of hidden ({hidden})")
    window = half.get("window_length")
    return Attention(query_heads=heads, kv_heads=heads // group, head_dim=hidden // heads, v_head_dim=hidden // heads,
                     window_tokens=window if type(window) is int and 0 < window <= LARGEST else 0,
                     qkv_bias=keys.flag("attention_bias", False), output_bias=keys.flag("attention_bias", False)), 0  # fmt: skip


def _feed_forward(keys: Keys, place: str, stated: Any) -> tuple[FeedForward | None, int]:
    half, hidden = _half(place, stated), keys.count("hidden")
    if half is None:
        return None, 0
    if half.get("replace_with_linear"):
        return None, hidden * hidden
    width, multiple = half.get("intermediate_size"), half.get("ffn_mult")
    if width is None and isinstance(multiple, (int, float)) and 0 < multiple <= 1e6:
        width = -(-int(2 * multiple * hidden / 3) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE
    if type(width) is not int or not 0 < width <= LARGEST:
        raise InputError(f"{place}.ffn_mult", multiple, "a number > 0")
    return FeedForward(width=width, bias=keys.flag("mlp_bias", False)), 0

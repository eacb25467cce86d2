"""The many names of one thing: reading a Hugging Face config.json by canonical names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError

# Canonical name -> the keys that carry it, in order of preference. A null value counts as absent.
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "d_model", "n_embd", "n_embed", "model_dim"),
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "width": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "max_seq_length": ("max_position_embeddings", "max_seq_len", "n_positions", "seq_length", "max_sequence_length"),
    "activation_limit": ("swiglu_limit",),
    "activation": ("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function"),
    "tied": ("tie_word_embeddings",),
    # experts
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k", "moe_top_k",
              "top_k_experts"),
    "expert_width": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_width": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                     "shared_intermediate_size"),
    "first_dense": ("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped"),
    "router_groups": ("n_group",),
    "router_top_groups": ("topk_group",),
    # multi-head latent attention
    "q_lora_rank": ("q_lora_rank", "attention_q_lora_dim"),
    "kv_lora_rank": ("kv_lora_rank", "attention_kv_lora_dim"),
    "qk_nope": ("qk_nope_head_dim", "attention_qk_dim", "qk_nope_dim"),
    "qk_rope": ("qk_rope_head_dim", "attention_qk_rope_dim", "qk_rope_dim"),
    "v_head_dim": ("v_head_dim", "attention_v_dim", "v_channels"),
    # the rest
    "mtp": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
    "window": ("sliding_window", "sliding_window_size"),
    "window_pattern": ("sliding_window_pattern",),
}  # fmt: skip

LARGEST = 10**12  # no size of a model is near it; larger values would overflow 64 bits further on
NESTED = ("text_config", "llm_config", "language_config")
FLAT = ("attn_config", "ffn_config")  # DBRX and MPT keep a part of their keys one level down


def text_part(document: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The language model's keys, and whether they were nested in a multi-modal configuration."""
    nested = next((document[key] for key in NESTED if isinstance(document.get(key), dict)), None)
    keys = dict(nested if nested is not None else document)
    if nested is not None:
        for name in ("tie_word_embeddings", "architectures"):
            if keys.get(name) is None and name in document:
                keys[name] = document[name]
    for part in FLAT:
        inner = keys.get(part)
        if isinstance(inner, dict):
            keys = {**{k: v for k, v in inner.items() if k != "model_type"}, **keys}
    return keys, nested is not None


class Keys:
    """A configuration behind canonical names. Values are checked when they are read."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    def found(self, name: str) -> tuple[str, Any]:
        """(key, value) of the first alias that is present and not null; the preferred key and None otherwise."""
        aliases = ALIASES.get(name, (name,))
        for key in aliases:
            if self.raw.get(key) is not None:
                return key, self.raw[key]
        return aliases[0], None

    def has(self, name: str) -> bool:
        return self.found(name)[1] is not None

    def count(self, name: str, default: int | None = None, *, layer: int = 0, least: int = 1) -> int:
        """A whole number >= ``least``. A list has one value for each layer. Without ``default`` it must be there."""
        key, value = self.found(name)
        if value is None and default is not None:
            return default
        if isinstance(value, list) and value:
            key, value = f"{key}[{layer}]", value[min(layer, len(value) - 1)]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not least <= value <= LARGEST:
            others = ", ".join(ALIASES.get(name, (name,))[1:4])
            missing = f"the key is missing{f' (also looked for {others})' if others else ''}"
            allowed = f"a whole number >= {least}" + (
                f" and <= {LARGEST:.0e}" if type(value) is int and value > 0 else ""
            )
            raise InputError(key, value, allowed, missing if value is None else "")
        return value

    def indices(self, name: str) -> frozenset[int]:
        """A list of layer numbers; empty where the key is absent."""
        key, value = self.found(name)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise InputError(key, value, "a list of layer numbers")
        return frozenset(value)

    def flag(self, name: str, default: bool) -> bool:
        key, value = self.found(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(key, value, "true or false")
        return value

    def text(self, name: str) -> str:
        value = self.found(name)[1]
        return value if isinstance(value, str) else ""

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        """A list with one entry for each layer; None where the key is no list. MTP entries at its end are dropped."""
        key, value = self.found(name)
        if not isinstance(value, list) or not value:
            return None
        if len(value) < layers:
            raise InputError(key, f"{len(value)} entries", f"one entry for each of {layers} layers")
        return value[:layers]

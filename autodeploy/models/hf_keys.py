"""The many names of one thing: reading a Hugging Face config.json by canonical names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError

# Canonical name -> the keys that carry it, in order of preference. A null value counts as absent.
ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "d_model", "n_embd", "n_embed", "model_dim", "embedding_dim"),
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_blocks"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads", "attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "width": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "max_seq_length": ("max_position_embeddings", "max_seq_len", "n_positions", "seq_length", "max_sequence_length"),
    "activation_limit": ("swiglu_limit",),
    "activation": ("mlp_hidden_act", "hidden_act", "hidden_activation", "activation_function", "activation", "afn"),
    "tied": ("tie_word_embeddings",),
    # experts
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k", "moe_top_k",
              "top_k_experts", "num_selected_experts"),
    "expert_width": ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_width": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                     "shared_intermediate_size", "shared_experts_intermediate_size"),
    "latent": ("moe_latent_size",),
    "zero_experts": ("zero_expert_num",),
    "first_dense": ("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped"),
    "router_groups": ("n_group", "num_expert_group", "n_expert_groups"),
    "router_top_groups": ("topk_group", "n_limited_groups"),
    # multi-head latent attention
    "q_lora_rank": ("q_lora_rank", "attention_q_lora_dim"),
    "kv_lora_rank": ("kv_lora_rank", "attention_kv_lora_dim"),
    "qk_nope": ("qk_nope_head_dim", "attention_qk_dim", "qk_nope_dim"),
    "qk_rope": ("qk_rope_head_dim", "attention_qk_rope_dim", "qk_rope_dim"),
    "v_head_dim": ("v_head_dim", "attention_v_dim", "v_channels"),
    # state-space and linear mixers
    "mamba_heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"),
    "mamba_head_dim": ("mamba_head_dim", "mamba_d_head", "mamba_headdim"),
    "state": ("ssm_state_size", "mamba_d_state", "state_size"),
    "groups": ("n_groups", "mamba_n_groups", "mamba_ngroups"),
    "conv": ("conv_kernel", "mamba_d_conv", "conv1d_width"),
    "expand": ("mamba_expand", "expand"),
    "dt_rank": ("mamba_dt_rank", "time_step_rank"),
    # the rest
    "mtp": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
    "window": ("sliding_window", "sliding_window_size", "attention_window_size", "window_size"),
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
            rest = {k: v for k, v in keys.items() if k != part}
            keys = {**{k: v for k, v in inner.items() if k != "model_type"}, **rest}
    return keys, nested is not None


class Keys:
    """A configuration behind canonical names, seen from one layer: a list has one value for each layer, and
    ``per_layer_config`` replaces single keys of single layers. Values are checked when they are read, and the keys read
    are remembered in ``used``."""

    def __init__(self, raw: Mapping[str, Any], layer: int = 0, used: set[str] | None = None) -> None:
        self.raw, self.layer = raw, layer
        self.used: set[str] = set() if used is None else used

    def at(self, layer: int) -> Keys:
        """The same configuration as layer ``layer`` has it."""
        changes = self.raw.get("per_layer_config")
        if not isinstance(changes, dict):
            return Keys(self.raw, layer, self.used)
        self.used.add("per_layer_config")
        own: Any = next((changes[name] for name in (str(layer), f"{layer:02d}", f"{layer:03d}") if name in changes), {})
        if not isinstance(own, dict):
            raise InputError(f"per_layer_config[{layer}]", own, "a mapping of keys to values")
        return Keys({**self.raw, **own}, layer, self.used)

    def signature(self, layer: int, layers: int) -> tuple[Any, ...]:
        """What distinguishes a layer beside its words: the values of per-layer lists, and its own keys."""
        changes = self.raw.get("per_layer_config")
        own = str(self.at(layer).raw) if isinstance(changes, dict) and changes else ""
        return (own, *(str(value[layer]) for value in self._lists(layers)))

    def _lists(self, layers: int) -> list[list[Any]]:
        lists = [value for value in self.raw.values() if isinstance(value, list) and len(value) >= layers > 1]
        return [value for value in lists if type(value[0]) in (int, float, bool, str)]

    def found(self, name: str) -> tuple[str, Any]:
        """(key, value) of the first alias that is present and not null; the preferred key and None otherwise."""
        aliases = ALIASES.get(name, (name,))
        self.used.update(key for key in aliases if key in self.raw)
        for key in aliases:
            if self.raw.get(key) is not None:
                return key, self.raw[key]
        return aliases[0], None

    def has(self, name: str) -> bool:
        return self.found(name)[1] is not None

    def implied(self, *names: str) -> None:
        """Keys that say again what others say, or that mean nothing here."""
        for name in names:
            self.found(name)

    def count(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number >= ``least``. Without ``default`` it must be there."""
        key, value = self.found(name)
        if value is None and default is not None:
            return default
        if isinstance(value, list) and value:
            key, value = f"{key}[{self.layer}]", value[min(self.layer, len(value) - 1)]
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

    def number(self, name: str, default: float) -> float:
        """A positive number, such as a width in units of another."""
        key, value = self.found(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LARGEST:
            raise InputError(key, value, "a number > 0")
        return float(value)

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

    def part(self, name: str) -> Keys | None:
        """A mapping inside the configuration, such as ``linear_attn_config``; None where it is absent."""
        key, value = self.found(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise InputError(key, value, "a mapping")
        return Keys(value, self.layer)

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        """A list with one entry for each layer; None where the key is no list. MTP entries at its end are dropped."""
        key, value = self.found(name)
        if not isinstance(value, list) or not value:
            return None
        if len(value) < layers:
            raise InputError(key, f"{len(value)} entries", f"one entry for each of {layers} layers")
        return value[:layers]

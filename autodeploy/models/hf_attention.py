"""Softmax attention of a Hugging Face configuration: plain, latent, compressed; which layers slide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.hf_families import Family
from autodeploy.models.hf_keys import Keys
from cost_models.inputs import Attention

# ------------------------------------------------------------------------------------------- softmax and latent


def softmax(keys: Keys, family: Family, notes: list[str], *, window: int = 0, word: str = "") -> Attention:
    """The attention of a layer with this window (0: full)."""
    if family.compressed and keys.has("o_lora_rank"):
        return _compressed(keys, word)
    if keys.has("kv_lora_rank") and keys.flag("use_mla", True):
        attention = _latent(keys, family, sparse=not window)
    else:
        attention = _plain(keys, family, notes)
        attention = _sliding_shape(keys, attention) if window else _global_shape(keys, attention)
    return replace(attention, window_tokens=window)


def _plain(keys: Keys, family: Family, notes: list[str]) -> Attention:
    heads = keys.count("num_attention_heads_per_layer", keys.count("heads"))
    keys.implied("heads")
    kv_heads = _kv_heads(keys, heads)
    if heads % kv_heads:
        raise InputError(keys.found("kv_heads")[0], kv_heads, f"a divisor of {keys.found('heads')[0]} ({heads})")
    head_dim, v_head_dim = _head_dims(keys, family, heads)
    bias = keys.flag("attention_bias", keys.flag("use_bias", keys.flag("bias", False)))
    if keys.has("param_sink_number"):
        notes.append("learned key/value sinks are not counted")
    if keys.has("o_lora_rank"):
        notes.append("low-rank query and output projections are read as full ones")
    qk_norm = keys.flag("use_qk_norm", family.qk_norm) and not family.expert_width_is_dense
    return Attention(
        query_heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        qkv_bias=bias or family.qkv_bias or keys.flag("qkv_bias", False),
        output_bias=bias if family.output_bias is None else family.output_bias,
        qk_norm=qk_norm,
        qk_norm_full=qk_norm and family.qk_norm_full,
        sinks=family.sinks or keys.flag("add_full_attention_sink_bias", False),
        output_gate=keys.flag("attn_output_gate", family.output_gate),
        head_gate=keys.flag("use_attention_gate", keys.flag("gating", False)),
        shared_kv=_shares_kv(keys),
    )


def _kv_heads(keys: Keys, heads: int) -> int:
    """Absent or null means as many as query heads. Falcon and StarCoder say multi_query, which wins over the number."""
    if keys.flag("multi_query", False) and not keys.flag("new_decoder_architecture", False):
        keys.implied("kv_heads")
        return 1
    return keys.count("kv_heads", heads)


def _head_dims(keys: Keys, family: Family, heads: int) -> tuple[int, int]:
    """Query/key and value dimension of a head: stated, summed from two parts, or hidden / heads."""
    if keys.has("qk_nope") and keys.has("qk_rope"):
        head_dim = keys.count("qk_nope") + keys.count("qk_rope")
    elif keys.has("head_dim"):
        head_dim = keys.count("head_dim")
    else:
        hidden = keys.count("hidden")
        if hidden % heads and not family.floor_head_dim:
            allowed = f"a divisor of {keys.found('hidden')[0]} ({hidden})"
            raise InputError(keys.found("heads")[0], heads, allowed, "or state head_dim")
        head_dim = max(hidden // heads, 1)
    return head_dim, keys.count("v_head_dim", head_dim)


def _shares_kv(keys: Keys) -> bool:
    """Gemma 3n and 4: the last layers use the keys and values of an earlier one."""
    shared = keys.count("num_kv_shared_layers", 0, least=0)
    return shared > 0 and keys.layer >= keys.count("layers") - shared


def _latent(keys: Keys, family: Family, sparse: bool) -> Attention:
    """Multi-head latent attention. num_key_value_heads is there too, equal to the heads, and means nothing."""
    heads, nope, rope = keys.count("heads"), keys.count("qk_nope"), keys.count("qk_rope")
    keys.implied("kv_heads", "head_dim", "qk_head_dim", "attention_bias")
    own_indexer = True
    if sparse and keys.has("indexer_types"):  # HY-V4: most layers use the choice of an earlier one
        listed = keys.per_layer("indexer_types", 1) or []
        own_indexer = keys.raw["indexer_types"][min(keys.layer, len(keys.raw["indexer_types"]) - 1)] == "full"
        sparse = bool(listed)
    return Attention(
        kind="mla",
        query_heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        v_head_dim=keys.count("v_head_dim", nope),
        q_lora_rank=keys.count("q_lora_rank", 0, least=0),
        kv_lora_rank=keys.count("kv_lora_rank"),
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
        sinks=family.sinks,
        output_gate=family.output_gate,
        head_gate=family.head_gate,
        **_indexer(keys, sparse, own_indexer),
    )


def _indexer(keys: Keys, sparse: bool, own: bool) -> dict[str, Any]:
    if not sparse or not keys.has("index_topk"):
        keys.implied("index_n_heads", "index_head_dim", "index_topk")
        return {}
    choice = {"index_topk": keys.count("index_topk")}
    heads, head_dim = keys.count("index_n_heads"), keys.count("index_head_dim")
    return choice | ({"index_heads": heads, "index_head_dim": head_dim} if own else {})


def _compressed(keys: Keys, word: str) -> Attention:
    """DeepSeek-V4: one shared key/value head, a window, and keys compressed at the rate of the layer's kind."""
    heads, head_dim = keys.count("heads"), keys.count("head_dim")
    keys.implied("kv_heads", "qk_rope", "v_head_dim")
    rate, sparse = _compress_rate(keys, word)
    return Attention(
        kind="compressed",
        query_heads=heads,
        kv_heads=1,
        head_dim=head_dim,
        v_head_dim=head_dim,
        window_tokens=keys.count("window", 0, least=0),
        q_lora_rank=keys.count("q_lora_rank"),
        o_lora_rank=keys.count("o_lora_rank"),
        o_groups=keys.count("o_groups", 1),
        compress_tokens=rate,
        sinks=True,
        **_indexer(keys, sparse, True),
    )


def _compress_rate(keys: Keys, word: str) -> tuple[int, bool]:
    """Tokens per compressed key, and whether an indexer chooses among them: by the word of the layer (transformers), or by
    one number for each layer (the release), where the finest rate is the one with an indexer."""
    rates = keys.part("compress_rates")
    if rates is not None:
        rate = rates.count(word, 0, least=0)
        return rate, rate > 0 and word == "compressed_sparse_attention"
    rate = keys.count("compress_ratios", 0, least=0)
    listed = keys.raw.get("compress_ratios")
    finest = min((n for n in listed if type(n) is int and n > 0), default=0) if isinstance(listed, list) else rate
    return rate, 0 < rate == finest


# ------------------------------------------------------------------------------------------- sliding window


def windows(keys: Keys, family: Family, mixers: list[str], notes: list[str]) -> list[int]:
    """Window of each layer in tokens, 0 for full attention. ``mixers``: the word of each layer."""
    layers = len(mixers)
    types = any(
        isinstance(keys.raw.get(name), list) for name in ("layer_types", "attention_layers", "layers_block_type")
    )
    hybrid = keys.per_layer("hybrid_layer_pattern", layers)
    if family.window == "none" and not types and hybrid is None:
        keys.implied("window", "use_sliding_window", "max_window_layers")
        return [0] * layers
    if keys.has("attention_chunk_size") and not keys.has("window"):
        return _chunked(keys, mixers if types else [], layers, notes)
    window = keys.count("window", 0, least=0)
    keys.implied("max_window_layers", "window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    if not window or not keys.flag("use_sliding_window", family.window != "above") or _beyond(keys, window):
        return [0] * layers
    if types:
        return [window if word == "sliding" else 0 for word in mixers]
    if hybrid is not None:
        return [window if mark else 0 for mark in hybrid]
    return [window if slides else 0 for slides in _default_pattern(keys, family, layers, notes)]


def _beyond(keys: Keys, window: int) -> bool:
    """A window that no sequence of the model exceeds is none."""
    longest = keys.count("max_seq_length", 0, least=0)
    return 0 < longest <= window


def _default_pattern(keys: Keys, family: Family, layers: int, notes: list[str]) -> list[bool]:
    """Which layers slide where no list says so."""
    every = keys.count("window_pattern", family.window_pattern)
    if keys.has("window_pattern") or family.window == "pattern":
        return [(i + 1) % every != 0 for i in range(layers)]
    if family.window == "even":
        return [i % 2 == 0 for i in range(layers)]
    if family.window == "above":
        first = keys.count("max_window_layers", 0, least=0)
        return [i >= first for i in range(layers)]
    if not family.known:
        notes.append("sliding_window is taken to hold for every layer")
    return [True] * layers


def _chunked(keys: Keys, mixers: list[str], layers: int, notes: list[str]) -> list[int]:
    """Llama 4: three of four layers attend within chunks, every fourth everywhere."""
    chunk = keys.count("attention_chunk_size")
    notes.append(f"chunked attention is read as a sliding window of {chunk} tokens")
    if mixers:
        return [chunk if word == "sliding" else 0 for word in mixers]
    return [0 if (i + 1) % 4 == 0 else chunk for i in range(layers)]


def _sliding_shape(keys: Keys, full: Attention) -> Attention:
    """MiMo-V2: sliding layers have their own heads."""
    if not keys.has("swa_num_attention_heads"):
        return full
    return replace(
        full,
        query_heads=keys.count("swa_num_attention_heads"),
        kv_heads=keys.count("swa_num_key_value_heads", full.kv_heads),
        head_dim=keys.count("swa_head_dim", full.head_dim),
        v_head_dim=keys.count("swa_v_head_dim", full.v_head_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", full.sinks),
    )


def _global_shape(keys: Keys, full: Attention) -> Attention:
    """Gemma 4: full-attention layers have their own heads, and may use their keys as values."""
    keys.implied("swa_num_attention_heads")
    same = keys.flag("attention_k_eq_v", False)
    if not keys.has("global_head_dim"):
        return replace(full, value_from_key=same)
    head_dim = keys.count("global_head_dim")
    kv_heads = keys.count("num_global_key_value_heads", full.kv_heads)
    return replace(full, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, value_from_key=same)

"""The token mixer of every layer of a Hugging Face configuration."""

from __future__ import annotations

from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.hf_families import Family
from autodeploy.models.hf_keys import Keys
from cost_models.inputs import Attention

LINEAR_LAYERS = ("linear_attention", "lightning_attention")
SLIDING_LAYERS = ("sliding_attention", "chunked_attention", "sliding", "local")


def attentions(keys: Keys, family: Family, layers: int, notes: list[str]) -> list[Attention]:
    """One Attention for each of ``layers`` layers."""
    linear = _linear_layers(keys, layers)
    full = _full_attention(keys, family, notes)
    mixer = _linear_mixer(keys) if any(linear) else full
    windows = _windows(keys, family, layers, notes)
    sliding = _sliding_shape(keys, full)
    wide = _global_shape(keys, full, notes)
    chosen: list[Attention] = []
    for is_linear, window in zip(linear, windows, strict=True):
        if is_linear:
            chosen.append(mixer)
        elif window:
            chosen.append(_with(sliding, window_tokens=window))
        else:
            chosen.append(wide)
    return chosen


def _with(attention: Attention, **changes: Any) -> Attention:
    from dataclasses import replace

    return replace(attention, **changes)


# ------------------------------------------------------------------------------------------- softmax and latent


def _full_attention(keys: Keys, family: Family, notes: list[str]) -> Attention:
    if keys.has("kv_lora_rank") and keys.flag("use_mla", True):
        _sparse_note(keys, notes)
        return _latent(keys)
    heads = keys.count("heads")
    kv_heads = keys.count("kv_heads", _default_kv_heads(keys, heads))
    if heads % kv_heads:
        raise InputError(keys.found("kv_heads")[0], kv_heads, f"a divisor of {keys.found('heads')[0]} ({heads})")
    head_dim, v_head_dim = _head_dims(keys, heads)
    bias = keys.flag("attention_bias", keys.flag("use_bias", False))
    _note_uncounted(keys, notes)
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
    )


def _default_kv_heads(keys: Keys, heads: int) -> int:
    """Absent or null means as many as query heads; Falcon and StarCoder say multi_query instead."""
    multi_query = keys.flag("multi_query", False) and not keys.flag("new_decoder_architecture", False)
    return 1 if multi_query else heads


def _head_dims(keys: Keys, heads: int) -> tuple[int, int]:
    """Query/key and value dimension of a head: stated, summed from two parts, or hidden / heads."""
    if keys.has("qk_nope") and keys.has("qk_rope"):
        head_dim = keys.count("qk_nope") + keys.count("qk_rope")
    elif keys.has("head_dim"):
        head_dim = keys.count("head_dim")
    else:
        hidden = keys.count("hidden")
        if hidden % heads:
            allowed = f"a divisor of {keys.found('hidden')[0]} ({hidden})"
            raise InputError(keys.found("heads")[0], heads, allowed, "or state head_dim")
        head_dim = hidden // heads
    return head_dim, keys.count("v_head_dim", head_dim)


def _latent(keys: Keys) -> Attention:
    """Multi-head latent attention. num_key_value_heads is there too, equal to the heads, and means nothing."""
    heads, nope, rope = keys.count("heads"), keys.count("qk_nope"), keys.count("qk_rope")
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
    )


def _sparse_note(keys: Keys, notes: list[str]) -> None:
    if keys.has("index_topk"):
        notes.append("sparse attention is read as full attention; its indexer is not counted")


def _note_uncounted(keys: Keys, notes: list[str]) -> None:
    _sparse_note(keys, notes)
    if keys.has("o_lora_rank"):
        notes.append("low-rank query and output projections are read as full ones")
    if keys.has("param_sink_number"):
        notes.append("learned key/value sinks are not counted")


# ------------------------------------------------------------------------------------------- sliding window


def _windows(keys: Keys, family: Family, layers: int, notes: list[str]) -> list[int]:
    """Window of each layer in tokens, 0 for full attention."""
    types = keys.per_layer("layer_types", layers)
    hybrid = keys.per_layer("hybrid_layer_pattern", layers)
    if family.window == "none" and types is None and hybrid is None:
        return [0] * layers
    if keys.has("attention_chunk_size") and not keys.has("window"):
        return _chunked(keys, layers, notes)
    window = keys.count("window", 0, least=0)
    if not window or not keys.flag("use_sliding_window", family.window != "above") or _beyond(keys, window):
        return [0] * layers
    if types is not None:
        return [window if kind in SLIDING_LAYERS else 0 for kind in types]
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


def _chunked(keys: Keys, layers: int, notes: list[str]) -> list[int]:
    """Llama 4: three of four layers attend within chunks, every fourth everywhere."""
    chunk = keys.count("attention_chunk_size")
    notes.append(f"chunked attention is read as a sliding window of {chunk} tokens")
    return [0 if (i + 1) % 4 == 0 else chunk for i in range(layers)]


def _sliding_shape(keys: Keys, full: Attention) -> Attention:
    """MiMo-V2: sliding layers have their own heads."""
    if not keys.has("swa_num_attention_heads"):
        return full
    return _with(
        full,
        query_heads=keys.count("swa_num_attention_heads"),
        kv_heads=keys.count("swa_num_key_value_heads", full.kv_heads),
        head_dim=keys.count("swa_head_dim", full.head_dim),
        v_head_dim=keys.count("swa_v_head_dim", full.v_head_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", full.sinks),
    )


def _global_shape(keys: Keys, full: Attention, notes: list[str]) -> Attention:
    """Gemma 4: full-attention layers have their own heads."""
    if not keys.has("global_head_dim"):
        return full
    if keys.flag("attention_k_eq_v", False):
        notes.append("values shared with keys in full-attention layers are counted as their own projection")
    head_dim = keys.count("global_head_dim")
    kv_heads = keys.count("num_global_key_value_heads", full.kv_heads)
    return _with(full, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim)


# ------------------------------------------------------------------------------------------- linear attention


def _linear_layers(keys: Keys, layers: int) -> list[bool]:
    """Which layers are linear: by layer_types, by attn_type_list (0 is linear), or by full_attention_interval."""
    types = keys.per_layer("layer_types", layers)
    if types is not None:
        return [kind in LINEAR_LAYERS for kind in types]
    marks = keys.per_layer("attn_type_list", layers)
    if marks is not None:
        return [mark == 0 for mark in marks]
    if keys.has("full_attention_interval") and keys.has("linear_num_key_heads"):
        interval = keys.count("full_attention_interval")
        return [(i + 1) % interval != 0 for i in range(layers)]
    return [False] * layers


def _linear_mixer(keys: Keys) -> Attention:
    if keys.has("linear_num_key_heads"):
        key_heads, value_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
        return Attention(
            kind="gated_delta",
            query_heads=key_heads,
            kv_heads=key_heads,
            head_dim=keys.count("linear_key_head_dim"),
            v_head_dim=keys.count("linear_value_head_dim"),
            value_heads=value_heads,
            conv_kernel=keys.count("linear_conv_kernel_dim", 4),
        )
    heads = keys.count("heads")
    head_dim = _head_dims(keys, heads)[0]
    return Attention(kind="lightning", query_heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim,
                     value_heads=heads)  # fmt: skip


def mamba(keys: Keys) -> Attention:
    """Mamba-2 mixer: groups x state are the keys, heads x head_dim the values."""
    groups, state, heads = keys.count("n_groups"), keys.count("ssm_state_size"), keys.count("mamba_num_heads")
    return Attention(
        kind="mamba",
        query_heads=groups,
        kv_heads=groups,
        head_dim=state,
        v_head_dim=keys.count("mamba_head_dim"),
        value_heads=heads,
        state_dim=state,
        state_groups=groups,
        conv_kernel=keys.count("conv_kernel", 4),
    )


def softmax(keys: Keys, family: Family, notes: list[str]) -> Attention:
    """The softmax layers of a hybrid model that lists them apart."""
    return _full_attention(keys, family, notes)

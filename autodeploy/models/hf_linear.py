"""Token mixers that are not softmax attention: linear attention, state spaces, convolutions, recurrences."""

from __future__ import annotations

from autodeploy.errors import InputError
from autodeploy.models.hf_families import Family
from autodeploy.models.hf_keys import Keys
from cost_models.inputs import Attention

ASSUMED_REMEDY = "--assume full reads these layers as full attention"


def linear_mixer(keys: Keys, family: Family) -> Attention:
    """What ``linear_attention`` (or ``mamba``) means here: the keys that are there tell, else the family."""
    if keys.part("linear_attn_config") is not None or keys.has("linear_head_dim"):
        return _kimi_delta(keys, family)
    if keys.has("linear_num_key_heads"):
        return _gated_delta(keys)
    if family.linear == "rwkv":
        return _rwkv(keys)
    if family.linear == "mlstm":
        return _mlstm(keys)
    if keys.has("dt_rank") and family.linear != "mamba":
        return _mamba1(keys, family)
    if keys.has("state"):
        return mamba(keys, family)
    if family.linear == "lightning":
        return _lightning(keys)
    raise InputError("layer_types", "linear_attention", "a kind that the other keys describe", ASSUMED_REMEDY)


def _gated_delta(keys: Keys) -> Attention:
    key_heads = keys.count("linear_num_key_heads")
    keys.implied("linear_allow_neg_eigval", "linear_use_gate")
    return Attention(
        kind="gated_delta",
        query_heads=key_heads,
        kv_heads=key_heads,
        head_dim=keys.count("linear_key_head_dim"),
        v_head_dim=keys.count("linear_value_head_dim"),
        value_heads=keys.count("linear_num_value_heads"),
        conv_kernel=keys.count("linear_conv_kernel_dim", 4),
    )


def _kimi_delta(keys: Keys, family: Family) -> Attention:
    part = keys.part("linear_attn_config")
    if part is not None:
        heads, head_dim = part.count("num_heads"), part.count("head_dim")
        kernel = part.count("short_conv_kernel_size", 4)
    else:
        heads, head_dim = keys.count("linear_num_heads"), keys.count("linear_head_dim")
        kernel = keys.count("linear_conv_kernel_dim", 4)
        keys.implied("short_conv_kernel_size")
    return Attention(kind="kda", query_heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim,
                     value_heads=heads, conv_kernel=kernel, gate_rank=0 if family.full_gates else head_dim)  # fmt: skip


def _lightning(keys: Keys) -> Attention:
    heads = keys.count("heads")
    head_dim = keys.count("head_dim", max(keys.count("hidden") // heads, 1))
    return Attention(kind="lightning", query_heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim,
                     value_heads=heads)  # fmt: skip


def mamba(keys: Keys, family: Family) -> Attention:
    """Mamba-2: groups x state are the keys, heads x head_dim the values."""
    if family.plain_mamba2:  # Mamba-2 alone: the mixer's heads have the plain names
        heads, head_dim = keys.count("num_heads"), keys.count("head_dim")
    else:
        heads = keys.count("mamba_heads")
        head_dim = _mamba_head_dim(keys, heads)
    groups, state = keys.count("groups", 1), keys.count("state")
    keys.implied("expand", "dt_rank", "mamba_d_ssm")
    keys.implied("mamba_chunk_size", "chunk_size")
    return Attention(
        kind="mamba",
        query_heads=groups,
        kv_heads=groups,
        head_dim=state,
        v_head_dim=head_dim,
        value_heads=heads,
        state_dim=state,
        state_groups=groups,
        conv_kernel=keys.count("conv", 4),
        plain_output=not keys.flag("mamba_rms_norm", True),
    )


def _mamba_head_dim(keys: Keys, heads: int) -> int:
    """Stated, or the inner width over the heads."""
    if keys.has("mamba_head_dim") and keys.found("mamba_head_dim")[1] != "auto":
        return keys.count("mamba_head_dim")
    inner = keys.count("mamba_d_ssm", keys.count("expand", 2) * keys.count("hidden"))
    return max(inner // heads, 1)


def _mamba1(keys: Keys, family: Family) -> Attention:
    hidden = keys.count("hidden")
    inner = keys.count("expand", 2) * hidden
    if family.linear_only:
        inner = keys.count("width", inner)
    rank = -(-hidden // 16) if keys.found("dt_rank")[1] == "auto" else keys.count("dt_rank")
    keys.implied("n_mamba_heads", "mamba_head_dim")
    return Attention(
        kind="mamba1",
        query_heads=inner,
        kv_heads=inner,
        head_dim=1,
        v_head_dim=1,
        value_heads=inner,
        state_dim=keys.count("state"),
        dt_rank=rank,
        conv_kernel=keys.count("conv", 4),
        qk_norm=family.state_norms,
    )


def short_conv(keys: Keys) -> Attention:
    """LFM2's gated convolution over the hidden size."""
    hidden = keys.count("hidden")
    return Attention(kind="short_conv", query_heads=hidden, kv_heads=hidden, head_dim=1, v_head_dim=1,
                     conv_kernel=keys.count("conv_L_cache", 3), qkv_bias=keys.flag("conv_bias", False))  # fmt: skip


def recurrent(keys: Keys) -> Attention:
    """RecurrentGemma's RG-LRU."""
    heads = keys.count("heads")
    width = keys.count("lru_width", keys.count("hidden"))
    if width % heads:
        raise InputError("lru_width", width, f"a multiple of {keys.found('heads')[0]} ({heads})")
    return Attention(kind="rg_lru", query_heads=heads, kv_heads=heads, head_dim=width // heads, v_head_dim=width // heads,
                     value_heads=heads, conv_kernel=keys.count("conv", 4), qkv_bias=True, output_bias=True)  # fmt: skip


def _rwkv(keys: Keys) -> Attention:
    channels = keys.count("attention_hidden_size", keys.count("hidden"))
    return Attention(kind="rwkv", query_heads=channels, kv_heads=channels, head_dim=1, v_head_dim=1)


def _mlstm(keys: Keys) -> Attention:
    heads, hidden = keys.count("heads"), keys.count("hidden")
    keys_wide = round(hidden * keys.number("qk_dim_factor", 0.5))
    values = round(hidden * keys.number("v_dim_factor", 1.0))
    return Attention(kind="mlstm", query_heads=heads, kv_heads=heads, head_dim=max(keys_wide // heads, 1),
                     v_head_dim=max(values // heads, 1), value_heads=heads)  # fmt: skip

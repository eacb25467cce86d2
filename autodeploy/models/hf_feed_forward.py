"""The feed-forward half of every layer of a Hugging Face configuration."""

from __future__ import annotations

from autodeploy.models.hf_families import GATED_ACTIVATIONS, PLAIN_ACTIVATIONS, Family
from autodeploy.models.hf_keys import Keys
from autodeploy.models.runs import layer_pattern
from cost_models.inputs import FeedForward

TOP_K_ASSUMED = 6  # DeepSeek-V2 (arXiv 2405.04434), whose default configuration states none
BALANCED_BY_BIAS = "noaux_tc"  # DeepSeek-V3's router carries a bias per expert (arXiv 2408.15664)


def feed_forward(keys: Keys, family: Family, layer_is_moe: bool, gated: bool) -> FeedForward:
    """The feed-forward half of the layer that ``keys`` are seen from."""
    return moe(keys, family, gated) if layer_is_moe else dense(keys, family, gated)


def is_gated(keys: Keys, family: Family, notes: list[str]) -> bool:
    """Three matrices (gate, up, down) or two: by family, else by the activation."""
    key, activation = keys.found("activation")
    known = isinstance(activation, str) and activation in PLAIN_ACTIVATIONS | GATED_ACTIVATIONS
    if activation is not None and not known:
        keys.used.discard(key)
    if family.gated is not None:
        return family.gated
    gated = not known or activation not in PLAIN_ACTIVATIONS
    notes.append(f"{'gated' if gated else 'plain'} MLP assumed (activation {activation or 'not stated'})")
    return gated


def dense(keys: Keys, family: Family, gated: bool) -> FeedForward:
    """The dense MLP; Llama 4 has its width in intermediate_size_mlp, GLM and others a width for their dense layers."""
    return FeedForward(width=_dense_width(keys, family), gated=gated, bias=_mlp_bias(keys, family))


def _dense_width(keys: Keys, family: Family) -> int:
    hidden = keys.count("hidden")
    for name in ("intermediate_size_mlp", "dense_intermediate_size"):
        if keys.has(name):
            return keys.count(name)
    if keys.has("ffn_proj_factor"):  # xLSTM: in units of hidden, rounded up
        return _rounded(hidden * keys.number("ffn_proj_factor", 1.0), keys.count("ffn_round_up_to_multiple_of", 64))
    if keys.has("intermediate_multiple_size"):
        return keys.count("intermediate_multiple_size") * hidden
    if not keys.has("width") and family.plain_width:
        return family.plain_width * hidden
    width = keys.count("width", keys.count("shared_width", 0, least=0) or None)
    if keys.flag("block_auto_adjust_ff_dim", False):  # LFM2
        scaled = int(2 * width / 3) * keys.number("block_ffn_dim_multiplier", 1.0)
        return _rounded(scaled, keys.count("block_multiple_of", 256))
    return width // family.width_divisor


def _rounded(width: float, multiple: int) -> int:
    return -(-int(width) // multiple) * multiple


def _mlp_bias(keys: Keys, family: Family) -> bool:
    return keys.flag("mlp_bias", keys.flag("use_bias", False)) or family.mlp_bias


def _has_experts(keys: Keys) -> bool:
    if not keys.flag("is_moe", True):
        keys.implied("experts", "top_k", "expert_width")
        return False
    return keys.has("experts") and keys.count("experts", least=0) > 1


def moe(keys: Keys, family: Family, gated: bool) -> FeedForward:
    """Routed and shared experts of a layer. Without a width of their own, experts have the plain width."""
    has_width = keys.has("expert_width") and keys.count("expert_width", least=0) > 0
    width = keys.count("expert_width" if has_width else "width")
    keys.implied("width")  # of the dense layers, where there are some
    groups = keys.count("router_groups", 0, least=0)
    keys.implied("router_top_groups")
    limited = groups > 1
    experts = keys.count("experts")
    return FeedForward(
        width=width,
        gated=gated,
        bias=_mlp_bias(keys, family),
        experts=experts,
        top_k=keys.count("top_k", min(TOP_K_ASSUMED, experts) if family.top_k_unstated else None),
        fusable_activation=not keys.has("activation_limit"),
        shared_width=_shared_width(keys, family, width),
        router_bias=family.router_bias or keys.text("topk_method") == BALANCED_BY_BIAS or _expert_bias(keys),
        shared_gate=family.shared_gate and keys.count("shared_width", 0, least=0) > 0,
        latent=keys.count("latent", 0, least=0),
        zero_experts=keys.count("zero_experts", 0, least=0),
        router_groups=groups if limited else 0,
        router_top_groups=keys.count("router_top_groups", 0, least=0) if limited else 0,
    )


def _expert_bias(keys: Keys) -> bool:
    return keys.flag("router_enable_expert_bias", False) or keys.flag("use_routing_bias", False)


def _shared_width(keys: Keys, family: Family, expert_width: int) -> int:
    """Summed width of the shared experts: stated (0 for none), or their number times the expert's width."""
    if keys.has("shared_width"):
        stated = keys.count("shared_width", least=0)
        return stated * keys.count("shared_experts", 1, least=0)
    if family.expert_width_is_dense:  # Llama 4: always one
        return expert_width
    if keys.flag("enable_moe_block", False):  # Gemma 4: a dense MLP beside the experts of every layer
        return keys.count("width")
    return keys.count("shared_experts", 0, least=0) * expert_width


def moe_layers(keys: Keys, layers: int) -> list[bool]:
    """Which layers have experts; each family says it in its own way, and what is not said holds for all layers."""
    if not _has_experts(keys):
        keys.implied("top_k", "expert_width", "shared_experts", "first_dense", "router_groups", "router_top_groups")
        return [False] * layers
    if keys.has("expert_layer_period"):  # Jamba
        period, offset = keys.count("expert_layer_period"), keys.count("expert_layer_offset", 0, least=0)
        return [i % period == offset for i in range(layers)]
    marks = [True] * layers
    for i in range(min(keys.count("first_dense", 0, least=0), layers)):
        marks[i] = False
    listed = _listed(keys, layers)
    step = _step(keys)
    dense_only = keys.indices("mlp_only_layers") or ()
    start = keys.count("moe_layer_start_index", 0, least=0)
    keys.implied("moe_layer_end_index", "enable_moe_block")
    end = keys.raw.get("moe_layer_end_index")
    last = end if isinstance(end, int) and end >= 0 else layers - 1
    return [
        marks[i] and listed[i] and (i + 1) % step == 0 and i not in dense_only and start <= i <= last
        for i in range(layers)
    ]


def _step(keys: Keys) -> int:
    """Every n-th layer is MoE, the n-th the first: Qwen, Llama 4, ERNIE."""
    for name in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"):
        if keys.has(name):
            return keys.count(name)
    return 1


def _listed(keys: Keys, layers: int) -> list[bool]:
    """Layers named one by one: a list of marks (MiMo-V2), of indices (Llama 4), or every n-th (DeepSeek)."""
    marks = keys.per_layer("moe_layer_freq", layers)
    if marks is not None:
        return [bool(mark) for mark in marks]
    if keys.has("moe_layer_freq"):
        return [bool(mark) for mark in layer_pattern("moe_layer_freq", str(keys.raw["moe_layer_freq"]), layers)]
    indices = keys.indices("moe_layers")
    return [not indices or i in indices for i in range(layers)]

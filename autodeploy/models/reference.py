"""Model shapes of the published runs (``models.yaml`` of the reference runs) to ``ModelSpec``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models.runs import layer_pattern, runs_of
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec

TOP_K_ASSUMED = 2  # where an entry states none: GShard's (arXiv 2006.16668), and Megatron's and Mixtral's usual value


def from_reference(entry: Mapping[str, Any]) -> ModelSpec:
    """One entry of ``models.yaml``. What it does not state is assumed as below and written into ``notes``.

    Plain (two-matrix) MLP without another word means a GPT of Megatron: LayerNorm, biases everywhere, input and output
    embedding tied (Megatron-LM: --untie-embeddings-and-output-weights is off by default). Gated MLP means the Llama
    line: RMSNorm, no biases, untied.
    """
    notes: list[str] = []
    name = str(entry.get("name", "model"))
    layers, gated = _count(entry, "num_layers"), bool(entry.get("gated_mlp", True))
    gpt = not gated and entry.get("activation") != "squared_relu" and "learned_pos_embedding" not in entry
    tied = not entry["untied_embeddings"] if "untied_embeddings" in entry else not gated
    if "untied_embeddings" not in entry:
        notes.append(f"embeddings assumed {'tied' if tied else 'untied'} ({'gated' if gated else 'plain'} MLP)")
    mixers = _mixers(entry, layers, bias=gpt)
    mlps = _mlps(entry, layers, gated, gpt, notes)
    norms = int(entry.get("norms_per_layer") or 2)
    kinds = [LayerKind(attention=mixer, feed_forward=mlp, norms=norms) for mixer, mlp in zip(mixers, mlps, strict=True)]
    return ModelSpec(
        name=name,
        hidden=_count(entry, "hidden_size"),
        vocab=_count(entry, "vocab_size"),
        layers=runs_of(kinds),
        tied_embeddings=tied,
        mtp_modules=int(entry.get("mtp_layers") or 0),
        norm_bias=gpt or entry.get("activation") == "squared_relu",  # Nemotron: LayerNorm1p
        learned_positions=int(entry.get("learned_pos_embedding") or 0),
        embedding_norm=bool(entry.get("embedding_norm")),
        notes=tuple(notes),
    )


def _count(entry: Mapping[str, Any], field: str) -> int:
    """A whole number > 0 that the entry must state."""
    value = entry.get(field)
    if type(value) is not int or value <= 0:
        raise InputError(field, value, "a whole number > 0")
    return value


def _mixers(entry: Mapping[str, Any], layers: int, bias: bool) -> list[Attention]:
    """The attention of every layer."""
    heads, hidden = _count(entry, "num_attention_heads"), _count(entry, "hidden_size")
    if entry.get("mla"):
        return [_latent(heads, entry["mla"])] * layers
    head_dim = int(entry.get("head_dim") or 0)
    if not head_dim:
        if hidden % heads:
            raise InputError("num_attention_heads", heads, f"a divisor of hidden_size ({hidden})")
        head_dim = hidden // heads
    shape: dict[str, Any] = {
        "query_heads": heads,
        "kv_heads": int(entry.get("num_kv_heads") or heads),
        "head_dim": head_dim,
        "v_head_dim": head_dim,
        "qkv_bias": bool(entry.get("qkv_bias", bias)),
        "output_bias": bias,
        "qk_norm": bool(entry.get("qk_layernorm", False)),
    }
    full = Attention(**shape)
    if not entry.get("sliding_window"):
        return [full] * layers
    sliding = Attention(**shape, window_tokens=int(entry["sliding_window"]))
    every = int(entry.get("sliding_window_every") or 1)  # every n-th layer slides, the first one included
    return [sliding if i % every == 0 else full for i in range(layers)]


def _latent(heads: int, mla: Mapping[str, Any]) -> Attention:
    nope, rope = _count(mla, "qk_nope_head_dim"), _count(mla, "qk_rope_head_dim")
    return Attention(
        kind="mla",
        query_heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        v_head_dim=_count(mla, "v_head_dim"),
        q_lora_rank=int(mla.get("q_lora_rank") or 0),
        kv_lora_rank=_count(mla, "kv_lora_rank"),
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
    )


def _mlps(entry: Mapping[str, Any], layers: int, gated: bool, bias: bool, notes: list[str]) -> list[FeedForward]:
    """The feed-forward of every layer: dense first layers, then MoE in the pattern of ``moe_layer_freq``."""
    moe = entry.get("moe")
    width = int(entry.get("ffn_hidden_size") or (moe or {}).get("expert_ffn_hidden_size") or 0)
    dense = FeedForward(width=width, gated=gated, bias=bias)
    if not moe:
        return [dense] * layers
    expert_width = _count(moe, "expert_ffn_hidden_size")
    if not moe.get("top_k"):
        notes.append(f"top_k is not stated: {TOP_K_ASSUMED} assumed")
    shared = moe.get("shared_ffn_hidden_size") or int(moe.get("num_shared_experts") or 0) * expert_width
    sparse = FeedForward(
        width=expert_width,
        gated=gated,
        bias=bias,
        experts=_count(moe, "num_experts"),
        top_k=int(moe.get("top_k") or TOP_K_ASSUMED),
        fusable_activation=entry.get("activation") != "clamped_swiglu",
        shared_width=int(shared),
        router_groups=int(moe.get("groups") or 0),
        router_top_groups=int(moe.get("groups") or 0) if moe.get("top_k_per_group") else 0,
    )
    pattern = layer_pattern("moe.moe_layer_freq", str(moe.get("moe_layer_freq") or 1), layers)
    first_dense = int(moe.get("first_dense_layers") or 0)
    return [sparse if is_moe and i >= first_dense else dense for i, is_moe in enumerate(pattern)]

"""Models of the tests, written out so that they depend on no loader."""

from __future__ import annotations

from cost_models.inputs import (
    COLLECTIVE_OPS,
    Attention,
    AttentionCurve,
    CollectiveCurve,
    Device,
    FeedForward,
    GemmCurve,
    GroupedGemmCurve,
    HardwareProfile,
    LayerKind,
    ModelSpec,
    Tier,
)


def mla(heads: int = 128) -> Attention:
    return Attention(
        kind="mla", query_heads=heads, kv_heads=heads, head_dim=192, v_head_dim=128, q_lora_rank=1536,
        kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
    )  # fmt: skip


def gqa(heads: int, kv: int, dim: int = 128) -> Attention:
    return Attention(query_heads=heads, kv_heads=kv, head_dim=dim, v_head_dim=dim)


def dense_model(name: str, hidden: int, layers: int, heads: int, kv: int, width: int, vocab: int) -> ModelSpec:
    kind = LayerKind(attention=gqa(heads, kv, hidden // heads), feed_forward=FeedForward(width=width))
    return ModelSpec(name=name, hidden=hidden, vocab=vocab, layers=((kind, layers),))


def moe_model(
    name: str, hidden: int, layers: int, attention: Attention, expert: int, experts: int, top_k: int, vocab: int,
    *, dense_layers: int = 0, dense_width: int = 0, shared: int = 0, mtp: int = 0,
) -> ModelSpec:  # fmt: skip
    moe = FeedForward(width=expert, experts=experts, top_k=top_k, shared_width=shared)
    runs = ((LayerKind(attention=attention, feed_forward=moe), layers - dense_layers),)
    if dense_layers:
        dense = LayerKind(attention=attention, feed_forward=FeedForward(width=dense_width))
        runs = ((dense, dense_layers), *runs)
    return ModelSpec(name=name, hidden=hidden, vocab=vocab, layers=runs, mtp_modules=mtp)


PANGU_ULTRA_MOE = moe_model(
    "pangu-ultra-moe-718b", 7680, 61, mla(), 2048, 256, 8, 153600, dense_layers=3, dense_width=18432, shared=2048, mtp=1
)
PANGU_ULTRA = dense_model("pangu-ultra-135b", 12288, 94, 96, 8, 28672, 153376)
PANGU_PRO = moe_model("pangu-pro-moe-72b", 5120, 48, gqa(40, 8), 1344, 64, 8, 153376, shared=4 * 1344)
DEEPSEEK_V3 = moe_model(
    "deepseek-v3", 7168, 61, mla(), 2048, 256, 8, 129280, dense_layers=3, dense_width=18432, shared=2048, mtp=1
)
QWEN3_235B = moe_model("qwen3-235b-a22b", 4096, 94, gqa(64, 4), 1536, 128, 8, 151936)
QWEN3_30B = moe_model("qwen3-30b-a3b", 2048, 48, gqa(32, 4), 768, 128, 8, 151936)
LLAMA3_70B = dense_model("llama-3-70b", 8192, 80, 64, 8, 28672, 128256)
LLAMA3_8B = dense_model("llama-3-8b", 4096, 32, 32, 8, 14336, 128256)
LLAMA31_405B = dense_model("llama-3.1-405b", 16384, 126, 128, 8, 53248, 128256)
ALL = (
    PANGU_ULTRA_MOE, PANGU_ULTRA, PANGU_PRO, DEEPSEEK_V3, QWEN3_235B, QWEN3_30B, LLAMA3_70B, LLAMA3_8B, LLAMA31_405B,
)  # fmt: skip


def cluster(
    *, vendor: str = "ascend", usable_gib: float = 60.96, cards_per_node: int = 8, backend: str = "mindspeed"
) -> HardwareProfile:
    """A two-tier machine with round numbers: the rules look at its shape only."""
    gemm = GemmCurve(efficiency_max_frac=0.7, k_half=0.0, launch_s=5e-6, wave_exponent=0.0, memory_efficiency_frac=0.6)
    grouped = GroupedGemmCurve(efficiency_max_frac=0.7, rows_half=0.0, launch_s=5e-6, memory_efficiency_frac=0.6)
    attention = AttentionCurve(
        forward_efficiency_frac=0.6, backward_efficiency_frac=0.5, seq_half=0.0, tile_half=0.0, launch_s=5e-6
    )
    device = Device(
        name="card", vendor=vendor, peak_flop_per_s={"bf16": 294.9e12}, hbm_bytes=64 * 2.0**30,
        usable_bytes=usable_gib * 2.0**30, hbm_bandwidth_bytes_per_s=1.6e12, compute_units=20, gemm={"bf16": gemm},
        grouped_gemm={"bf16": grouped}, attention={"flash2": attention}, memory_bound_frac=0.6, kernel_launch_s=2e-6,
    )  # fmt: skip
    curves = {op: CollectiveCurve(latency_s=1e-5, efficiency_frac=0.7) for op in COLLECTIVE_OPS}
    tiers = (
        Tier(name="node", cards=cards_per_node, bandwidth_bytes_per_s=196e9, curves=curves),
        Tier(name="network", cards=1 << 20, bandwidth_bytes_per_s=25e9, curves=curves),
    )
    return HardwareProfile(name="cluster", device=device, tiers=tiers, cards_per_node=cards_per_node, backend=backend)


ASCEND = cluster()
NVIDIA = cluster(vendor="nvidia", usable_gib=76.0, backend="megatron")

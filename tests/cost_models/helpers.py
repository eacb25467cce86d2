"""Small models and a made-up machine whose numbers are easy to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cost_models.dims import Core, core_points
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
    SoftwareStack,
    Tier,
    Workload,
)
from cost_models.strategies import Layout, StrategyBatch, single

PEAK, HBM = 100e12, 1e12


def gpt(layers: int = 8, hidden: int = 1024, heads: int = 16) -> ModelSpec:
    kind = LayerKind(
        attention=Attention(query_heads=heads, kv_heads=heads, head_dim=hidden // heads, v_head_dim=hidden // heads),
        feed_forward=FeedForward(width=4 * hidden, gated=False),
    )
    return ModelSpec(name="gpt", hidden=hidden, vocab=51200, layers=((kind, layers),), tied_embeddings=True,
                     norm_bias=True, learned_positions=1024)  # fmt: skip


def moe(layers: int = 8, experts: int = 32, top_k: int = 4) -> ModelSpec:
    attention = Attention(query_heads=16, kv_heads=4, head_dim=64, v_head_dim=64)
    dense = LayerKind(attention=attention, feed_forward=FeedForward(width=4096))
    sparse = LayerKind(attention=attention, feed_forward=FeedForward(width=512, experts=experts, top_k=top_k))
    return ModelSpec(name="moe", hidden=1024, vocab=32000, layers=((dense, 1), (sparse, layers - 1)), mtp_modules=1)


def pangu_718b() -> ModelSpec:
    mla = Attention(kind="mla", query_heads=128, kv_heads=128, head_dim=192, v_head_dim=128, q_lora_rank=1536,
                    kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64)  # fmt: skip
    dense = LayerKind(attention=mla, feed_forward=FeedForward(width=18432), norms=4)
    sparse = LayerKind(attention=mla, norms=4,
                       feed_forward=FeedForward(width=2048, experts=256, top_k=8, shared_width=2048))  # fmt: skip
    return ModelSpec(name="pangu", hidden=7680, vocab=153600, layers=((dense, 3), (sparse, 58)), mtp_modules=1)


def machine(**device: object) -> HardwareProfile:
    """Perfect curves: a GEMM runs at the peak, a collective at the link rate, nothing has latency."""
    gemm = GemmCurve(efficiency_max_frac=1.0, k_half=0.0, launch_s=0.0, wave_exponent=0.0, memory_efficiency_frac=1e6)
    grouped = GroupedGemmCurve(efficiency_max_frac=1.0, rows_half=0.0, launch_s=0.0, memory_efficiency_frac=1e6)
    attention = AttentionCurve(forward_efficiency_frac=1.0, backward_efficiency_frac=1.0, seq_half=0.0, tile_half=0.0,
                               launch_s=0.0)  # fmt: skip
    fields: dict = {
        "name": "unit", "vendor": "nvidia", "peak_flop_per_s": {"bf16": PEAK, "fp16": PEAK}, "hbm_bytes": 80e9,
        "usable_bytes": 80e9,
        "hbm_bandwidth_bytes_per_s": HBM, "compute_units": 1, "gemm": {"bf16": gemm}, "grouped_gemm": {"bf16": grouped},
        "attention": {"flash2": attention}, "memory_bound_frac": 1.0, "kernel_launch_s": 0.0,
    }  # fmt: skip
    curves = {op: CollectiveCurve(latency_s=0.0, efficiency_frac=1.0) for op in COLLECTIVE_OPS}
    tiers = (
        Tier(name="node", cards=8, bandwidth_bytes_per_s=100e9, curves=curves),
        Tier(name="fabric", cards=100_000, bandwidth_bytes_per_s=10e9, curves=curves),
    )
    return HardwareProfile(name="unit", device=Device(**(fields | device)), tiers=tiers)


def workload(**changes: object) -> Workload:
    return replace(Workload(seq_length=1024, global_batch=64, stack=SoftwareStack()), **changes)  # type: ignore[arg-type]


def even_layout(model: ModelSpec, pp: int, vpp: int = 1) -> Layout:
    """Layers in equal runs, the remainder missing at the end; embedding first, MTP and head last."""
    sequence, kinds = model.layer_sequence(), len(model.kinds)
    counts = np.zeros((pp * vpp, kinds + 3))
    per_stage = -(-len(sequence) // (pp * vpp))
    for i, kind in enumerate(sequence):
        counts[i // per_stage, kind] += 1
    counts[0, -3], counts[-1, -2], counts[-1, -1] = 1, model.mtp_modules, 1
    return Layout(pp, vpp, counts)


def strategy(model: ModelSpec, **axes: object) -> StrategyBatch:
    pp, vpp = int(axes.get("pp", 1)), int(axes.get("vpp", 1))  # type: ignore[call-overload]
    return single(layout=even_layout(model, pp, vpp), **axes)  # type: ignore[arg-type]


def core(model: ModelSpec, work: Workload, **axes: object) -> Core:
    return core_points(strategy(model, **axes), work)

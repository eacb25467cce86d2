"""Operators -> seconds on one card: GEMM, grouped GEMM, fused attention, memory-bound steps.

Axis U core points. A price has three parts: forward, backward with respect to the input, and to the weight.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cost_models.inputs import Device, GemmCurve
from cost_models.operators import FusedAttention, Gemm, GroupedGemm, MemoryBound
from cost_models.records import record
from cost_models.strategies import F64

# Bytes of an operand's element, by the name of its curve. Block scales (1 B per 16 of NVFP4, per 32 of MXFP8) are left out.
OPERAND_BYTES = {
    "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "mxfp8": 1.0, "fp4": 0.5, "nvfp4": 0.5,
}  # fmt: skip
# A recipe whose own curve or peak a device lacks takes the next one's.
NARROWER = {"mxfp8": "fp8_block", "fp8_block": "fp8", "nvfp4": "fp4", "fp4": "fp8", "fp8": "bf16", "fp16": "bf16"}
SQUARE_TILES = ((128, 128), (128, 256), (256, 128))
BACKWARD_ATTENTION_FLOP = (
    2.5  # recomputed scores, dV, dP, dQ, dK against two products forward (FlashAttention-2, section 3)
)


@record(kw_only=False)
class Price:
    """Seconds of one operator and the kernels it launches, arrays [U] or scalars."""

    forward_s: F64
    backward_input_s: F64
    backward_weight_s: F64
    forward_kernels: F64 | float
    backward_kernels: F64 | float


def matmul_dtype(precision: str, device: Device) -> str:
    """The dtype whose GEMM curve prices the weight products: the recipe's own, or its nearest relative's."""
    return nearest_dtype(precision, device.gemm)


def nearest_dtype(dtype: str, known: Mapping[str, object]) -> str:
    """``dtype``, or the relative of it that ``known`` has."""
    while dtype not in known and dtype in NARROWER:
        dtype = NARROWER[dtype]
    return dtype if dtype in known else next(iter(known))


def sustained_frac(dtype: str, device: Device) -> float:
    """Matrix rate of a long step relative to the isolated benchmark, by the dtype of its curve."""
    if OPERAND_BYTES[dtype] >= OPERAND_BYTES["bf16"]:
        return device.sustained_frac
    if OPERAND_BYTES[dtype] < OPERAND_BYTES["fp8"]:
        return device.sustained_frac * device.fp4_frac
    return device.sustained_frac * (device.fp8_frac if dtype == "fp8" else device.block_scaled_frac)


def _tile_factor(rows: F64, cols: F64, batch: F64, units: int, curve: GemmCurve) -> F64:
    """Smallest slow-down over tile shapes: padding, wave quantisation, and the small tile's own penalty."""
    tiles = SQUARE_TILES + (((256, 256),) if curve.large_tile else ())
    best: F64 | None = None
    for tile_rows, tile_cols in tiles:
        across, down = np.ceil(rows / tile_rows), np.ceil(cols / tile_cols)
        waves = across * down * batch / units
        padded = across * tile_rows * down * tile_cols / (rows * cols)
        slow = padded * (np.ceil(waves) / waves) ** curve.wave_exponent
        if tile_rows == 128 and tile_cols == 128:
            slow = slow / curve.small_tile_frac
        best = slow if best is None else np.minimum(best, slow)
    assert best is not None
    return best


def gemm_s(
    rows: F64,
    cols: F64,
    depth: F64,
    batch: F64,
    device: Device,
    dtype: str,
    *,
    out_bytes: float = 2.0,
    efficiency: float = 1.0,
) -> F64:
    """Seconds of ``batch`` products rows x cols x depth, launch left out. See inputs.GemmCurve for the form."""
    curve = device.gemm[dtype]
    peak = device.peak_flop_per_s[nearest_dtype(dtype, device.peak_flop_per_s)]
    operand = OPERAND_BYTES[dtype]
    flop = 2.0 * rows * cols * depth * batch
    rate = peak * curve.efficiency_max_frac * efficiency / (1.0 + curve.k_half / depth)
    # Both are the power limit: a product so long that it throttles by itself does not throttle again in a long step.
    droop = 1.0 - curve.droop_frac * flop / (flop + curve.droop_half_flop)
    busy = (
        flop
        / (rate * np.minimum(droop, sustained_frac(dtype, device)))
        * _tile_factor(rows, cols, batch, device.compute_units, curve)
    )
    moved = batch * (operand * depth * (rows + cols) + out_bytes * rows * cols)
    stream = moved / (device.hbm_bandwidth_bytes_per_s * curve.memory_efficiency_frac)
    return np.maximum(busy, stream)


def price_gemm(op: Gemm, device: Device, dtype: str, grad_bytes: float) -> Price:
    """Weight products: forward, dgrad, wgrad. Activation products: forward, and both backward ones as input gradients."""
    batch = np.broadcast_to(np.asarray(op.batch, dtype=float), op.rows.shape)
    own = dtype if op.weight else ("bf16" if dtype not in ("fp16",) else dtype)
    own = nearest_dtype(own, device.gemm)
    curve = device.gemm[own]
    quantize: F64 | float = 0.0
    if curve.quantize_memory_frac:
        quantize = 3.0 * op.rows / (device.hbm_bandwidth_bytes_per_s * curve.quantize_memory_frac)
    launch = curve.launch_s
    forward = gemm_s(op.rows, op.cols, op.depth, batch, device, own) + quantize * op.depth + launch
    dgrad = gemm_s(op.rows, op.depth, op.cols, batch, device, own, efficiency=curve.dgrad_frac) + launch
    if not op.weight:
        other = gemm_s(op.cols, op.depth, op.rows, batch, device, own, efficiency=curve.dgrad_frac) + launch
        return Price(forward, dgrad + other, np.zeros_like(forward), 1.0, 2.0)
    dgrad = dgrad + quantize * op.cols
    wgrad = launch + gemm_s(op.depth, op.cols, op.rows, batch, device, own, out_bytes=2 * grad_bytes,
                            efficiency=curve.wgrad_frac)  # fmt: skip
    return Price(forward, dgrad, wgrad, 1.0, 2.0)


def price_grouped(op: GroupedGemm, device: Device, dtype: str, grad_bytes: float, grouped: bool) -> Price:
    """One product per local expert, in one grouped kernel, or without one as plain products one after another."""
    if not grouped:
        return _price_expert_by_expert(op, device, dtype, grad_bytes)
    key = nearest_dtype(dtype, device.grouped_gemm)
    curve = device.grouped_gemm[key]
    peak = device.peak_flop_per_s[nearest_dtype(key, device.peak_flop_per_s)]
    per_group = np.maximum(op.rows / op.groups, 1.0)
    flop = 2.0 * op.rows * op.cols * op.depth
    sustained = sustained_frac(key, device) * device.grouped_frac
    rate = peak * sustained * curve.efficiency_max_frac / (1.0 + curve.rows_half / per_group)
    operand = OPERAND_BYTES[key]
    bandwidth = device.hbm_bandwidth_bytes_per_s * curve.memory_efficiency_frac
    weights = op.groups * op.cols * op.depth
    activations = op.rows * (op.cols + op.depth)
    launches = curve.launch_s
    forward = np.maximum(flop / rate, (operand * weights + operand * activations) / bandwidth) + launches
    dgrad = (
        np.maximum(flop / rate / curve.dgrad_frac, (operand * weights + operand * activations) / bandwidth) + launches
    )
    wgrad_bytes = operand * activations + 2 * grad_bytes * weights
    wgrad = np.maximum(flop / rate / curve.wgrad_frac, wgrad_bytes / bandwidth) + launches
    # cuBLAS and hipBLASLt run a group as plain products side by side (Transformer Engine's grouped linear does), so it is no
    # slower than those; CANN's npu_grouped_matmul is a kernel of its own. One expert is a plain product everywhere.
    plain = (op.groups <= 1) | (device.vendor != "ascend")
    one = _price_expert_by_expert(op, device, dtype, grad_bytes)

    def least(group_s: F64, plain_s: F64) -> F64:
        several = np.where(op.groups > 1, plain_s / device.grouped_frac, plain_s)
        return np.where(plain, np.minimum(group_s, several), group_s)

    return Price(
        least(forward, one.forward_s),
        least(dgrad, one.backward_input_s),
        least(wgrad, one.backward_weight_s),
        1.0,
        2.0,
    )


def _price_expert_by_expert(op: GroupedGemm, device: Device, dtype: str, grad_bytes: float) -> Price:
    rows = np.maximum(op.rows / op.groups, 1.0)
    one = price_gemm(Gemm(name=op.name, rows=rows, cols=op.cols, depth=op.depth), device, dtype, grad_bytes)
    n = op.groups
    return Price(n * one.forward_s, n * one.backward_input_s, n * one.backward_weight_s, n, 2 * n)


def _head_dim_factor(table: Mapping[int, float], dim: float) -> float:
    if not table:
        return 1.0
    dims = sorted(table)
    return float(np.interp(dim, dims, [table[d] for d in dims]))


def price_attention(op: FusedAttention, device: Device, kernel: str) -> Price:
    """Flash-style attention; see inputs.AttentionCurve. The backward pass has no weight part."""
    curve = device.attention.get(kernel) or device.attention.get("flash2") or next(iter(device.attention.values()))
    peak = device.peak_flop_per_s.get("bf16") or device.peak_flop_per_s["fp16"]
    flop = 2.0 * op.pairs * (op.qk_dim + op.v_dim) * op.heads
    factor = _head_dim_factor(curve.head_dim_frac, (op.qk_dim + op.v_dim) / 2.0)
    tiles = op.sequences * op.heads * op.queries / 128.0

    def seconds(flop: F64, efficiency: float, seq_half: float | None, tile_half: float | None) -> F64:
        seq = curve.seq_half if seq_half is None else seq_half
        tile = curve.tile_half if tile_half is None else tile_half
        return flop * (1.0 + seq / op.queries) * (1.0 + tile / tiles) / (peak * efficiency * factor) + curve.launch_s

    forward = seconds(flop, curve.forward_efficiency_frac, None, None)
    backward = curve.launch_s + seconds(
        BACKWARD_ATTENTION_FLOP * flop,
        curve.backward_efficiency_frac,
        curve.backward_seq_half,
        curve.backward_tile_half,
    )
    return Price(forward, backward, np.zeros_like(forward), 1.0, 3.0)


def price_memory_bound(op: MemoryBound, device: Device) -> Price:
    """Bytes over the bandwidth that element-wise kernels reach, with a floor per kernel."""
    bandwidth = device.hbm_bandwidth_bytes_per_s * device.memory_bound_frac * op.efficiency_frac
    forward = op.forward_bytes / bandwidth + op.forward_kernels * device.kernel_launch_s
    backward = op.backward_bytes / bandwidth + op.backward_kernels * device.kernel_launch_s
    return Price(forward, backward, np.zeros_like(forward), op.forward_kernels, op.backward_kernels)

"""The formulas whose constants calibration fits: seconds from shapes. The same as ``cost_models`` computes with.

Symbols: P peak FLOP/s, BW memory bytes/s, U compute units. Axis: R rows.
"""

from __future__ import annotations

import numpy as np

from autodeploy.calibrate.measurements import (
    F64,
    AttentionTable,
    CollectiveTable,
    GemmTable,
    GroupedGemmTable,
    MoeTable,
)
from cost_models.compute import OPERAND_BYTES
from cost_models.inputs import AttentionCurve, CollectiveCurve, GemmCurve, GroupedGemmCurve

TILES = ((128, 128), (128, 256), (256, 128))
LARGE_TILE = (256, 256)


def gemm_s(curve: GemmCurve, table: GemmTable, peak: float, bandwidth: float, units: int) -> F64:
    """Seconds of each GEMM: launch + max(compute with tile and wave quantisation, bytes) (+ input quantisation)."""
    compute = gemm_compute_s(curve, table, peak, units)
    operand = OPERAND_BYTES[table.dtype]
    moved = operand * (table.m * table.k + table.k * table.n) + 2.0 * table.m * table.n
    memory = moved / (bandwidth * curve.memory_efficiency_frac)
    quantize = np.zeros_like(memory)
    if table.quantized and curve.quantize_memory_frac > 0:
        quantize = 3.0 * table.m * table.k / (bandwidth * curve.quantize_memory_frac)
    return curve.launch_s + np.maximum(compute, memory) + quantize


def gemm_compute_s(curve: GemmCurve, table: GemmTable, peak: float, units: int) -> F64:
    """The best tile's time: padded FLOPs at the limiting rate, slowed by a short k and a partly filled last wave."""
    depth = (1 + curve.k_half / table.k) / (peak * curve.efficiency_max_frac)
    best = np.full(table.m.shape, np.inf)
    for rows, columns in (*TILES, LARGE_TILE) if curve.large_tile else TILES:
        row_tiles, column_tiles = np.ceil(table.m / rows), np.ceil(table.n / columns)
        waves = row_tiles * column_tiles / units
        padded = 2.0 * row_tiles * rows * column_tiles * columns * table.k
        tile_frac = curve.small_tile_frac if rows == columns == 128 else 1.0
        best = np.minimum(best, padded / tile_frac * (np.ceil(waves) / waves) ** curve.wave_exponent)
    flop = 2.0 * table.m * table.n * table.k
    droop = 1 - curve.droop_frac * flop / (flop + curve.droop_half_flop)
    return best * depth / droop


def grouped_gemm_s(curve: GroupedGemmCurve, table: GroupedGemmTable, peak: float, bandwidth: float) -> F64:
    """Seconds of one grouped GEMM: launch + max(FLOPs at a rate that needs rows, weights and activations moved)."""
    operand = OPERAND_BYTES[table.dtype]
    rate = peak * curve.efficiency_max_frac / (1 + curve.rows_half / table.m)
    flop = 2.0 * table.groups * table.m * table.n * table.k
    moved = operand * table.groups * (table.n * table.k + table.m * (table.n + table.k))
    return curve.launch_s + np.maximum(flop / rate, moved / (bandwidth * curve.memory_efficiency_frac))


def moe_s(curve: GroupedGemmCurve, table: MoeTable, peak: float, bandwidth: float, memory_frac: float) -> F64:
    """Seconds of a layer's experts: two grouped GEMMs (gate-up n=2i k=h, down n=h k=i) and the steps between them.

    The memory-bound steps move, in 2-byte numbers: the gather reads and writes T k h, the activation reads 2 T k i and
    writes T k i, the combination reads T k h and writes T h.
    """
    routed = table.tokens * table.top_k
    gate_up, down = (
        GroupedGemmTable(
            dtype=table.dtype,
            groups=table.experts,
            m=table.tokens_per_expert,
            n=n,
            k=k,
            seconds=table.seconds,
            source="",
        )
        for n, k in ((2.0 * table.width, table.hidden), (table.hidden, table.width))
    )
    moved = 2.0 * (3.0 * routed * table.hidden + 3.0 * routed * table.width + table.tokens * table.hidden)
    return (
        grouped_gemm_s(curve, gate_up, peak, bandwidth)
        + grouped_gemm_s(curve, down, peak, bandwidth)
        + moved / (bandwidth * memory_frac)
    )


def attention_flop(table: AttentionTable) -> F64:
    """Causal FLOPs: B H S^2 (d_qk + d_v) forward, 2.5 times that backward."""
    forward = table.batch * table.heads * table.seq**2 * (table.head_dim + table.v_head_dim)
    return forward * (2.5 if table.backward else 1.0)


def attention_s(curve: AttentionCurve, table: AttentionTable, peak: float) -> F64:
    """Seconds of fused attention: launch + FLOPs over a rate that needs long sequences and many blocks of 128 rows."""
    seq_half, tile_half, limit = curve.seq_half, curve.tile_half, curve.forward_efficiency_frac
    if table.backward:
        limit = curve.backward_efficiency_frac
        seq_half = seq_half if curve.backward_seq_half is None else curve.backward_seq_half
        tile_half = tile_half if curve.backward_tile_half is None else curve.backward_tile_half
    blocks = table.batch * table.heads * table.seq / 128.0
    rate = peak * limit / ((1 + seq_half / table.seq) * (1 + tile_half / blocks))
    return curve.launch_s + attention_flop(table) / (rate * head_dim_factor(curve, table.head_dim))


def head_dim_factor(curve: AttentionCurve, head_dim: F64) -> F64:
    """Rate relative to head dim 128, linear between the measured head dims and flat beyond them."""
    points = {128: 1.0, **curve.head_dim_frac}
    dims = sorted(points)
    return np.interp(head_dim, dims, [points[dim] for dim in dims])


def wire_factor(op: str, ranks: F64) -> F64:
    """f of W = f S, the bytes a card sends: 2(n-1)/n all-reduce, (n-1)/n the others, 1 point to point."""
    if op == "p2p":
        return np.ones_like(ranks)
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks


def mesh_share(ranks: F64, cards: int) -> F64:
    """Share of a full mesh's bandwidth that a group can use: one of cards-1 links for each peer."""
    return (ranks - 1) / (cards - 1)


def collective_s(curve: CollectiveCurve, ranks: F64, wire_bytes: F64, bandwidth: float | F64) -> F64:
    """Seconds of a collective whose cards each send ``wire_bytes`` at this level."""
    efficiency = np.full_like(ranks, curve.efficiency_frac)
    if curve.pair_efficiency_frac > 0:
        efficiency = np.where(ranks == 2, curve.pair_efficiency_frac, efficiency)
    if curve.in_network_ranks > 0:
        efficiency = np.where(ranks >= curve.in_network_ranks, curve.in_network_efficiency_frac, efficiency)
    ideal = wire_bytes / (bandwidth * efficiency)
    latency = curve.latency_s + curve.latency_per_rank_s * (ranks - 1)
    return latency + ideal + curve.ramp_sqrt_s * np.sqrt(ideal)


def intra_collective_s(
    curve: CollectiveCurve, table: CollectiveTable, bandwidth: float, cards: int, full_mesh: bool
) -> F64:
    """``collective_s`` of a group inside one domain of ``cards``."""
    wire = wire_factor(table.op, table.ranks) * table.message_bytes
    share = mesh_share(table.ranks, cards) if full_mesh else 1.0
    return collective_s(curve, table.ranks, wire, bandwidth * share)

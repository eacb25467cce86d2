"""Fits of the compute curves: GEMM, grouped GEMM, fused attention."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from autodeploy.calibrate.curves import attention_s, gemm_s, grouped_gemm_s, moe_s
from autodeploy.calibrate.fitting import FitError, Parameter, fit
from autodeploy.calibrate.measurements import AttentionTable, GemmTable, GroupedGemmTable, MoeTable
from cost_models.inputs import AttentionCurve, Device, GemmCurve, GroupedGemmCurve

EFFICIENCY = Parameter(name="efficiency_max_frac", start=0.75, low=0.05, high=1.0)
REFERENCE_HEAD_DIM = 128
DROOP_HALF_FLOP = 1e12  # a free fit puts it at 0.8e12 (A100) or beyond 1e12 (all others): fixed
SHAPE_MIN_ROWS = 12  # fewer rows cannot tell tiles, waves and depth apart
DROOP_MIN_ROWS = 500  # fewer rows cannot tell a droop from noise

_GEMM_SHAPE = (
    Parameter(name="k_half", start=100, low=0, high=2000),
    Parameter(name="wave_exponent", start=0.2, low=0, high=1),
    Parameter(name="memory_efficiency_frac", start=0.75, low=0.5, high=1),
    Parameter(name="small_tile_frac", start=0.95, low=0.5, high=1),
)


def take(table, rows: np.ndarray):
    """The table's rows: every array column indexed."""
    columns = {
        field.name: getattr(table, field.name)[rows]
        for field in dataclasses.fields(table)
        if isinstance(getattr(table, field.name), np.ndarray)
    }
    return dataclasses.replace(table, **columns)


def fit_gemm(table: GemmTable, device: Device, large_tile: bool) -> tuple[GemmCurve, FitError]:
    """The GEMM curve of one dtype (hardware_profiles/README.md). Few rows give limit and launch, the rest is held."""
    peak, bandwidth = device.peak_flop_per_s[table.dtype], device.hbm_bandwidth_bytes_per_s
    known = device.gemm.get(table.dtype, device.gemm["bf16"])
    parameters = [EFFICIENCY, Parameter(name="launch_s", start=3e-6, low=0, high=30e-6)]
    if table.seconds.size >= SHAPE_MIN_ROWS:
        parameters += _GEMM_SHAPE
    if table.seconds.size >= DROOP_MIN_ROWS:
        parameters.append(Parameter(name="droop_frac", start=0.05, low=0, high=0.4))
    if table.quantized:
        parameters.append(Parameter(name="quantize_memory_frac", start=0.5, low=0.1, high=1))

    def curve(values) -> GemmCurve:
        named: dict[str, Any] = dict(zip((p.name for p in parameters), map(float, values), strict=True))
        fixed: dict[str, Any] = {"large_tile": large_tile, "droop_frac": 0.0, "droop_half_flop": DROOP_HALF_FLOP}
        forward_only: dict[str, Any] = {"quantize_memory_frac": 0.0, "dgrad_frac": 1.0, "wgrad_frac": 1.0}
        return dataclasses.replace(known, **{**fixed, **forward_only, **named})

    values, error = fit(
        lambda values, rows: gemm_s(curve(values), take(table, rows), peak, bandwidth, device.compute_units),
        parameters,
        table.seconds,
        starts=({"k_half": 400, "wave_exponent": 0.6},),
    )
    return curve(values.values()), error


def fit_grouped_gemm(
    table: GroupedGemmTable | MoeTable, device: Device, limit_frac: float
) -> tuple[GroupedGemmCurve, FitError]:
    """The grouped-GEMM curve of one dtype; its efficiency cannot exceed ``limit_frac``, the plain GEMM's."""
    peak, bandwidth = device.peak_flop_per_s[table.dtype], device.hbm_bandwidth_bytes_per_s
    held = {"launch_s": 4 * device.kernel_launch_s, "memory_efficiency_frac": 0.8}
    parameters = [
        dataclasses.replace(EFFICIENCY, start=0.6 * limit_frac, high=limit_frac),
        Parameter(name="rows_half", start=80, low=0, high=600),
    ]
    if table.seconds.size >= SHAPE_MIN_ROWS:
        parameters += [
            Parameter(name="launch_s", start=20e-6, low=0, high=150e-6),
            Parameter(name="memory_efficiency_frac", start=0.7, low=0.3, high=1),
        ]

    def curve(values) -> GroupedGemmCurve:
        named = {parameter.name: float(value) for parameter, value in zip(parameters, values, strict=True)}
        return GroupedGemmCurve(**{**held, **named})

    def seconds(values, rows):
        part = take(table, rows)
        if isinstance(part, MoeTable):
            return moe_s(curve(values), part, peak, bandwidth, device.memory_bound_frac)
        return grouped_gemm_s(curve(values), part, peak, bandwidth)

    values, error = fit(
        seconds, parameters, table.seconds, starts=({"rows_half": 250, "efficiency_max_frac": 0.95 * limit_frac},)
    )
    return curve(values.values()), error


def layout_factor(forward_s: np.ndarray, table: GemmTable | GroupedGemmTable) -> float:
    """Efficiency of a backward layout relative to forward: the median of modelled forward over measured seconds."""
    return float(np.median(forward_s / table.seconds))


def fit_attention(table: AttentionTable, device: Device) -> tuple[dict[str, Any], FitError]:
    """Limit, ramps, launch and head-dim factors of one kernel, forward or backward: fields of AttentionCurve."""
    peak = device.peak_flop_per_s["bf16"]
    limit = "backward_efficiency_frac" if table.backward else "forward_efficiency_frac"
    dims = [int(dim) for dim in np.unique(table.head_dim) if int(dim) != REFERENCE_HEAD_DIM]
    parameters = [
        Parameter(name="efficiency_frac", start=0.6, low=0.05, high=1.0),
        Parameter(name="seq_half", start=500, low=0, high=4000),
        Parameter(name="tile_half", start=80, low=0, high=800),
        Parameter(name="launch_s", start=5e-6, low=0, high=20e-6),
        *(Parameter(name=f"dim{dim}", start=1.0, low=0.3, high=1.6) for dim in dims),
    ]

    def fields(values) -> dict[str, Any]:
        head = dict(zip(dims, (float(value) for value in values[4:]), strict=True))
        efficiency, seq_half, tile_half, launch = (float(value) for value in values[:4])
        return {
            limit: efficiency,
            "seq_half": seq_half,
            "tile_half": tile_half,
            "launch_s": launch,
            "head_dim_frac": head,
        }

    def curve(values) -> AttentionCurve:
        return AttentionCurve(**{"forward_efficiency_frac": 1.0, "backward_efficiency_frac": 1.0, **fields(values)})

    values, error = fit(
        lambda values, rows: attention_s(curve(values), take(table, rows), peak), parameters, table.seconds
    )
    return fields(list(values.values())), error

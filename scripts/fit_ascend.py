"""Curves of the Ascend profiles: few published figures, read off by stated rules. Used by fit_profiles.py."""

from __future__ import annotations

import dataclasses
from typing import Any

import fit_published as published
import numpy as np
from fit_rules import Fits, derived

from autodeploy.calibrate.curves import wire_factor
from autodeploy.calibrate.entries import entry, rounded
from autodeploy.calibrate.fit_compute import fit_gemm
from cost_models.inputs import AttentionCurve, Device, GroupedGemmCurve

MINDSPEED = "MindSpeed memory/compress/utils.py"


def ascend(die: Device) -> Fits:
    """Atlas A2: cubes of an A3 die (the same core), MindSpeed's collectives, published attention figures."""
    curve, error = fit_gemm(published.ascend_cubes(), die, False)
    gemm = entry(
        dataclasses.replace(curve, dgrad_frac=1.0, wgrad_frac=0.96, memory_efficiency_frac=0.6),
        error,
        published.ascend_cubes().source,
        derived="measured on an A3 die; wgrad as NVIDIA's, memory from msmodeling (0.6)",
    )
    grouped = entry(
        GroupedGemmCurve(
            efficiency_max_frac=0.9 * curve.efficiency_max_frac,
            rows_half=87.0,
            launch_s=10e-6,
            memory_efficiency_frac=0.6,
            dgrad_frac=1.0,
            wgrad_frac=0.86,
        ),
        None,
        "no grouped-GEMM table",
        derived="GEMM limit x 0.9; rows_half the median of the seven measured NVIDIA tables; launch 2 x msmodeling's 5 us",
    )
    flash = entry(
        AttentionCurve(
            forward_efficiency_frac=0.58, backward_efficiency_frac=0.48, seq_half=500.0, tile_half=60.0, launch_s=10e-6
        ),
        None,
        "pto-isa flash_atten on 910B2: 189.5 TFLOP/s of 353.9 at 8192, head dim 128, full mask",
        derived="limit so that 8192 gives 0.54; ramp of NVIDIA kernels; backward/forward 0.83 as theirs; assumed",
    )
    return {
        "gemm": {"bf16": gemm},
        "grouped_gemm": {"bf16": grouped},
        "attention": {"npu_flash": flash},
        "collectives": {"hccs": a2_mesh(), "roce": a2_roce()},
    }


LAUNCH_US = 15.0  # a collective on Ascend: msmodeling's fixed 10 us and the operator's launch


def _bus(op: str, ranks: int, algorithm_gb_per_s: float) -> float:
    """Bytes a card sends per second, from GB/s of the whole result."""
    return float(wire_factor(op, np.array([float(ranks)]))[0]) * algorithm_gb_per_s


def _mesh_efficiencies(op: str, rates: dict[int, float]) -> list[float]:
    return [_bus(op, ranks, rate) / (28.0 * (ranks - 1)) for ranks, rate in rates.items()]


def _mean_entry(values: list[float], data: str, **more: Any) -> Fits:
    """The geometric mean of efficiencies read off a few rows, with how far the rows lie from it."""
    mean = float(np.exp(np.mean(np.log(values))))
    errors = [abs(value / mean - 1) for value in values]
    return {
        "latency_us": LAUNCH_US,
        "efficiency_frac": rounded(mean),
        **more,
        "rows": len(values),
        "median_ape_frac": rounded(float(np.median(errors))),
        "p90_ape_frac": rounded(float(max(errors))),
        "data": data,
    }


def a2_mesh() -> Fits:
    gathered = _mean_entry(
        _mesh_efficiencies("all_gather", published.A2_ALL_GATHER),
        f"{MINDSPEED}: A2 all-gather of 2, 4, 8 ranks over (n-1) links of 28 GB/s",
    )
    to_all = _mean_entry(
        _mesh_efficiencies("all_to_all", published.A2_ALL_TO_ALL),
        f"{MINDSPEED}: A2 all-to-all of 2, 4, 8 ranks over (n-1) links of 28 GB/s",
    )
    rule = "as the all-gather"
    return {
        "all_gather": gathered,
        "all_to_all": to_all,
        "reduce_scatter": derived(gathered, rule),
        "all_reduce": derived(gathered, f"{rule}, two passes", latency_us=2 * LAUNCH_US),
        "p2p": derived(gathered, rule),
    }


def a2_roce() -> Fits:
    """What leaves the node in an all-to-all, (ranks-8)/ranks of it, over a 25 GB/s NIC."""
    shares = [rate * (ranks - 8) / ranks / 25.0 for ranks, rate in published.A2_ALL_TO_ALL_NODES.items()]
    to_all = _mean_entry(shares, f"{MINDSPEED}: A2 all-to-all of 16, 32, 64 ranks", latency_per_rank_us=2.0)
    ring = derived(
        to_all,
        "the NIC share of the 64-rank all-to-all; latency per node assumed",
        efficiency_frac=shares[-1],
        latency_per_rank_us=8.0,
    )
    pair = derived(
        to_all, "the NIC share of the 64-rank all-to-all", efficiency_frac=shares[-1], latency_per_rank_us=0.0
    )
    return {
        "all_to_all": to_all,
        "all_gather": ring,
        "reduce_scatter": ring,
        "all_reduce": derived(ring, ring["derived"], latency_us=2 * LAUNCH_US, latency_per_rank_us=16.0),
        "p2p": pair,
    }


def cloudmatrix() -> Fits:
    """A3: the A2's compute curves on its own peaks, and one flat tier over UB, as its collectives show."""
    gather = {ranks: _bus("all_gather", ranks, rate) / 196.0 for ranks, rate in published.A3_ALL_GATHER.items()}
    large = _mean_entry([gather[ranks] for ranks in (4, 8, 16)], f"{MINDSPEED}: A3 all-gather of 2 to 16 ranks")
    ring = {
        **large,
        "pair_efficiency_frac": rounded(gather[2]),
        "latency_per_rank_us": 0.5,
        "note": "2 ranks: the die-to-die link alone; from 4 on UB and that link work together",
    }
    shares = [_bus("all_to_all", ranks, rate) / 196.0 for ranks, rate in published.A3_ALL_TO_ALL.items()]
    to_all = _mean_entry(shares, f"{MINDSPEED}: A3 all-to-all of 4 to 64 ranks", latency_per_rank_us=2.0)
    to_all["note"] = (
        "per rank: 0.38 ms at 128 ranks less 0.09 at 2 (TerraceMoE-simulator sim/calibrate.py, an A3-class machine)"
    )
    pair = derived(large, "167 GB/s measured between packages (CloudMatrix384 paper) of 196", efficiency_frac=167 / 196)
    ub = {
        "all_gather": ring,
        "reduce_scatter": derived(ring, "as the all-gather"),
        "all_reduce": derived(ring, "as the all-gather, two passes", latency_us=2 * LAUNCH_US),
        "all_to_all": to_all,
        "p2p": pair,
    }
    rdma = {op: derived(node, "as the A2's RoCE") for op, node in a2_roce().items()}
    return {"collectives": {"hccs": None, "roce": None, "ub": ub, "rdma": rdma}}  # the A2's tiers go

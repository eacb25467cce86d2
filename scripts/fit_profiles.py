#!/usr/bin/env python3
"""Regenerates the `fits` section of every shipped hardware profile from the shared measurements.

    python scripts/fit_profiles.py [--shared ../shared] [--check] [NAME...]

--check compares instead of writing and exits 1 on a difference. Facts (device, tiers, overheads) are written by hand in
the profiles and stay as they are. What has no measurement of its own is derived from a relative by the rule stated in
the entry (`derived`).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fit_published as published
import numpy as np

from autodeploy.calibrate.curves import gemm_s, grouped_gemm_s, wire_factor
from autodeploy.calibrate.entries import entry, error_entry, rounded
from autodeploy.calibrate.fit_compute import fit_attention, fit_gemm, fit_grouped_gemm, layout_factor
from autodeploy.calibrate.fit_network import fit_inter, fit_intra
from autodeploy.calibrate.read import read_file, read_measurements
from autodeploy.calibrate.run import calibrate
from autodeploy.calibrate.write import with_fits, write
from autodeploy.hardware.build import build_profile
from autodeploy.hardware.document import merge, plain, read_document
from autodeploy.hardware.library import profiles_folder
from cost_models.inputs import AttentionCurve, GroupedGemmCurve

Fits = dict[str, Any]
RING_OPS = ("all_reduce", "all_gather", "reduce_scatter")

# Wanted kernels by system: the ones a training program would run. Of several, the best fitted is kept.
GROUPED_KERNELS = ("moe_torch_flow_cutlass", "deepgemm", "vllm_fp8moe_triton_tritonexperts")
GEMM_SOURCES = ("median_of", "trtllm")  # fp8: TensorRT-LLM's rows, the smoother of the two sources

# Best matmul found, bf16 TFLOP/s (stas00/ml-engineering 744d01e, MAMF tables), over the dense peak of the profile.
MAMF_TFLOP_PER_S = {"h100-sxm": 795, "mi300x": 668.4, "mi325x": 784.9, "mi355x": 1565}


class Fitter:
    """The shared measurements, and fits of profiles that others derive from, made once."""

    def __init__(self, shared: Path) -> None:
        self.operators, self.collectives = shared / "operators", shared / "collectives"
        self._made: dict[str, Fits] = {}

    def fits(self, name: str) -> Fits:
        if name not in self._made:
            self._made[name] = RECIPES[name](self)
        return self._made[name]

    def document(self, name: str, with_own_fits: bool = False) -> dict[str, Any]:
        """The profile's facts (those it extends included) under the fits made so far."""
        document, _ = read_document(profiles_folder() / f"{name}.yaml")
        document["fits"] = self.fits(name) if with_own_fits else STUB_FITS(document)
        return document

    def device(self, name: str) -> Any:
        return build_profile(plain(self.document(name))).device

    def simumax(self, system: str) -> published.SimuMax:
        return published.SimuMax(self.operators / "simumax_efficiency.csv", system)


def STUB_FITS(document: dict[str, Any]) -> Fits:
    """Neutral curves, so that a profile can be built before it is fitted."""
    large = {"large_tile": document["name"].startswith(("b", "gb"))}
    gemm = {
        "efficiency_max_frac": 0.8,
        "k_half": 100,
        "launch_us": 3,
        "wave_exponent": 0.2,
        "memory_efficiency_frac": 0.7,
    }
    grouped = {"efficiency_max_frac": 0.6, "rows_half": 100, "launch_us": 5, "memory_efficiency_frac": 0.7}
    attention = {
        "forward_efficiency_frac": 0.5, "backward_efficiency_frac": 0.4, "seq_half": 500, "tile_half": 100, "launch_us": 10
    }  # fmt: skip
    link = {op: {"latency_us": 10, "efficiency_frac": 0.8} for op in (*RING_OPS, "all_to_all", "p2p")}
    return {
        "gemm": {"bf16": {**gemm, **large}},
        "grouped_gemm": {"bf16": grouped},
        "attention": {"flash2": attention},
        "collectives": {tier: dict(link) for tier in document["tiers"]},
    }


# ------------------------------------------------------------------------------------------------------ measured systems


KINDS = ("gemm", "moe", "attention_fwd", "nccl")


def measured(fitter: Fitter, name: str, system: str, kinds: tuple[str, ...] = KINDS) -> Fits:
    """What the operator and collective tables of ``system`` determine."""
    tables = read_measurements(fitter.operators / f"{system}_{kind}.csv" for kind in kinds)
    wanted = [table for table in tables if _wanted(table)]
    fits = calibrate(wanted, fitter.document(name)).fits
    if "gemm" in fits and "fp4" in fitter.device(name).peak_flop_per_s:
        rule = "the fp8 curve over the fp4 peak: no fp4 table"
        fits["gemm"]["fp4"] = derived(fits["gemm"]["fp8"], rule)
        fits["grouped_gemm"]["fp4"] = derived(fits["grouped_gemm"]["fp8"], rule)
    return fits


def _wanted(table: Any) -> bool:
    kind, source = type(table).__name__, table.source
    if kind == "GemmTable":
        return any(word in source for word in GEMM_SOURCES)
    if kind == "MoeTable":
        return any(word in source for word in GROUPED_KERNELS)
    return "int8" not in source


def derived(node: Fits, rule: str, **changes: Any) -> Fits:
    """A curve taken over: its constants, what changes, the rule, and the data behind the original."""
    errors = {
        "rows",
        "median_ape_frac",
        "p90_ape_frac",
        "held_out_median_ape_frac",
        "held_out_p90_ape_frac",
        "at_bound",
    }
    kept = {key: value for key, value in node.items() if key not in errors | {"data", "derived"}}
    return {**kept, **{key: rounded(value) for key, value in changes.items()}, "data": node["data"], "derived": rule}


def scaled(node: Fits, factor: float, rule: str) -> Fits:
    """A curve taken over with its efficiencies times ``factor``."""
    names = ("efficiency_max_frac", "forward_efficiency_frac", "backward_efficiency_frac")
    return derived(node, rule, **{name: node[name] * factor for name in names if name in node})


def add_layout_factors(fits: Fits, fitter: Fitter, name: str, system: str) -> None:
    """dgrad and wgrad against forward, of SimuMax's rows of the same shapes, onto every curve."""
    source = fitter.simumax(system)
    gemm = _layout_factors(fitter, name, source.gemm, fit_gemm, gemm_s)
    grouped = _layout_factors(fitter, name, source.grouped, fit_grouped_gemm, grouped_gemm_s)
    for section, factors in (("gemm", gemm), ("grouped_gemm", grouped)):
        for curve in fits[section].values():
            curve.update(
                {**factors, "note": f"dgrad, wgrad: medians of SimuMax {system} rows against its forward rows"}
            )


def _layout_factors(fitter: Fitter, name: str, table_of: Any, fit_one: Any, seconds_of: Any) -> dict[str, float]:
    device = fitter.device(name)
    peak, bandwidth = device.peak_flop_per_s["bf16"], device.hbm_bandwidth_bytes_per_s
    forward = table_of("forward")
    if fit_one is fit_gemm:
        curve, _ = fit_gemm(forward, device, device.gemm["bf16"].large_tile)
        modelled = lambda table: seconds_of(curve, table, peak, bandwidth, device.compute_units)  # noqa: E731
    else:
        curve, _ = fit_grouped_gemm(forward, device, 0.85)
        modelled = lambda table: seconds_of(curve, table, peak, bandwidth)  # noqa: E731
    base = layout_factor(modelled(forward), forward)
    return {
        f"{layout}_frac": rounded(layout_factor(modelled(table_of(layout)), table_of(layout)) / base)
        for layout in ("dgrad", "wgrad")
    }


def with_backward(node: Fits, table: Any, device: Any, seq_half: float | None = None) -> Fits:
    """A forward attention entry with the backward pass fitted to ``table``."""
    fields, error = fit_attention(table, device)
    node = {**node, "backward_efficiency_frac": rounded(fields["backward_efficiency_frac"])}
    node["backward_seq_half"] = rounded(float(fields["seq_half"]) if seq_half is None else seq_half)
    node["backward_tile_half"] = rounded(float(fields["tile_half"]))
    node["note"] = f"backward: {table.source}, {error.rows} rows, median error {error.median_ape_frac:.3f}"
    return node


def attention_of_table(forward: Any, device: Any, tile_half: float, data: str, ratio: float) -> Fits:
    """An entry from a few published rates: limit and sequence ramp; the tile ramp is taken over."""
    fields, error = fit_attention(forward, device)
    fields.update(tile_half=tile_half, launch_s=5e-6)
    fields["backward_efficiency_frac"] = float(fields["forward_efficiency_frac"]) * ratio
    return entry(fields, error, data)


def older_kernels(flash2: Fits) -> Fits:
    """flash1 and the Triton kernel from flash2, by the FlashAttention-2 paper (arXiv 2307.08691, section 4)."""
    paper = "FlashAttention-2 paper: 1.7-3.0x faster than FlashAttention, 1.3-2.5x than Triton, forward and backward"
    return {
        "flash1": derived(
            flash2, f"flash2 x 0.60: {paper}; the least gain, as at long sequences",
            forward_efficiency_frac=flash2["forward_efficiency_frac"] * 0.60,
            backward_efficiency_frac=flash2["backward_efficiency_frac"] * 0.60,
        ),
        "triton": derived(
            flash2, f"flash2 x 0.71 forward, 0.50 backward: {paper}",
            forward_efficiency_frac=flash2["forward_efficiency_frac"] * 0.71,
            backward_efficiency_frac=flash2["backward_efficiency_frac"] * 0.50,
        ),
    }  # fmt: skip


def nic_tier(fitter: Fitter, name: str, fits: Fits, inner: str, outer: str) -> Fits:
    """The tier between nodes: SimAI's tables of 2 to 16 nodes (ring), the others from it."""
    profile = build_profile(plain(merge(fitter.document(name), {"fits": fits})))
    tiers = {tier.name: tier for tier in profile.tiers}
    tables = published.simai_all_reduce(fitter.collectives / "simai_ratio_tables.txt", 50.0, (2, 4, 8, 16))
    tier = dataclasses.replace(tiers[outer], bandwidth_bytes_per_s=50e9)
    curve, error = fit_inter(tables, tier, tiers[inner], tiers[inner].curves["all_reduce"])
    return inter_entries(
        entry(curve, error, "SimAI nic_ratio tables, 2 to 16 nodes of 8 cards, 50 GB/s per card assumed")
    )


SMALL_ALL_REDUCE_US = 24.0  # 16 ranks on 2 DGX H100: 40 us for 1 to 4 KiB, less about 16 us of the NVLink tier
TREE_NODE_US = 9.4  # what an all-reduce adds per node: two hops of the ring


def inter_entries(ring: Fits) -> Fits:
    """All operations of a NIC tier from the fitted all-reduce."""
    hop = ring["latency_per_rank_us"] / 16  # two passes over the ring, eight ranks to a node
    small = "latency: 40 us measured for small all-reduces of 16 ranks on two DGX H100, less the NVLink part"
    note = f"hops: {hop:.2f} us each in SimAI's rings of 8 ranks a node; here one rank of each node takes part"
    efficiency, ramp = ring["efficiency_frac"], ring["ramp_sqrt_us"]
    common = {"efficiency_frac": efficiency, "ramp_sqrt_us": ramp}
    half = {**common, "latency_us": SMALL_ALL_REDUCE_US / 2, "latency_per_rank_us": rounded(hop)}
    rule = f"from the fitted all-reduce; {small}; {note}"
    data = ring["data"]
    return {
        "all_reduce": {
            **ring, "latency_us": SMALL_ALL_REDUCE_US, "latency_per_rank_us": rounded(2 * hop), "note": f"{small}; {note}"
        },
        "all_gather": {**half, "data": data, "derived": rule},
        "reduce_scatter": {**half, "data": data, "derived": rule},
        "all_to_all": {
            "latency_us": SMALL_ALL_REDUCE_US / 2, "efficiency_frac": 0.94, "latency_per_rank_us": 4.3,
            "data": "SimAI ata_ratio tables: 0.94 of the NIC at 4 and 8 nodes; 4.2 to 4.6 us per remote rank", "derived": "read off",
        },
        "p2p": {**common, "latency_us": SMALL_ALL_REDUCE_US / 2, "data": data, "derived": rule},
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------ one recipe each


def a100_80g(fitter: Fitter) -> Fits:
    name, system = "a100-80g-sxm", "a100_sxm"
    fits, device = measured(fitter, name, system), fitter.device(name)
    simumax = fitter.simumax("a100_pcie")
    curve, error = fit_grouped_gemm(simumax.grouped("forward"), device, fits["gemm"]["bf16"]["efficiency_max_frac"])
    fits["grouped_gemm"] = {"bf16": entry(curve, error, simumax.grouped("forward").source)}
    add_layout_factors(fits, fitter, name, "a100_pcie")
    flash2 = fits["attention"]["flash2"]
    flash2 = with_backward(
        flash2, dataclasses.replace(simumax.attention(True), kernel="flash2"), device, flash2["seq_half"]
    )
    flash2["head_dim_frac"] = {64: 0.9, 192: 0.93}
    flash2["note"] += "; head dims: Azure FA2 179.5 TFLOP/s at 64 against 199 at 128; SimuMax MLA 192/128 against 128"
    fits["attention"] = {"flash2": flash2, **older_kernels(flash2), "cudnn": fits["attention"]["cudnn"]}
    fits["attention"]["cudnn"]["note"] = "TensorRT-LLM's kernel stands for cuDNN's"
    rule = "the H100's: NCCL staff give the same share of a 200G as of a 400G NIC (24 of 25, 46 to 49 of 50 GB/s)"
    h100_links = measured(fitter, "h100-sxm", "h100_sxm", kinds=("nccl",))
    nic = nic_tier(fitter, "h100-sxm", h100_links, "nvlink", "infiniband")
    fits["collectives"]["infiniband"] = {op: derived(node, rule) for op, node in nic.items()}
    return fits


def h100(fitter: Fitter) -> Fits:
    name = "h100-sxm"
    fits = hopper(fitter, name, "h100_sxm")
    fits["collectives"]["infiniband"] = nic_tier(fitter, name, fits, "nvlink", "infiniband")
    return fits


def hopper(fitter: Fitter, name: str, system: str) -> Fits:
    fits, device = measured(fitter, name, system), fitter.device(name)
    add_layout_factors(fits, fitter, "a100-80g-sxm", "a100_pcie")
    attention = fits["attention"]
    for kernel in ("flash3", "cudnn"):
        attention[kernel] = with_backward(attention[kernel], published.h100_backward(kernel), device)
        attention[kernel]["note"] += "; causal = full-mask rate x causal/full of the forward pass"
    flash2 = attention_of_table(
        published.h100_flash2(False), device, fitter.fits("a100-80g-sxm")["attention"]["flash2"]["tile_half"],
        "FlashAttention-3 paper, FA2 on H100: 191 TFLOP/s at 512, 335 at 16k, causal; Azure measures 328", 0.80,
    )  # fmt: skip
    flash2["backward_efficiency_frac"] = rounded(
        flash2["forward_efficiency_frac"] * published.FLASH2_BACKWARD_FULL_MASK[16384.0] / 370.0
    )
    flash2["note"] = "tile_half as on A100; backward/forward 322/370 at 16k, full mask, same paper"
    fits["attention"] = {
        "flash3": attention["flash3"],
        "cudnn": attention["cudnn"],
        "flash2": flash2,
        **older_kernels(flash2),
    }
    return fits


def h200(fitter: Fitter) -> Fits:
    fits = hopper(fitter, "h200", "h200_sxm")
    fits["collectives"]["infiniband"] = fitter.fits("h100-sxm")["collectives"]["infiniband"]
    return fits


def blackwell_flash2(fitter: Fitter, name: str) -> Fits:
    """FlashAttention-2 has no Blackwell path: the H100 rate per compute unit."""
    hopper_device, device = fitter.device("h100-sxm"), fitter.device(name)
    share = (device.compute_units / hopper_device.compute_units) * (
        hopper_device.peak_flop_per_s["bf16"] / device.peak_flop_per_s["bf16"]
    )
    return scaled(fitter.fits("h100-sxm")["attention"]["flash2"], share, "H100 flash2 rate per compute unit")


def b200(fitter: Fitter) -> Fits:
    """bf16 and attention as SimuMax measured them inside Megatron-LM on this very machine."""
    name, system = "b200", "b200_bf16_ceperm"
    fits, device, simumax = measured(fitter, name, "b200_sxm"), fitter.device(name), fitter.simumax(system)
    burst = fits["gemm"]["bf16"]
    curve, error = fit_gemm(simumax.gemm("forward"), device, True)
    fits["gemm"]["bf16"] = entry(curve, error, simumax.gemm("forward").source)
    curve, error = fit_grouped_gemm(simumax.grouped("forward"), device, burst["efficiency_max_frac"])
    fits["grouped_gemm"]["bf16"] = entry(curve, error, simumax.grouped("forward").source)
    add_layout_factors(fits, fitter, name, system)
    fits["gemm"]["bf16"]["note"] += (
        f"; in Megatron-LM, under sustained power; short bursts reach more: efficiency_max_frac {burst['efficiency_max_frac']},"
        f" droop_frac {burst.get('droop_frac', 0)} (aiconfigurator, median error {burst['median_ape_frac']})"
    )
    fields, error = fit_attention(simumax.attention(False), device)
    fields["backward_efficiency_frac"] = 0.4
    cudnn = with_backward(entry(fields, error, simumax.attention(False).source), simumax.attention(True), device)
    flash2 = blackwell_flash2(fitter, name)
    fits["attention"] = {"cudnn": cudnn, "flash2": flash2, **older_kernels(flash2)}
    fits["collectives"]["infiniband"] = fitter.fits("h100-sxm")["collectives"]["infiniband"]
    return fits


def blackwell(name: str, system: str) -> Callable[[Fitter], Fits]:
    def recipe(fitter: Fitter) -> Fits:
        fits = measured(fitter, name, system)
        add_layout_factors(fits, fitter, "b200", "b200_bf16_ceperm")
        own, b200_burst = fits["attention"]["cudnn"], measured(fitter, "b200", "b200_sxm")["attention"]["cudnn"]
        ratio = own["forward_efficiency_frac"] / b200_burst["forward_efficiency_frac"]
        rule = f"B200's curve inside Megatron-LM x {ratio:.3f}, the ratio of the two machines' TensorRT-LLM kernels"
        flash2 = blackwell_flash2(fitter, name)
        cudnn = scaled(fitter.fits("b200")["attention"]["cudnn"], ratio, rule)
        fits["attention"] = {"cudnn": cudnn, "flash2": flash2, **older_kernels(flash2)}
        fits["collectives"]["infiniband"] = fitter.fits("h100-sxm")["collectives"]["infiniband"]
        if name.endswith("nvl72"):
            fits["collectives"]["nvlink"]["all_reduce"] = rack_all_reduce(fitter, name, system)
        return fits

    return recipe


def rack_all_reduce(fitter: Fitter, name: str, system: str) -> Fits:
    """One curve for trays and the whole rack: the tray's table and the 72-rank table of a GB200 rack."""
    rack = read_file(fitter.collectives / "gb200_nvl72_72gpu_allreduce.txt")[0]
    trays = [t for t in read_file(fitter.operators / f"{system}_nccl.csv") if t.op == "all_reduce"]
    tray = trays[-1]
    together = dataclasses.replace(
        tray,
        **{
            axis: np.concatenate([getattr(tray, axis), getattr(rack, axis)])
            for axis in ("ranks", "message_bytes", "seconds")
        },
        source=f"{tray.source}; {rack.source}",
    )
    tier = build_profile(plain(fitter.document(name))).tiers[0]
    curve, error = fit_intra(together, tier)
    note = "in-network reduction from 6 ranks on, as on B200 (stas00/ml-engineering: 678 at 5, 778 at 6 GPUs)"
    return entry(dataclasses.replace(curve, in_network_ranks=6), error, together.source, note=note)


def relative(base: str, factors: Callable[[Fitter], tuple[float, str]]) -> Callable[[Fitter], Fits]:
    """Every compute curve of ``base`` with efficiencies times a factor; collectives as they are."""

    def recipe(fitter: Fitter) -> Fits:
        factor, rule = factors(fitter)
        fits = fitter.fits(base)
        return {
            section: {key: scaled(curve, factor, rule) for key, curve in fits[section].items()}
            for section in ("gemm", "grouped_gemm", "attention")
        }

    return recipe


def power_limited(fitter: Fitter) -> tuple[float, str]:
    factor = (500 / 700) ** 0.4
    return (
        factor,
        f"H100 curve x {factor:.3f} = (500 W / 700 W)^0.4: clock falls with power under large GEMMs; exponent assumed",
    )


def amd(name: str) -> Callable[[Fitter], Fits]:
    """H100's curves, scaled so that the best matmul found on the card is met; links from their usable share."""

    def recipe(fitter: Fitter) -> Fits:
        def reached(card: str) -> float:
            return MAMF_TFLOP_PER_S[card] * 1e12 / fitter.device(card).peak_flop_per_s["bf16"]

        factor = reached(name) / reached("h100-sxm")
        rule = f"H100 curve x {factor:.3f}: best matmul found {MAMF_TFLOP_PER_S[name]} against 795 TFLOP/s (MAMF), over the peaks"
        base = fitter.fits("h100-sxm")
        fits = {
            section: {key: scaled(curve, factor, rule) for key, curve in base[section].items()}
            for section in ("gemm", "grouped_gemm")
        }
        kernels = ("flash2", "triton")
        source = {"flash2": base["attention"]["cudnn"], "triton": base["attention"]["cudnn"]}
        fits["attention"] = {
            kernel: scaled(source[kernel], factor, f"{rule}; cuDNN's kernel stands for CK's") for kernel in kernels
        }
        fits["attention"]["triton"] = scaled(fits["attention"]["flash2"], 0.7, "CK's kernel x 0.7: assumed")
        if name == "mi300x":
            fits["collectives"] = amd_collectives(fitter)
        return fits

    return recipe


def amd_collectives(fitter: Fitter) -> Fits:
    rccl = "48 of 64 GB/s usable per link (ROCm blog mi300x-rccl-xgmi, rccl#1210): 0.75, less 5% of protocol, assumed"
    link = {"latency_us": 20.0, "efficiency_frac": 0.71, "latency_per_rank_us": 1.0, "ramp_sqrt_us": 4.0, "data": rccl,
            "derived": "read off; latency and ramp assumed"}  # fmt: skip
    pair = {"latency_us": 10.0, "efficiency_frac": 0.75, "data": rccl, "derived": "read off; latency assumed"}
    mesh = {**{op: dict(link) for op in (*RING_OPS, "all_to_all")}, "p2p": pair}
    profile = build_profile(plain(merge(fitter.document("mi300x"), {"fits": {"collectives": {"xgmi": mesh}}})))
    table = read_file(fitter.collectives / "mi300x_2x8_ainic_allreduce.txt")[0]
    curve, error = fit_inter([table], profile.tiers[1], profile.tiers[0], profile.tiers[0].curves["all_reduce"])
    roce = {op: dict(node) for op, node in fitter.fits("h100-sxm")["collectives"]["infiniband"].items()}
    for op in (*RING_OPS, "p2p"):
        rule = "latencies as the H100's InfiniBand, efficiency of the fitted all-reduce"
        roce[op] = derived(roce[op], rule, efficiency_frac=curve.efficiency_frac)
    roce["all_reduce"].update(error_entry(error), data=table.source)
    return {"xgmi": mesh, "roce": roce}


def ascend(fitter: Fitter) -> Fits:
    """Atlas A2: cubes of an A3 die (the same core), MindSpeed's collectives, published attention figures."""
    die = fitter.device("cloudmatrix384")
    curve, error = fit_gemm(published.ascend_cubes(), die, False)
    gemm = entry(dataclasses.replace(curve, dgrad_frac=1.0, wgrad_frac=0.96, memory_efficiency_frac=0.6), error,
                 published.ascend_cubes().source, derived="measured on an A3 die; wgrad as NVIDIA's, memory from msmodeling (0.6)")  # fmt: skip
    grouped = entry(
        GroupedGemmCurve(efficiency_max_frac=0.9 * curve.efficiency_max_frac, rows_half=64.0, launch_s=10e-6,
                         memory_efficiency_frac=0.6, dgrad_frac=1.0, wgrad_frac=0.86),
        None, "no grouped-GEMM table", derived="the GEMM limit x 0.9; rows_half and factors near the A100's; launch 2 x msmodeling's 5 us",
    )  # fmt: skip
    flash = entry(
        AttentionCurve(forward_efficiency_frac=0.58, backward_efficiency_frac=0.48, seq_half=500.0, tile_half=60.0, launch_s=10e-6),
        None, "pto-isa flash_atten on 910B2: 189.5 TFLOP/s of 353.9 at 8192, head dim 128, full mask",
        derived="limit so that 8192 gives 0.54; ramp of NVIDIA kernels; backward/forward 0.83 as theirs; assumed",
    )  # fmt: skip
    return {"gemm": {"bf16": gemm}, "grouped_gemm": {"bf16": grouped}, "attention": {"npu_flash": flash},
            "collectives": {"hccs": a2_mesh(), "roce": a2_roce()}}  # fmt: skip


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
    return {"latency_us": LAUNCH_US, "efficiency_frac": rounded(mean), **more, "rows": len(values),
            "median_ape_frac": rounded(float(np.median(errors))), "p90_ape_frac": rounded(float(max(errors))), "data": data}  # fmt: skip


def a2_mesh() -> Fits:
    gathered = _mean_entry(_mesh_efficiencies("all_gather", published.A2_ALL_GATHER),
                           "MindSpeed memory/compress/utils.py: A2 all-gather of 2, 4, 8 ranks over (n-1) links of 28 GB/s")  # fmt: skip
    to_all = _mean_entry(_mesh_efficiencies("all_to_all", published.A2_ALL_TO_ALL),
                         "MindSpeed memory/compress/utils.py: A2 all-to-all of 2, 4, 8 ranks over (n-1) links of 28 GB/s")  # fmt: skip
    rule = "as the all-gather"
    return {"all_gather": gathered, "all_to_all": to_all, "reduce_scatter": derived(gathered, rule),
            "all_reduce": derived(gathered, f"{rule}, two passes", latency_us=2 * LAUNCH_US), "p2p": derived(gathered, rule)}  # fmt: skip


def a2_roce() -> Fits:
    """What leaves the node in an all-to-all, (ranks-8)/ranks of it, over a 25 GB/s NIC."""
    shares = [rate * (ranks - 8) / ranks / 25.0 for ranks, rate in published.A2_ALL_TO_ALL_NODES.items()]
    to_all = _mean_entry(
        shares, "MindSpeed memory/compress/utils.py: A2 all-to-all of 16, 32, 64 ranks", latency_per_rank_us=2.0
    )
    ring = derived(to_all, "the NIC share of the 64-rank all-to-all; latency per node assumed", efficiency_frac=shares[-1],
                   latency_per_rank_us=8.0)  # fmt: skip
    pair = derived(
        to_all, "the NIC share of the 64-rank all-to-all", efficiency_frac=shares[-1], latency_per_rank_us=0.0
    )
    return {"all_to_all": to_all, "all_gather": ring, "reduce_scatter": ring,
            "all_reduce": derived(ring, ring["derived"], latency_us=2 * LAUNCH_US, latency_per_rank_us=16.0), "p2p": pair}  # fmt: skip


def cloudmatrix(fitter: Fitter) -> Fits:
    """A3: the A2's compute curves on its own peaks, and one flat tier over UB, as its all-gathers and all-to-alls show."""
    gather = {ranks: _bus("all_gather", ranks, rate) / 196.0 for ranks, rate in published.A3_ALL_GATHER.items()}
    large = _mean_entry(
        [gather[ranks] for ranks in (4, 8, 16)], "MindSpeed memory/compress/utils.py: A3 all-gather of 2 to 16 ranks"
    )
    ring = {
        **large, "efficiency_frac": rounded(gather[2]), "in_network_ranks": 4, "in_network_efficiency_frac": large["efficiency_frac"],
        "latency_per_rank_us": 0.5, "note": "2 ranks: the die-to-die link alone; from 4 on UB and that link work together",
    }  # fmt: skip
    shares = [_bus("all_to_all", ranks, rate) / 196.0 for ranks, rate in published.A3_ALL_TO_ALL.items()]
    to_all = _mean_entry(
        shares, "MindSpeed memory/compress/utils.py: A3 all-to-all of 4 to 64 ranks", latency_per_rank_us=2.0
    )
    to_all["note"] = (
        "per rank: 0.38 ms at 128 ranks less 0.09 at 2 (TerraceMoE-simulator sim/calibrate.py, an A3-class machine)"
    )
    pair = derived(large, "167 GB/s measured between packages (CloudMatrix384 paper) of 196", efficiency_frac=167 / 196)
    ub = {"all_gather": ring, "reduce_scatter": derived(ring, "as the all-gather"),
          "all_reduce": derived(ring, "as the all-gather, two passes", latency_us=2 * LAUNCH_US), "all_to_all": to_all, "p2p": pair}  # fmt: skip
    rdma = {op: derived(node, "as the A2's RoCE") for op, node in a2_roce().items()}
    return {"collectives": {"ub": ub, "rdma": rdma}}


RECIPES: dict[str, Callable[[Fitter], Fits]] = {
    "a100-80g-sxm": a100_80g,
    "h100-sxm": h100,
    "h200": h200,
    "b200": b200,
    "b300": blackwell("b300", "b300_sxm"),
    "gb200-nvl72": blackwell("gb200-nvl72", "gb200"),
    "gb300-nvl72": blackwell("gb300-nvl72", "gb300"),
    "h100-96g-hbm2e-500w": relative("h100-sxm", power_limited),
    "mi300x": amd("mi300x"),
    "mi325x": amd("mi325x"),
    "mi355x": amd("mi355x"),
    "atlas-800t-a2": ascend,
    "cloudmatrix384": cloudmatrix,
}
"""Profiles with fits of their own. The others extend one of these and take its curves over their own peaks."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="profiles to fit; all by default")
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    parser.add_argument(
        "--check", action="store_true", help="compare with the shipped profiles instead of writing them"
    )
    arguments = parser.parse_args()
    if not (arguments.shared / "operators").is_dir():
        parser.error(f"--shared {arguments.shared}: no operators/ folder there")
    fitter, different = Fitter(arguments.shared), []
    for name in arguments.names or RECIPES:
        path = profiles_folder() / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        fitted = with_fits(text, fitter.fits(name))
        if fitted != text:
            different.append(name)
            if not arguments.check:
                write(path, fitted)
    print(f"{len(different)} differ: {', '.join(different)}" if different else "all as shipped", file=sys.stderr)
    return 1 if arguments.check and different else 0


if __name__ == "__main__":
    sys.exit(main())

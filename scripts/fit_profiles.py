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
from fit_ascend import ascend, cloudmatrix
from fit_rules import RING_OPS, Fits, derived, inter_entries, older_kernels, rebalanced, scaled

from autodeploy.calibrate.curves import gemm_s, grouped_gemm_s
from autodeploy.calibrate.entries import entry, rounded
from autodeploy.calibrate.fit_compute import fit_attention, fit_gemm, fit_grouped_gemm, layout_factor
from autodeploy.calibrate.fit_network import fit_inter, fit_intra
from autodeploy.calibrate.read import read_file, read_measurements
from autodeploy.calibrate.run import calibrate
from autodeploy.calibrate.write import with_fits, write
from autodeploy.hardware.build import build_profile
from autodeploy.hardware.document import merge, plain, read_document
from autodeploy.hardware.library import profiles_folder

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
        "forward_efficiency_frac": 0.5,
        "backward_efficiency_frac": 0.4,
        "seq_half": 500,
        "tile_half": 100,
        "launch_us": 10,
    }
    link = {op: {"latency_us": 10, "efficiency_frac": 0.8} for op in (*RING_OPS, "all_to_all", "p2p")}
    return {
        "gemm": {"bf16": {**gemm, **large}},
        "grouped_gemm": {"bf16": grouped},
        "attention": {"flash2": attention},
        "collectives": {tier: dict(link) for tier in document["tiers"]},
    }


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
    fields, _ = fit_attention(forward, device)
    fields.update(tile_half=tile_half, launch_s=5e-6)
    fields["backward_efficiency_frac"] = float(fields["forward_efficiency_frac"]) * ratio
    return entry(fields, None, data, derived="limit and ramp through the two published points")


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
        published.h100_flash2(False),
        device,
        fitter.fits("a100-80g-sxm")["attention"]["flash2"]["tile_half"],
        "FlashAttention-3 paper, FA2 on H100: 191 TFLOP/s at 512, 335 at 16k, causal; Azure measures 328",
        0.80,
    )
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
        f"; in Megatron-LM, under sustained power; short bursts reach more: limit {burst['efficiency_max_frac']},"
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


def power_limited(fitter: Fitter) -> Fits:
    """The H100 at 500 W of 700 W. Matrix products by an assumed exponent; attention by one fitted to torchtitan's runs."""
    assumed = "clock falls with power under large GEMMs; exponent assumed"
    fitted = (
        "exponent fitted to 14 torchtitan runs of fitted families (0.86 +- 0.07 of what 0.4 gives), step error 4.7%"
    )
    exponents = {"gemm": (0.4, assumed), "grouped_gemm": (0.4, assumed), "attention": (0.85, fitted)}
    fits: Fits = {}
    for section, (exponent, why) in exponents.items():
        factor = (500 / 700) ** exponent
        rule = f"H100 curve x {factor:.3f} = (500 W / 700 W)^{exponent}: {why}"
        fits[section] = {key: scaled(curve, factor, rule) for key, curve in fitter.fits("h100-sxm")[section].items()}
    return fits


def h20(fitter: Fitter) -> Fits:
    """Hopper with a quarter of the H100's matrix rate per unit: its own balance of multiplying and feeding."""
    hopper, device = fitter.device("h100-sxm"), fitter.device("h20")
    rates = [each.peak_flop_per_s["bf16"] / each.compute_units for each in (device, hopper)]
    ratio = rates[0] / rates[1]
    rule = (
        f"H100 curve with {ratio:.3f} of its matrix rate per unit, fed as fast: e' = 1 / (1 + {ratio:.3f} (1 / e - 1))"
    )
    base = fitter.fits("h100-sxm")
    return {
        section: {key: rebalanced(curve, ratio, rule) for key, curve in base[section].items()}
        for section in ("gemm", "grouped_gemm", "attention")
    }


def amd(name: str) -> Callable[[Fitter], Fits]:
    """H100's curves, scaled so that the best matmul found on the card is met; links from their usable share."""

    def recipe(fitter: Fitter) -> Fits:
        def reached(card: str) -> float:
            return MAMF_TFLOP_PER_S[card] * 1e12 / fitter.device(card).peak_flop_per_s["bf16"]

        factor = reached(name) / reached("h100-sxm")
        best = f"best matmul found (MAMF) {MAMF_TFLOP_PER_S[name]} against 795 TFLOP/s, over the peaks"
        rule = f"H100 curve x {factor:.3f}: {best}"
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
    link = {
        "latency_us": 20.0,
        "efficiency_frac": 0.71,
        "latency_per_rank_us": 1.0,
        "ramp_sqrt_us": 4.0,
        "data": rccl,
        "derived": "read off; latency and ramp assumed",
    }
    pair = {"latency_us": 10.0, "efficiency_frac": 0.75, "data": rccl, "derived": "read off; latency assumed"}
    mesh = {**{op: dict(link) for op in (*RING_OPS, "all_to_all")}, "p2p": pair}
    profile = build_profile(plain(merge(fitter.document("mi300x"), {"fits": {"collectives": {"xgmi": mesh}}})))
    table = read_file(fitter.collectives / "mi300x_2x8_ainic_allreduce.txt")[0]
    curve, error = fit_inter([table], profile.tiers[1], profile.tiers[0], profile.tiers[0].curves["all_reduce"])
    roce = {op: dict(node) for op, node in fitter.fits("h100-sxm")["collectives"]["infiniband"].items()}
    for op in (*RING_OPS, "p2p"):
        rule = "latencies as the H100's InfiniBand, efficiency of the fitted all-reduce"
        roce[op] = derived(roce[op], rule, efficiency_frac=curve.efficiency_frac)
    roce["all_reduce"].update(
        data=table.source, note=f"efficiency alone: {error.rows} rows, {error.median_ape_frac:.3f}"
    )
    return {"xgmi": mesh, "roce": roce}


RECIPES: dict[str, Callable[[Fitter], Fits]] = {
    "a100-80g-sxm": a100_80g,
    "h100-sxm": h100,
    "h200": h200,
    "b200": b200,
    "b300": blackwell("b300", "b300_sxm"),
    "gb200-nvl72": blackwell("gb200-nvl72", "gb200"),
    "gb300-nvl72": blackwell("gb300-nvl72", "gb300"),
    "h100-96g-hbm2e-500w": power_limited,
    "h20": h20,
    "mi300x": amd("mi300x"),
    "mi325x": amd("mi325x"),
    "mi355x": amd("mi355x"),
    "atlas-800t-a2": lambda fitter: ascend(fitter.device("cloudmatrix384")),
    "cloudmatrix384": lambda fitter: cloudmatrix(),
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

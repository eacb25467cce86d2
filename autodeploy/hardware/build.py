"""A plain document to a ``HardwareProfile``. Units are converted here, once: GB = 1e9 bytes, GiB = 2**30 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.errors import InputError
from cost_models.inputs import (
    COLLECTIVE_OPS,
    AttentionCurve,
    CollectiveCurve,
    Device,
    GemmCurve,
    GroupedGemmCurve,
    HardwareProfile,
    Overheads,
    SoftwareStack,
    Tier,
)

GB, GIB, TERA, US, MS = 1e9, 2.0**30, 1e12, 1e-6, 1e-3

# How a key of the file becomes a field: the suffix is the unit.
_UNITS: tuple[tuple[str, str, float], ...] = (
    ("ramp_sqrt_us", "ramp_sqrt_s", 1e-3),  # unit sqrt(us): c us * sqrt(x us) = 1e-3 c * sqrt(x s)
    ("_tflop_per_s", "_flop_per_s", TERA),
    ("_gb_per_s", "_bytes_per_s", GB),
    ("_gib", "_bytes", GIB),
    ("_gb", "_bytes", GB),
    ("_us", "_s", US),
    ("_ms", "_s", MS),
)

# A precision computes at the peak, and failing a curve of its own on the curve, of the next in its row.
_PRECISION_FALLBACKS = {"fp16": "bf16", "fp8_block": "fp8", "mxfp8": "fp8_block", "nvfp4": "fp4", "fp4": "fp8"}

# A kernel that a device has no curve for runs as the first of these it has.
_ATTENTION_FALLBACKS = {
    "flash1": ("triton", "flash2", "npu_flash"),
    "flash2": ("npu_flash", "flash1"),
    "flash3": ("cudnn", "flash2", "npu_flash"),
    "cudnn": ("flash3", "flash2", "npu_flash"),
    "triton": ("flash1", "flash2", "npu_flash"),
    "npu_flash": ("flash2",),
}

_COLLECTIVE_FALLBACKS = {"reduce_scatter": "all_gather", "all_gather": "reduce_scatter", "p2p": "all_to_all"}


def build_profile(document: Mapping[str, Any], sha256: str = "") -> HardwareProfile:
    """The profile of a document without provenance (``document.plain``), checked or trusted."""
    document = with_training(document)
    fits = document.get("fits", {})
    known = ("backend", "cards_per_node", "expert_imbalance", "price_per_card_hour_usd", "power_per_card_w")
    return HardwareProfile(
        name=document["name"],
        device=_device(document["name"], document["device"], fits),
        tiers=_tiers(document["tiers"], fits.get("collectives", {})),
        overheads=Overheads(**in_si(document.get("overheads", {}))),
        stack=SoftwareStack(**document.get("stack", {})),
        sha256=sha256,
        **{key: document[key] for key in known if key in document},
    )


TRAINING_DEVICE_KEYS = (
    "sustained_frac",
    "grouped_frac",
    "memory_bound_frac",
    "fp8_frac",
    "block_scaled_frac",
    "fp4_frac",
)


def with_training(document: Mapping[str, Any]) -> dict[str, Any]:
    """What whole training runs determine replaces what data sheets and isolated benchmarks say of device and overheads."""
    training = dict(document.get("training", {}))
    device = {key: training.pop(key) for key in TRAINING_DEVICE_KEYS if key in training}
    merged = {key: value for key, value in document.items() if key != "training"}
    merged["device"] = {**document["device"], **device}
    merged["overheads"] = {**document.get("overheads", {}), **training}
    return merged


def in_si(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section with unit suffixes turned into SI: ``launch_us: 3`` -> ``launch_s: 3e-6``."""
    return dict(_in_si(key, value) for key, value in section.items())


def _in_si(key: str, value: Any) -> tuple[str, Any]:
    for suffix, si_suffix, factor in _UNITS:
        if key.endswith(suffix):
            return key.removesuffix(suffix) + si_suffix, value * factor
    return key, value


def _device(name: str, section: Mapping[str, Any], fits: Mapping[str, Any]) -> Device:
    peaks = {dtype: value * TERA for dtype, value in section["peak_tflop_per_s"].items()}
    for dtype, other in _PRECISION_FALLBACKS.items():
        if dtype not in peaks and other in peaks and dtype != "fp4":
            peaks[dtype] = peaks[other]
    scalars = in_si({key: value for key, value in section.items() if key != "peak_tflop_per_s"})
    return Device(
        name=name,
        peak_flop_per_s=peaks,
        gemm=_by_precision(peaks, {k: GemmCurve(**in_si(v)) for k, v in fits.get("gemm", {}).items()}),
        grouped_gemm=_by_precision(
            peaks, {k: GroupedGemmCurve(**in_si(v)) for k, v in fits.get("grouped_gemm", {}).items()}
        ),
        attention=_attention({k: AttentionCurve(**in_si(v)) for k, v in fits.get("attention", {}).items()}),
        **scalars,
    )


def _by_precision(peaks: Mapping[str, float], curves: dict[str, Any]) -> dict[str, Any]:
    """Curves for every precision that the device has a peak for."""
    if "bf16" not in curves:
        raise InputError("fits.gemm", sorted(curves), "curves with at least bf16", "add `extends: <a relative>`")
    for dtype in peaks:
        if dtype in curves or dtype == "fp32":
            continue
        other = _PRECISION_FALLBACKS.get(dtype, "bf16")
        while other not in curves:
            other = _PRECISION_FALLBACKS.get(other, "bf16")
        curves[dtype] = curves[other]
    return curves


def _attention(curves: dict[str, AttentionCurve]) -> dict[str, AttentionCurve]:
    if not curves:
        raise InputError("fits.attention", {}, "a curve for at least one kernel", "add `extends: <a relative>`")
    measured = dict(curves)
    for kernel, others in _ATTENTION_FALLBACKS.items():
        choice = next((other for other in others if other in measured), None)
        if kernel not in measured and choice:
            curves[kernel] = measured[choice]
    return curves


def _tiers(section: Mapping[str, Any], fits: Mapping[str, Any]) -> tuple[Tier, ...]:
    """Tiers inside out: in order of the cards they hold, whatever the order in the file."""
    tiers = [_tier(name, spec, fits) for name, spec in section.items()]
    return tuple(sorted(tiers, key=lambda tier: tier.cards))


def _tier(name: str, spec: Mapping[str, Any], fits: Mapping[str, Any]) -> Tier:
    curves = {op: CollectiveCurve(**in_si(curve)) for op, curve in fits.get(spec.get("curves_from", name), {}).items()}
    for op, other in _COLLECTIVE_FALLBACKS.items():
        if op not in curves and other in curves:
            curves[op] = curves[other]
    missing = [op for op in COLLECTIVE_OPS if op not in curves]
    if missing:
        raise InputError(
            f"fits.collectives.{name}", missing, f"a curve for each of {', '.join(COLLECTIVE_OPS)}",
            f"write them, or `curves_from: <another tier>` in tiers.{name}",
        )  # fmt: skip
    return Tier(
        name=name,
        cards=spec["cards"],
        bandwidth_bytes_per_s=spec["link_gb_per_s"] * GB,
        curves=curves,
        full_mesh=spec.get("full_mesh", False),
    )

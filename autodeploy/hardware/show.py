"""A profile as a document: what it says, where each number comes from, how good the fits are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autodeploy.hardware.document import read_document
from autodeploy.hardware.library import find_profile, hardware_aliases, hardware_names
from autodeploy.hardware.load import is_path, load_hardware

SCHEMA = "autodeploy.hardware/1"
ERROR_KEYS = ("rows", "median_ape_frac", "p90_ape_frac", "held_out_median_ape_frac", "held_out_p90_ape_frac")


def list_document() -> dict[str, Any]:
    """One line for each shipped profile."""
    aliases: dict[str, list[str]] = {name: [] for name in hardware_names()}
    for alias, name in hardware_aliases().items():
        aliases[name].append(alias)
    return {"schema": SCHEMA, "hardware": [_summary(name, aliases[name]) for name in hardware_names()]}


def _summary(name: str, aliases: list[str]) -> dict[str, Any]:
    profile = load_hardware(name)
    document, _ = read_document(find_profile(name))
    device, outer = profile.device, profile.tiers[-1]
    return {
        "name": name,
        "aliases": aliases,
        "summary": document.get("summary", ""),
        "vendor": device.vendor,
        "backend": profile.backend,
        "bf16_tflop_per_s": device.peak_flop_per_s["bf16"] / 1e12,
        "usable_gib": device.usable_bytes / 2**30,
        "hbm_gb_per_s": device.hbm_bandwidth_bytes_per_s / 1e9,
        "inner_tier_cards": profile.tiers[0].cards,
        "inner_gb_per_s": profile.tiers[0].bandwidth_bytes_per_s / 1e9,
        "outer_gb_per_s": outer.bandwidth_bytes_per_s / 1e9,
    }


def profile_document(name_or_path: str) -> dict[str, Any]:
    """One profile whole: values in SI, sources by path in the file, and every fit with its error."""
    profile = load_hardware(name_or_path)
    document, _ = read_document(Path(name_or_path) if is_path(name_or_path) else find_profile(name_or_path))
    facts = {key: value for key, value in document.items() if key != "fits"}
    return {
        "schema": SCHEMA,
        "profile": {"summary": document.get("summary", ""), **asdict(profile)},
        "sources": dict(sources(facts)),
        "source_names": document.get("sources", {}),
        "fits": list(fits(document.get("fits", {}))),
    }


def sources(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """(path in the file, source) of every sourced value and section."""
    for key, value in node.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and key != "sources":
            if isinstance(value.get("source"), str):
                confidence = f" [{value['confidence']}]" if "confidence" in value else ""
                yield here, f"{value['source']}{confidence}"
            yield from sources(value, here)


def fits(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Every curve of the ``fits`` section: where it stands, what it was fitted to or derived from, its error."""
    for key, value in node.items():
        if not isinstance(value, Mapping):
            continue
        if "data" in value:
            errors = {name: value.get(name) for name in ERROR_KEYS}
            curve = ".".join((*path, str(key)))
            yield {"curve": curve, "data": value["data"], "derived": value.get("derived"), **errors}
        else:
            yield from fits(value, (*path, str(key)))

"""``autodeploy hardware``: list the profiles that ship, or show one with its sources and fit errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli.output import check_format, check_writable, emit, render
from autodeploy.report.csv_text import entries_csv


def hardware(
    hardware: Annotated[str | None, typer.Argument(help="Profile name, alias or YAML file; all if left out.")] = None,
    format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    output: Annotated[Path | None, typer.Option("--output", help="Write the result here instead of to stdout.")] = None,
) -> None:
    """Lists the hardware profiles, or shows one: device, tiers, overheads, sources, fits and their errors."""
    from autodeploy.hardware.show import list_document, profile_document

    check_format(format)
    check_writable("--output", output)
    if hardware is None:
        document = list_document()
        rows = document["hardware"]
        emit(render(format, document, lambda: _list_table(rows), lambda: entries_csv(rows, {})), output)
        return
    document = profile_document(hardware)
    emit(render(format, document, lambda: _profile_text(document), lambda: entries_csv(document["fits"], {})), output)


def _list_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = f"{'name':<20} {'bf16':>6} {'GiB':>6} {'HBM':>5} {'inside':>14} {'NIC':>5}  {'backend':<9}"
    lines = [head, f"{'':<20} {'TF/s':>6} {'':>6} {'GB/s':>5} {'cards x GB/s':>14} {'GB/s':>5}"]
    for row in rows:
        inside = f"{row['inner_tier_cards']} x {row['inner_gb_per_s']:.0f}"
        lines.append(
            f"{row['name']:<20} {row['bf16_tflop_per_s']:>6.0f} {row['usable_gib']:>6.1f} {row['hbm_gb_per_s']:>5.0f} "
            f"{inside:>14} {row['outer_gb_per_s']:>5.1f}  {row['backend']:<9}"
        )
    return "\n".join([*lines, "", "autodeploy hardware NAME shows one, with sources and fit errors."])


def _profile_text(document: Mapping[str, Any]) -> str:
    profile, device = document["profile"], document["profile"]["device"]
    peaks = ", ".join(f"{name} {value / 1e12:g}" for name, value in device["peak_flop_per_s"].items())
    lines = [
        f"{profile['name']}: {profile['summary']}",
        f"  backend {profile['backend']}, {profile['cards_per_node']} cards per node, profile {profile['sha256'][:12]}",
        f"  peak TFLOP/s: {peaks}",
        f"  memory: {device['usable_bytes'] / 2**30:.2f} GiB usable of {device['hbm_bytes'] / 2**30:.0f} GiB, "
        f"{device['hbm_bandwidth_bytes_per_s'] / 1e9:.0f} GB/s",
        *(_tier_line(tier) for tier in profile["tiers"]),
        "",
        *_fit_lines(document["fits"]),
        "",
        "sources (path in the file: where the number comes from [confidence])",
        *(f"  {path}: {source}" for path, source in document["sources"].items()),
        *(f"  {name} = {text}" for name, text in document["source_names"].items()),
    ]
    return "\n".join(lines)


def _tier_line(tier: Mapping[str, Any]) -> str:
    mesh = ", full mesh" if tier["full_mesh"] else ""
    rate = tier["bandwidth_bytes_per_s"] / 1e9
    return f"  tier {tier['name']}: {tier['cards']} cards, {rate:g} GB/s per card one way{mesh}"


def _fit_lines(fits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each curve with its error in percent; a derived one with its rule."""
    lines = [f"{'fit':<34} {'rows':>5} {'median %':>8} {'p90 %':>6}  data or rule"]
    for fit in fits:
        if fit["median_ape_frac"] is None:
            figures = f"{'-':>5} {'-':>8} {'-':>6}"
        else:
            p90 = f"{100 * fit['p90_ape_frac']:.1f}" if fit["p90_ape_frac"] is not None else "-"
            figures = f"{fit['rows']:>5} {100 * fit['median_ape_frac']:>8.1f} {p90:>6}"
        origin = f"derived: {fit['derived']}" if fit["derived"] else fit["data"]
        lines.append(f"{fit['curve']:<34} {figures}  {origin}")
    return lines

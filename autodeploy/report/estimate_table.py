"""The result of ``estimate`` for people: headline, time by cause, memory by cause, and every pipeline rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.table import WIDTH, columns, heading, seconds, wrap

SHOWN_FRAC = 0.0005  # causes below this share of the whole are left out of the table (JSON has them all)


def estimate_table(document: Mapping[str, Any]) -> str:
    entry = document["estimate"]
    parts = [
        heading(document),
        "",
        wrap(f"{entry['strategy']}  DP{entry['dp']}, {entry['micro_batches']} micro-batches"),
        "",
    ]
    parts += [headline(entry, document["memory_cap_gib"]), ""]
    parts += side_by_side(
        shares("time on rank " + str(entry["critical_rank"]), entry["time_s"], "s"),
        shares("memory of rank " + str(entry["memory_rank"]), entry["memory_gib"], "GiB"),
    )
    ranks = entry["per_rank"]
    rows = [
        [str(r), seconds(busy), f"{peak:.2f}"]
        for r, busy, peak in zip(ranks["rank"], ranks["busy_s"], ranks["peak_memory_gib"], strict=True)
    ]
    parts += ["", columns(["rank", "busy s", "peak GiB"], rows, set(), flexible=0)]
    return "\n".join(parts)


def headline(entry: Mapping[str, Any], cap_gib: float) -> str:
    fits = "fits" if entry["fits"] else f"DOES NOT FIT: short by {entry['peak_memory_gib'] - cap_gib:.2f} GiB"
    lines = [
        f"step {seconds(entry['step_time_s'])} s, {entry['tokens_per_s_per_device']:.1f} tokens/s/card, "
        f"MFU {100 * entry['mfu']:.1f}%, bubble {100 * entry['bubble_frac']:.1f}%, binds: {entry['binds']}",
        f"peak {entry['peak_memory_gib']:.2f} GiB reserved, {entry['peak_allocated_gib']:.2f} allocated, of {cap_gib:.2f}: {fits}",
    ]
    lines.append(
        f"measured runs like this one were off by less than {entry['step_time_error_frac']:.0%} of the step in nine of ten "
        f"({entry['step_time_error_group']}), {entry['peak_memory_error_frac']:.0%} of the memory "
        f"({entry['peak_memory_error_group']})"
    )
    if "fit_probability" in entry:
        band = f"{seconds(entry['expected_low_s'])} to {seconds(entry['expected_high_s'])}"
        lines.append(
            f"expected {seconds(entry['expected_step_time_s'])} s (nine of ten: {band}), fits with {entry['fit_probability']:.0%}; "
            f"{entry['evidence']}"
        )
    if "days" in entry:
        price = f", price {entry['price']:,.0f}" if "price" in entry else ""
        lines.append(
            f"{entry['tokens']:.3g} tokens: {entry['days']:.1f} days, {entry['device_hours']:,.0f} card-hours{price}"
        )
    return "\n".join(wrap(line) for line in lines)


def shares(title: str, parts: Mapping[str, float], unit: str) -> list[str]:
    total = sum(parts.values())
    rows = [
        [cause, seconds(value) if unit == "s" else f"{value:.2f}", f"{100 * value / total:.1f}%"]
        for cause, value in sorted(parts.items(), key=lambda item: -abs(item[1]))
        if total and abs(value) >= SHOWN_FRAC * total
    ]
    return columns([title, unit, "share"], rows, {0}, flexible=0, width=WIDTH // 2 - 2).splitlines()


def side_by_side(left: list[str], right: list[str]) -> list[str]:
    width = max(len(line) for line in left) + 4
    count = max(len(left), len(right))
    left = left + [""] * (count - len(left))
    right = right + [""] * (count - len(right))
    return [(a.ljust(width) + b).rstrip() for a, b in zip(left, right, strict=True)]

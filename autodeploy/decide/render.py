"""The decisions as text, and the reliability picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SIZE, MARGIN = 420, 56
COLOURS = {"folds": "#1f77b4", "leave_source_out": "#d62728"}
NAMES = {"folds": "folds of families", "leave_source_out": "leave source out"}


def decision_lines(decisions: Mapping[str, Any]) -> list[str]:
    """For people."""
    if not decisions.get("problems"):
        return ["Decisions: no measured problem (one case under at least three strategies) among these runs."]
    lines = [f"Decisions over {decisions['problems']} measured problems, {decisions['rows']} rows"]
    for name, title in NAMES.items():
        one = decisions[name]
        lines.append(f"  {title}: Brier {_number(one['brier'])} (always sure: {_number(one['always_sure'])}; each problem "
                     f"the same weight: {_number(one['brier_by_problem'])})")  # fmt: skip
        lines.append("    said  right  +-     pairs")
        for row in one["calibration"]:
            lines.append(f"    {row['said']:.2f}  {row['right']:.2f}   {row['standard_error']:.3f}  {row['pairs']}")
        lines += [f"    {line}" for line in _regret_lines(one["regret"])]
        lines += [f"    {line}" for line in _fit_lines(decisions["fit"][name])]
    one = decisions["measured_one"]
    moved = f"{one['median_error_before']:.1%} -> {one['median_error_after']:.1%}, band covers {one['coverage']:.1%}"
    unmoved = f"{one['unmoved_median_error_before']:.1%} -> {one['unmoved_median_error_after']:.1%}"
    lines.append(
        f"  one run measured, median error of the others: on a cluster {one['factor']:g} x as slow {moved}; else {unmoved}"
    )
    return lines


def _fit_lines(fit: Mapping[str, Any]) -> list[str]:
    right = f"said >= 95%: {_number(fit['said_95_ran'])} ran; said <= 5%: {_number(fit['said_5_ran'])} ran"
    sharp = f"of those that ran {_number(fit['ran_said_90'])} said >= 90%, of those that died {_number(fit['died_said_50'])} <= 50%"
    return [f"fits: {right}", f"      {sharp}"]


def _regret_lines(regret: Mapping[str, Any]) -> list[str]:
    rules = ", ".join(
        f"{name} {regret[name]['mean']:.2%} ({regret[name]['departures']:.2f} departures)"
        for name in ("predicted", "expected", "simplest")
    )
    trials = ", ".join(
        f"k={k}: {regret['top_k'][k]['mean']:.2%} / {regret['trials_k'][k]['mean']:.2%}" for k in regret["top_k"]
    )
    return [f"regret of the first choice: {rules}", f"after k runs, the first k / trials: {trials}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def reliability_svg(decisions: Mapping[str, Any]) -> str:
    """What was said of the order of two strategies against how often it was right; dots as large as their pairs are many."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" font-family="sans-serif" font-size="12">',
        f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
        _line(0.5, 0.5, 1.0, 1.0, "#999999"),
        f'<text x="{SIZE / 2}" y="{SIZE - 12}" text-anchor="middle">said: probability that the order is right</text>',
        f'<text transform="translate(14 {SIZE / 2}) rotate(-90)" text-anchor="middle">so: share of pairs in that order</text>',
    ]
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        parts.append(f'<text x="{_x(tick):.1f}" y="{SIZE - MARGIN + 18}" text-anchor="middle">{tick:.1f}</text>')
        parts.append(f'<text x="{MARGIN - 8}" y="{_y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
    for place, (name, colour) in enumerate(COLOURS.items()):
        parts += _dots(decisions[name]["calibration"], colour, 5 * place)
        parts.append(f'<text x="{MARGIN + 10}" y="{MARGIN + 18 * place}" fill="{colour}">{NAMES[name]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _dots(rows: Sequence[Mapping[str, Any]], colour: str, shift: float) -> list[str]:
    parts = []
    for row in rows:
        x, low, high = (
            _x(row["said"]) + shift - 2.5,
            row["right"] - row["standard_error"],
            row["right"] + row["standard_error"],
        )
        radius = 2.0 + min(row["pairs"] ** 0.5 / 20.0, 6.0)
        ends = (max(low, 0.45), min(high, 1.0))
        parts.append(
            f'<line x1="{x:.1f}" y1="{_y(ends[0]):.1f}" x2="{x:.1f}" y2="{_y(ends[1]):.1f}" stroke="{colour}"/>'
        )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{_y(row["right"]):.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.7"/>'
        )
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{_x(x1):.1f}" y1="{_y(y1):.1f}" x2="{_x(x2):.1f}" y2="{_y(y2):.1f}" stroke="{colour}" stroke-dasharray="4"/>'


def _x(value: float) -> float:
    return MARGIN + (value - 0.5) / 0.5 * (SIZE - 1.5 * MARGIN)


def _y(value: float) -> float:
    return SIZE - MARGIN - (value - 0.5) / 0.5 * (SIZE - 1.5 * MARGIN)

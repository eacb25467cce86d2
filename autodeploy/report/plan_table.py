"""The plan of a whole job for people: what keeps the limits, and which cluster is smallest, cheapest and fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodeploy.report.table import columns, wrap

CHOICES = ("smallest", "cheapest", "fastest")
FRONT_ROWS = 8


def plan_text(plan: Mapping[str, Any]) -> str:
    """A heading, the choices, the front of days against cost, and what was assumed."""
    lines = ["", _heading(plan), ""]
    rows = [(name, plan[name]) for name in CHOICES if plan[name]]
    if not rows:
        if plan["nearest"]:
            rows = [("nearest", plan["nearest"])]
        else:
            return "\n".join([*lines, "Nothing fits on any machine and size."])
    rows += [("front", option) for option in _front(plan, [option for _, option in rows])]
    lines += [_table(rows), "", wrap(_assumed(plan))]
    return "\n".join(lines)


def _heading(plan: Mapping[str, Any]) -> str:
    limits = []
    if plan["within_days"] is not None:
        limits.append(f"within {plan['within_days']:g} days")
    if plan["max_cost"] is not None:
        limits.append(f"for at most {plan['max_cost']:,.0f}")
    kept = f"{plan['meet']} of {plan['options']} machines and sizes keep that, the band of the prediction counted"
    if not limits:
        return f"Plan for {plan['tokens']:.3g} tokens: {plan['options']} machines and sizes."
    return f"Plan for {plan['tokens']:.3g} tokens {' and '.join(limits)}: {kept}."


def _front(plan: Mapping[str, Any], shown: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What the front has beside the choices, thinned to a few rows."""
    rest = [option for option in plan["front"] if option not in shown]
    step = max(1, -(-len(rest) // FRONT_ROWS))
    return rest[::step]


def _table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    header = ["", "cluster", "strategy", "days", "at worst", "goodput", "card-hours", "price", "MWh"]
    body = [
        [
            name, f"{option['devices']} x {option['hardware']}", _strategy(option), f"{option['days']:.1f}",
            f"{option['days_at_worst']:.1f}", f"{100 * option['goodput_frac']:.1f}%", f"{option['device_hours']:,.0f}",
            _number(option["price"]), _number(option["energy_mwh"]),
        ]
        for name, option in rows
    ]  # fmt: skip
    return columns(header, body, {0, 1, 2}, flexible=2)


def _strategy(option: Mapping[str, Any]) -> str:
    phases = option.get("phases")
    return f"one for each of {len(phases)} phases" if phases else str(option["strategy"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _assumed(plan: Mapping[str, Any]) -> str:
    given = plan["reliability"]
    return (
        f"Days count failures: one in {given['mtbf_hours_per_device']:,.0f} hours a card, checkpoints of 14 B a parameter at "
        f"{given['checkpoint_bytes_per_s'] / 1e9:g} GB/s after Daly's interval, {given['restart_s']:g} s to restart; pure "
        "training time is training_days in JSON. At worst: at the far end of the band of the prediction."
    )

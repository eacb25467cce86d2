"""Days against cost of every machine and size, the front joined, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 760, 460, 80, 60, 190, 40
COLOURS = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6")


def plan_svg(plan: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> str:
    """Logarithmic axes; one colour a machine; the limits as dashed lines."""
    cost = plan["cost_by"]
    points = [option for option in options if option[cost] is not None]
    x, y = _Axis([o["days"] for o in points]), _Axis([o[cost] for o in points])

    def at(option: Mapping[str, Any]) -> tuple[float, float]:
        return LEFT + x.share(option["days"]) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y.share(option[cost]) * (
            HEIGHT - BOTTOM - TOP
        )

    machines = list(dict.fromkeys(str(o["hardware"]) for o in points))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(machines)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{plan["tokens"]:.3g} tokens: days against {_name(cost)}</text>',
        *_grid(x, y),
    ]
    front = [at(option) for option in plan["front"]]
    parts.append(f'<polyline fill="none" stroke="#888" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in front)}"/>')
    for option in points:
        a, b = at(option)
        title = (
            f"{option['devices']} x {option['hardware']}: {option['days']:.1f} days, {_name(cost)} {option[cost]:,.0f}"
        )
        parts.append(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour[str(option["hardware"])]}" fill-opacity="0.75">'
            f"<title>{escape(title)}</title></circle>"
        )
    for name in ("smallest", "cheapest", "fastest"):
        if plan[name]:
            a, b = at(plan[name])
            parts.append(f'<text x="{a + 7:.1f}" y="{b - 6:.1f}">{name}, {plan[name]["devices"]}</text>')
    for i, name in enumerate(machines):
        parts.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{TOP + 20 * i}" r="5" fill="{colour[name]}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 32}" y="{TOP + 4 + 20 * i}">{escape(name)}</text>')
    parts.append(f'<text x="{(WIDTH - RIGHT + LEFT) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">days</text>')
    parts.append(
        f'<text transform="translate(18 {HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{_name(cost)}</text></svg>'
    )
    return "\n".join(parts) + "\n"


class _Axis:
    """A logarithmic axis over positive values, with room at the ends."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        self.low, self.high = low / 1.15, max(high, low * 1.01) * 1.15

    def share(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[float]:
        """Round values; the closer the ends, the finer."""
        for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), tuple(i / 10 for i in range(10, 100))):
            found = [m * 10.0**e for e in range(-3, 16) for m in steps]
            found = [value for value in found if self.low <= value <= self.high]
            if len(found) >= 4:
                break
        return found


def _grid(x: _Axis, y: _Axis) -> list[str]:
    parts = []
    for value in x.ticks():
        a = LEFT + x.share(value) * (WIDTH - LEFT - RIGHT)
        parts.append(f'<line x1="{a:.1f}" x2="{a:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
        parts.append(f'<text x="{a:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
    for value in y.ticks():
        b = HEIGHT - BOTTOM - y.share(value) * (HEIGHT - BOTTOM - TOP)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{b:.1f}" y2="{b:.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{b + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    return parts


def _short(value: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _name(cost: str) -> str:
    return "price" if cost == "price" else "card-hours"

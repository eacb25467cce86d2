"""Plotly figures as plain data, and the library itself from its package (extra ``plots``)."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from autodeploy.errors import InputError
from autodeploy.report.html.page import Figure

# Okabe and Ito's colours first, then tones that stay apart from them: readable on white and on black.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8A63D2", "#7F8C8D", "#A65628",
    "#17BECF", "#E377C2", "#6B8E23", "#C0504D", "#4F6BED", "#BFA5D8", "#3D9970", "#AA8E5E",
)  # fmt: skip
DUST_FRAC = 1e-4  # of the largest total: below it a cause is no bar
LEAST_SPAN = 1.3  # a strip shows at least 1/1.3 to 1.3: small errors look small
BAR_PX, MARGIN_PX = 30, 130


def plotly_js() -> str:
    """The library that draws, as its package ships it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        remedy = "pip install 'autodeploy-twin[plots]' (or pip install plotly)"
        raise InputError("--report", "plotly is not installed", "with the extra plots", remedy) from None
    return str(get_plotlyjs())


def label(text: str) -> str:
    """Plotly reads labels as a little HTML."""
    return escape(text, quote=False)


def stacked_bars(names: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str, caption: str = "") -> Figure:
    """Horizontal bars, the first name at the top, each made up of ``parts`` (cause -> value by name)."""
    totals = [sum(max(values[i], 0.0) for values in parts.values()) for i in range(len(names))]
    least = max(totals, default=0.0) * DUST_FRAC
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label(cause.replace("_", " ")),
            "y": [label(name) for name in names],
            "x": [round(value, 6) for value in values],
            "marker": {"color": COLOURS[i % len(COLOURS)]},
            "hovertemplate": f"%{{y}}<br>{label(cause.replace('_', ' '))}: %{{x:.4g}} {label(unit)}<extra></extra>",
        }
        for i, (cause, values) in enumerate(parts.items())
        if max(values, default=0.0) > least
    ]
    layout = _layout(label(unit)) | {"barmode": "stack", "bargap": 0.25, "legend": _legend(), "margin": _margin()}
    layout["yaxis"] = {"autorange": "reversed", "type": "category"}
    height = MARGIN_PX + BAR_PX * max(len(names), 2) + 22 * (len(data) // 3)
    return Figure(data, layout, height, caption)


def grouped_bars(names: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, caption: str = "") -> Figure:
    """Vertical bars side by side: one group a name, one colour a series."""
    data = [
        {
            "type": "bar",
            "name": label(name),
            "x": [label(each) for each in names],
            "y": list(values),
            "marker": {"color": COLOURS[(1, 0, 2)[i % 3]]},
            "hovertemplate": f"%{{x}}<br>{label(name)}: %{{y:.4g}}<extra></extra>",
        }
        for i, (name, values) in enumerate(series.items())
    ]
    layout = _layout("") | {"barmode": "group", "legend": _legend(), "margin": _margin()}
    layout["xaxis"] = {"type": "category"}
    layout["yaxis"] = {"title": {"text": label(unit)}, "rangemode": "tozero"}
    return Figure(data, layout, 340, caption)


def scatter(
    groups: Mapping[str, Sequence[tuple[float, float, str]]], axes: tuple[str, str], caption: str = ""
) -> Figure:
    """(x, y, hover text) by group; a group whose name ends in "front" is joined by a line."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers" if name.endswith("front") else "markers",
            "name": label(name),
            "x": [point[0] for point in points],
            "y": [point[1] for point in points],
            "text": [label(point[2]) for point in points],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 9, "color": COLOURS[i % len(COLOURS)]},
        }
        for i, (name, points) in enumerate(groups.items())
    ]
    layout = _layout(label(axes[0])) | {"legend": _legend(), "margin": _margin(), "showlegend": True}
    layout["yaxis"] = {"title": {"text": label(axes[1])}}
    return Figure(data, layout, 420, caption)


def ratio_strip(groups: Mapping[str, Sequence[tuple[float, str]]], title: str, caption: str = "") -> Figure:
    """(ratio, hover text) on a logarithmic axis, a strip a group, one colour a source (the name before the slash)."""
    sources = list(dict.fromkeys(name.split("/")[0] for name in groups))
    data = [
        {
            "type": "box",
            "orientation": "h",
            "boxpoints": "all",
            "jitter": 0.7,
            "pointpos": 0,
            "fillcolor": "rgba(0,0,0,0)",
            "line": {"color": "rgba(0,0,0,0)"},
            "name": label(name),
            "x": [round(ratio, 4) for ratio, _ in points],
            "text": [label(told) for _, told in points],
            "hoveron": "points",
            "hovertemplate": "%{text}<br>%{x:.3f}<extra></extra>",
            "marker": {"size": 4.5, "opacity": 0.75, "color": _hue(sources.index(name.split("/")[0]), len(sources))},
        }
        for name, points in groups.items()
    ]
    ticks = [0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 4]
    layout = _layout(label(title)) | {"showlegend": False, "margin": _margin()}
    ratios = [1 / LEAST_SPAN, LEAST_SPAN, *(ratio for points in groups.values() for ratio, _ in points)]
    ends = [math.log10(min(ratios)) - 0.02, math.log10(max(ratios)) + 0.02]
    layout["xaxis"] |= {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    layout["yaxis"] = {"autorange": "reversed", "type": "category"}
    dashed = {"dash": "dot", "width": 1}
    layout["shapes"] = [{"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": dashed}]
    return Figure(data, layout, MARGIN_PX + 24 * max(len(groups), 3), caption)


def _layout(x_title: str) -> dict[str, Any]:
    return {"xaxis": {"title": {"text": x_title}}}


def _legend() -> dict[str, Any]:
    return {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}


def _margin() -> dict[str, int]:
    return {"l": 10, "r": 16, "t": 20, "b": 50}


def _hue(i: int, count: int) -> str:
    """Colours around the circle, neighbours far apart, of a lightness that reads on white and on black."""
    hue = (i * 0.618034) % 1.0 if count > len(COLOURS) else None
    if hue is None:
        return COLOURS[i]
    red, green, blue = colorsys.hls_to_rgb(hue, 0.5, 0.65)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"

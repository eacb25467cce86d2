"""The skeleton of a report: one self-contained page, light or dark as the reader's system, on a phone and on paper.

Nothing is loaded from elsewhere. Every text comes in through :func:`text` or the parts of ``parts.py``, which escape.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from autodeploy.report.html.look import CSS, DRAW_JS, SORT_JS


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure as plain data; ``caption`` is its plain text below."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML whose texts are escaped already."""

    html: str


Part = Figure | Markup


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    subtitle: str
    sections: Sequence[Section]


def render_page(page: Page, plotly_js: str = "") -> str:
    """The page as one HTML text; ``plotly_js`` is the library that draws its figures, written in once."""
    figures: list[Figure] = []
    body = "\n".join(_section(section, figures) for section in page.sections)
    scripts = [SORT_JS]
    if figures and plotly_js:
        specs = [{"data": figure.data, "layout": figure.layout} for figure in figures]
        scripts += [plotly_js, f"const FIGURES = {script_json(specs)};\n{DRAW_JS}"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title>\n<style>{CSS}</style></head>\n<body><main>\n"
        f'<header><h1>{escape(page.title)}</h1><p class="sub">{escape(page.subtitle)}</p></header>\n{body}\n'
        "</main>\n" + "\n".join(f"<script>{script}</script>" for script in scripts) + "\n</body></html>\n"
    )


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no ``<``, no line separators of JavaScript."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(section: Section, figures: list[Figure]) -> str:
    return (
        f"<section><h2>{escape(section.title)}</h2>\n"
        + "\n".join(_part(part, figures) for part in section.parts)
        + "</section>"
    )


def _part(part: Part, figures: list[Figure]) -> str:
    if isinstance(part, Markup):
        return part.html
    figures.append(part)
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    number = len(figures) - 1
    return f'<figure><div class="plot" id="plot{number}" style="height:{part.height_px}px"></div>{caption}</figure>'

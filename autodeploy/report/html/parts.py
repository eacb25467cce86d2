"""Parts of a page that need no plotting library: tables that sort, facts, tiles, lines. All of them escape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from autodeploy.report.html.page import Markup


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``kind`` is a format of a number, "text" for short words or "wide" for text that may wrap."""

    title: str
    key: str
    kind: str = "text"


def line(text: str) -> Markup:
    return Markup(f"<p>{escape(text)}</p>")


def note(text: str) -> Markup:
    return Markup(f'<p class="note">{escape(text)}</p>')


def lead(text: str, bad: bool = False) -> Markup:
    """What a reader should see first."""
    return Markup(f'<p class="lead{" bad" if bad else ""}">{escape(text)}</p>')


def tiles(pairs: Iterable[tuple[str, str]]) -> Markup:
    """(what, figure) side by side."""
    inner = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in pairs
    )
    return Markup(f'<div class="tiles">{inner}</div>')


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """A list of names and values; what is None or empty is left out."""
    told = [(name, value) for name, value in pairs if value is not None and value != ""]
    return Markup("<dl>" + "".join(f"<dt>{escape(n)}</dt><dd>{escape(str(v))}</dd>" for n, v in told) + "</dl>")


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], tied: frozenset[int] = frozenset()) -> Markup:
    """A table that sorts by a click on a column's name; rows whose place (from 0) is in ``tied`` are marked."""
    head = "".join(
        f'<th class="{_align(column)}" scope="col"><button type="button">{escape(column.title)}</button></th>'
        for column in columns
    )
    body = "\n".join(
        f"<tr{' class=tie' if i in tied else ''}>{''.join(_cell(column, row.get(column.key)) for column in columns)}</tr>"
        for i, row in enumerate(rows)
    )
    return Markup(
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
    )


def _align(column: Column) -> str:
    return {"text": "t", "wide": "t w"}.get(column.kind, "n")


def _cell(column: Column, value: Any) -> str:
    """The shown text is rounded; ``data-v`` keeps what sorts."""
    if value is None:
        return f'<td class="{_align(column)}" data-v=""></td>'
    if column.kind == "wide":  # a long strategy or path breaks where a reader would break it
        shown = escape(str(value)).replace("/", "/<wbr>").replace(",", ",<wbr>")
        return f'<td class="t w">{shown}</td>'
    if column.kind == "text":
        return f'<td class="t">{escape(str(value))}</td>'
    return f'<td class="n" data-v="{escape(repr(float(value)))}">{escape(format(value, column.kind))}</td>'

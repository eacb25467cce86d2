"""Tables as text: the page of a search, and aligned columns.

Plain text with aligned columns: it reads the same in a terminal, a log and a pull request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodeploy.report.ranked_table import evidence_notes, ranked_table, seconds

__all__ = ["WIDTH", "broken", "columns", "heading", "search_table", "seconds", "wrap"]
WIDTH = 100
NARROWEST = 60


def columns(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: set[int], flexible: int, width: int = WIDTH
) -> str:
    """Aligned text. ``left`` columns are left-aligned; the ``flexible`` one is broken over lines where a row is too long."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    if spare < 0:
        widths[flexible] = max(widths[flexible] + spare, 12)
    lines = []
    for row in table:
        for part, text in enumerate(broken(row[flexible], widths[flexible])):
            cells = ["" if part else cell for cell in row]
            cells[flexible] = text
            aligned = [
                c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def broken(text: str, width: int) -> list[str]:
    """Lines of at most ``width``, broken after a slash, comma or space where there is one in the last two thirds."""
    lines = []
    while len(text) > width:
        cut = max(text.rfind(mark, width // 3, width) for mark in "/, ") + 1
        cut = cut or width
        lines.append(text[:cut].rstrip())
        text = text[cut:]
    return [*lines, text]


def wrap(text: str, width: int = WIDTH, indent: str = "  ") -> str:
    """Breaks long text at spaces; continuation lines are indented."""
    import textwrap

    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False)


def terminal_width() -> int:
    """Columns of the terminal (or of COLUMNS); ``WIDTH`` where there is none, such as in a pipe."""
    import shutil

    return max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST)


def search_table(document: Mapping[str, Any], width: int | None = None) -> str:
    """The result of ``search`` for people."""
    if not document["ranked"]:
        return nothing_fits(document)
    width = width or terminal_width()
    decision = document.get("decision")
    parts = [heading(document, width), ""]
    if decision:
        parts += [wrap(decision["advice"], width), ""]
    on = {entry.get("hardware") for entry in document["ranked"]}
    if "machines" in document and len(on) == 1:
        parts += [f"Every row is on {on.pop()}.", ""]
    parts.append(ranked_table(document["ranked"], width))
    notes = _notes(document, width)
    if document.get("plan"):
        from autodeploy.report.plan_table import plan_text

        notes.append(plan_text(document["plan"]))
    return "\n".join([*parts, "", *notes] if notes else parts)


def heading(document: Mapping[str, Any], width: int = WIDTH) -> str:
    model = document["model"]
    counts = document.get("devices_range", [document["devices"]])
    cards = str(counts[0]) if len(counts) == 1 else f"{counts[0]}..{counts[-1]}"
    line = (
        f"{model['name']} ({model['parameters'] / 1e9:.1f}B, {model['active_parameters'] / 1e9:.1f}B active) on "
        f"{cards} x {document['hardware']}, {document['backend']}, {document['precision']}, "
        f"{_lengths(document)}, "
        f"{document['memory_cap_gib']:.2f} GiB usable a card"
    )
    return wrap(line, width)


def _lengths(document: Mapping[str, Any]) -> str:
    if "phases" in document:
        return f"{len(document['phases'])} phases"
    return f"sequence {document['seq_length']}, batch {document['global_batch']}"


def _notes(document: Mapping[str, Any], width: int) -> list[str]:
    space, first = document["space"], document["ranked"][0]
    notes = [
        wrap(
            f"{space['enumerated']} strategies screened ({space['feasible']} fit) in {space['screen_s']:.1f} s, "
            f"{space['refined']} refined in {space['refine_s']:.1f} s. MFU: {first['flops_convention']}.",
            width,
        )
    ]
    notes += [wrap(note, width) for note in evidence_notes(document["ranked"])]
    if any(not entry["launchable"] for entry in document["ranked"]):
        reasons = dict.fromkeys(str(e["not_launchable_because"]) for e in document["ranked"] if not e["launchable"])
        notes += [wrap(f"* no release launches it: {reason}", width) for reason in reasons]
    if "days" in first and "phases" not in document:
        price = f", price {first['price']:,.0f}" if "price" in first else ""
        cost = f"{first['days']:.1f} days, {first['device_hours']:,.0f} card-hours{price}"
        notes.append(wrap(f"First row, {first['tokens']:.3g} tokens: {cost}.", width))
    if document["timed_out"]:
        notes.append("Stopped at --timeout: what was found until then is ranked.")
    if document.get("interrupted"):
        notes.append("Stopped by Ctrl-C: what was found until then is ranked.")
    if space.get("sizes_priced", 0) < space.get("sizes", 0):
        notes.append(f"Priced {space['sizes_priced']} of {space['sizes']} sizes, coarse to fine.")
    return notes


def nothing_fits(document: Mapping[str, Any]) -> str:
    """Why nothing is ranked, what comes closest, and what would make it fit."""
    lines = [heading(document), ""]
    if document["nearest"]:
        lines.append(f"No plan fits into {document['memory_cap_gib']:.2f} GiB a card. Closest:")
        fixes: dict[str, list[str]] = {}
        for miss in document["nearest"]:
            fixes.setdefault(miss["fix"], []).append(f"{miss['strategy']}: short by {miss['short_by_gib']:.1f} GiB")
        for fix, misses in fixes.items():
            lines += [wrap(f"  {miss}", indent="    ") for miss in misses]
            lines.append(wrap(f"  would fit with {fix}", indent="    "))
        lines.append("Rules excluded:" if document["rejected"] else "")
    else:
        lines.append("No valid strategy. What the rules rejected:")
        if not document["rejected"]:
            lines.append("  (the axes given leave nothing to price)")
    for reason, count in list(document["rejected"].items())[:8]:
        lines.append(wrap(f"  {count} x {reason}", indent="    "))
    return "\n".join(lines)

"""The ranked rows as a table: one line a row, as many columns as the terminal is wide.

What all rows share is said once above it; what is too long for a column gets a letter and is spelled out below.
"""

from __future__ import annotations

import string
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LONGEST_TOKEN = 14  # characters of a token of the notation that a row still spells out
GAP = 2
Entry = Mapping[str, Any]


def seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 10 else f"{value:.3f}" if value >= 0.1 else f"{value:.2g}"


def rate(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def share(value: float) -> str:
    return f"{100 * value:.1f}%"


def chance(value: float) -> str:
    """A probability in at most four characters, never rounded to a certainty that it is not."""
    return "<1%" if 0 < value < 0.01 else ">99%" if 0.99 < value < 1 else f"{100 * value:.0f}%"


def fastest(entry: Entry) -> str:
    """``tie``, or the probability of being the fastest."""
    return "tie" if entry["tie"] else chance(entry["best_probability"])


def runs(entry: Entry) -> str:
    """Measured runs of its kind; ``none`` where a mechanism of it was never measured."""
    return "none" if str(entry["evidence"]).startswith("no measured run") else str(entry["evidence_runs"])


def shortened(binds: str) -> str:
    for long, short in (
        ("memory on rank ", "memory r"),
        ("computing on rank ", "compute r"),
        ("communication", "comm"),
    ):
        binds = binds.replace(long, short)
    return binds


Column = tuple[str, Callable[[Entry], str]]
ALWAYS: tuple[Column, ...] = (
    ("step s", lambda e: seconds(e["step_time_s"])), ("fits", lambda e: chance(e["fit_probability"])), ("best", fastest),
    ("GiB", lambda e: f"{e['peak_memory_gib']:.1f}"), ("runs", runs),
)  # fmt: skip
UNDECIDED: tuple[Column, ...] = (ALWAYS[0], ALWAYS[3])  # where no error model has looked
WHERE_THERE_IS_ROOM: tuple[Column, ...] = (
    ("MFU", lambda e: share(e["mfu"])), ("tok/s/card", lambda e: rate(e["tokens_per_s_per_device"])),
    ("binds", lambda e: shortened(str(e["binds"]))), ("bubble", lambda e: share(e["bubble_frac"])),
)  # fmt: skip
DAYS: Column = ("days", lambda e: f"{e['days_with_failures']:.1f}")
EXPECTED: Column = ("expected", lambda e: seconds(e["expected_step_time_s"]))


def ranked_table(entries: Sequence[Entry], width: int) -> str:
    """The rows, and above and below them what they share and abbreviate."""
    tokens = [_tokens(entry) for entry in entries]
    common = [token for token in tokens[0] if all(token in row for row in tokens)] if len(tokens) > 1 else []
    left = [[token for token in row if token not in common] for row in tokens]
    letters = _letters(left)
    label = [_label(entry, entries) for entry in entries]
    differs = ["/".join(letters.get(token, token) for token in row) or "-" for row in left]
    table = [["#", *(str(entry["rank"]) for entry in entries)], ["strategy", *label], ["differs", *differs]]
    decided = all("tie" in entry for entry in entries)
    if sum(bool(entry.get("tie")) for entry in entries) == 1:  # alone it ties with nobody
        entries = [{**entry, "tie": False} if "tie" in entry else entry for entry in entries]
    days = (DAYS,) if "days_with_failures" in entries[0] else ()
    for column in (*(ALWAYS if decided else UNDECIDED), *days):
        table.append(_cells(column, entries))
    for column in (*((EXPECTED,) if decided else ()), *WHERE_THERE_IS_ROOM):
        cells = _cells(column, entries)
        if _wide([*table, cells]) <= width:
            table.append(cells)
    lines = [_line(row, table) for row in zip(*table, strict=True)]
    above = [f"Every row: {'/'.join(common)}", ""] if common else []
    legend = [textwrap.fill(f"{letter}: {token}", width, subsequent_indent="   ") for token, letter in letters.items()]
    below = ["", *legend] if letters else []
    return "\n".join([*above, *lines, *below])


def _tokens(entry: Entry) -> list[str]:
    """What of a strategy is not in its label: everything that differs from the defaults."""
    rest = str(entry["strategy"]).removeprefix(str(entry["label"])).strip("/")
    return _split(rest) if rest else []


def _split(text: str) -> list[str]:
    """At slashes outside parentheses."""
    parts, depth = [""], 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if mark == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += mark
    return parts


def _label(entry: Entry, entries: Sequence[Entry]) -> str:
    """The label, after what rows differ in besides their strategy: cards, machine, phase."""
    where = ""
    if len({one["devices"] for one in entries}) > 1:
        where += f"{entry['devices']} x "
    if len({one.get("hardware") for one in entries}) > 1:
        where += f"{entry['hardware']} "
    if "phase" in entry:
        where += f"seq {entry['seq_length']} batch {entry['global_batch']} "
    return where + str(entry["label"]) + "*" * (not entry["launchable"])


def _letters(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """A short name for each long token: its word and a letter, in order of appearance."""
    long = dict.fromkeys(token for row in rows for token in row if len(token) > LONGEST_TOKEN)
    names = [*string.ascii_lowercase, *(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)]
    return dict(zip(long, names, strict=False))


def _cells(column: Column, entries: Sequence[Entry]) -> list[str]:
    title, cell = column
    return [title, *(cell(entry) for entry in entries)]


def _wide(table: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) for column in table) + GAP * (len(table) - 1)


def _line(row: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    cells = []
    for text, column in zip(row, table, strict=True):
        width = max(map(len, column))
        cells.append(text.ljust(width) if column[0] in ("strategy", "differs", "binds") else text.rjust(width))
    return (" " * GAP).join(cells).rstrip()


def evidence_notes(entries: Sequence[Entry]) -> list[str]:
    """Which rows run what was never measured."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        if str(entry.get("evidence", "")).startswith(("no measured run:", "hardly measured:")):
            found.setdefault(str(entry["evidence"]), []).append(int(entry["rank"]))
    return [f"{_rows(ranks)}: {text}." for text, ranks in found.items()]


def _rows(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"Row {ranks[0]}"
    if ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"Rows {ranks[0]}-{ranks[-1]}"
    return "Rows " + ", ".join(map(str, ranks))

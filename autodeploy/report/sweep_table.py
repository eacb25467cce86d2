"""A sweep for people and programs: a table of the best of each cell, CSV of everything ranked, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autodeploy.report.csv_text import entries_csv

Record = Mapping[str, Any]


def sweep_lines(records: Iterable[Record]) -> str:
    """One JSON object a line, in the order of the cells."""
    return "\n".join(json.dumps(record, allow_nan=False) for record in records)


def sweep_csv(records: Sequence[Record]) -> str:
    """One row per ranked strategy; a cell without one has a row that says why."""
    rows: list[dict[str, Any]] = []
    for record in records:
        # The cell's own words win: an entry has "devices" too, and they are equal.
        common = {**record["cell"], "status": record["status"], "error": record["error"]}
        rows += [{**common, **{k: v for k, v in entry.items() if k not in common}} for entry in record["ranked"]] or [
            common
        ]
    return entries_csv(rows, {})


def sweep_table(records: Sequence[Record]) -> str:
    """The best strategy of each cell, one line each; of scenarios, the figures of each strategy."""
    if any("scenarios" in record for record in records):
        return scenarios_table(records)
    from autodeploy.report.table import columns

    varied = [name for name in _names(records) if len({str(record["cell"].get(name)) for record in records}) > 1]
    header = [*varied, "strategy", "step s", "tokens/s/card", "MFU", "GiB"]
    body = [[*(str(record["cell"].get(name, "")) for name in varied), *_best(record)] for record in records]
    ranked = sum(record["status"] == "ranked" for record in records)
    cell = records[0]["cell"] if records else {}
    same = "".join(f"; {name} {value}" for name, value in cell.items() if name not in varied)
    left = set(range(len(varied) + 1))
    table = columns(header, body, left, flexible=len(varied), width=terminal_width())
    return f"{len(records)} cells, {ranked} ranked{same}\n\n{table}"


def scenarios_table(records: Sequence[Record]) -> str:
    """Figures of each case and strategy over all its draws."""
    from autodeploy.report.table import columns
    from autodeploy.sweep.scenarios import added_up

    parts: dict[str, list[Record]] = {}
    for record in records:
        cell = ", ".join(f"{key} {value}" for key, value in record["cell"].items() if key != "first_draw")
        parts.setdefault(cell, []).append(record)
    header = ["strategy", "draws", "mean s", "5%", "50%", "95%", "fastest"]
    lines = []
    for cell, of_case in parts.items():
        failed = dict.fromkeys(str(record["error"]) for record in of_case if record["error"])
        figures = added_up(record["scenarios"] for record in of_case if "scenarios" in record)
        body = [
            [
                name,
                f"{f['draws']:,.0f}",
                *(f"{f[k]:.3f}" for k in ("mean_s", "p5_s", "p50_s", "p95_s")),
                f"{f['fastest_frac']:.1%}",
            ]
            for name, f in figures.items()
        ]
        lines += [cell, "", *failed, columns(header, body, {0}, flexible=0, width=terminal_width()) if body else "", ""]
    return "\n".join(lines)


def terminal_width() -> int:
    """Of the terminal, between 60 and 200; 100 where there is none."""
    import shutil

    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 200)


def _names(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record["cell"]))


def _best(record: Record) -> list[str]:
    if not record["ranked"]:
        nearest = record["nearest"][0] if record["nearest"] else None
        why = record["error"] or (
            f"nothing fits; nearest: {nearest['strategy']}, {nearest['fix']}" if nearest else "nothing fits"
        )
        return [why, "", "", "", ""]
    best = record["ranked"][0]
    return [
        best["strategy"], f"{best['step_time_s']:.3f}", f"{best['tokens_per_s_per_device']:.0f}", f"{best['mfu']:.1%}",
        f"{best['peak_memory_gib']:.1f}",
    ]  # fmt: skip

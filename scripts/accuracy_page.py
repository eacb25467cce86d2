"""Writes docs/accuracy.md and docs/accuracy.svg: the accuracy by group, and predicted against measured.

python scripts/accuracy_page.py            writes both
python scripts/accuracy_page.py --check    fails (exit 1) where they are not what it would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

from autodeploy.accuracy import Report, RunResult, compare, read_runs
from autodeploy.accuracy.compare import group_figures, total_figures
from autodeploy.accuracy.render import GROUP_COLUMNS, TARGET_COLUMNS, group_cells, percent, target_cells
from autodeploy.accuracy.targets import TargetStatus, target_status

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH, HEIGHT, MARGIN = 760, 560, 64
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222255", "#dd8800", "#117733",
    "#882255", "#44aa99", "#999933", "#cc6677", "#6699cc",
)  # fmt: skip

ERRORS = (
    "Error = (predicted - measured) / measured; MAPE is the mean of its absolute value, bias the mean with its sign. Every "
    "row is priced twice. *MAPE* to *held out*: with the row's own software facts on top of the [stack](stacks.md) of its "
    "framework and release. *typed*: as a user would type it, which is the stack alone, with the attention kernel and forced "
    "routing where the row states them; `autodeploy accuracy --format json` prints the command of each row, and "
    "[Ten commands](commands.md) shows some. *memory* and *m. typed* are the same for memory. *Held out* are the families (rows "
    "that share model, machine, precision and release) that no fit may use: three tenths of each group, chosen by a hash of "
    "their names, and the whole sources of autodeploy/accuracy/held_out.py. The fits (scripts/fit_profiles.py, "
    "fit_training.py, fit_stack_constants.py) never see them. The mechanisms and the stacks themselves were chosen with the "
    "residuals of the other rows in view, so that the held-out error is kinder than that of runs nobody has seen. Noise "
    "floor: 1% for dense bf16, 2% for fp8 and MoE, 3% where the source rounds tokens/s; one recipe differs by 1-3% between "
    "releases. Tau is Kendall's tau-b over families of at least five timed rows, pairs closer than 2% left out."
)


# ------------------------------------------------------------------------------------------------------ the page


def page(report: Report) -> str:
    groups = group_figures(report)
    total = total_figures(report)
    skipped = [result for result in report.results if result.skipped]
    parts = [
        "# Accuracy",
        f"The twin predicts {len(report.results) - len(skipped):,} of the {len(report.results):,} published training "
        "runs that ship with it, each with its own configuration: model, machine, strategy and software stack. This "
        "page is written by `scripts/accuracy_page.py`; `autodeploy accuracy` prints the same, and `--baseline` makes "
        "it a gate.",
        f"Over {total['timed']:,} complete rows with a step time the mean absolute error is "
        f"**{percent(total['time_mape'])}** (median {percent(total['time_median_ape'])}, p90 "
        f"{percent(total['time_p90_ape'])}), as typed **{percent(total['as_typed_time_mape'])}**; on whether a run "
        "fits or dies, balanced accuracy is "
        f"**{percent(total['fit_balanced_accuracy'])}**.",
        "![Predicted against measured step time, one dot per complete row](accuracy.svg)",
        "## By group, complete rows without a suspect mark",
        ERRORS,
        _groups(groups, "complete"),
        "## Targets",
        _targets(target_status(report)),
        "## All other rows",
        "Rows that leave a key open, or that something speaks against. Open keys take stated defaults: where "
        "micro-batch, VPP or recompute is not stated, the fastest setting that fits.",
        _groups(groups, "partial"),
        "## Not predicted",
        _skipped(skipped) if skipped else "Every run is predicted.",
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    marks = [":--" if index < left else "--:" for index in range(len(columns))]
    lines = ["| " + " | ".join(row) + " |" for row in (columns, marks, *rows)]
    return "\n".join(lines)


def _groups(groups: dict[str, Any], part: str) -> str:
    rows = [group_cells(name, parts[part]) for name, parts in groups.items() if parts[part]["runs"]]
    return _markdown(GROUP_COLUMNS, rows)


def _targets(statuses: Sequence[TargetStatus]) -> str:
    rows = [(*target_cells(status), status.target.peer or "-") for status in statuses]
    return _markdown((*TARGET_COLUMNS, "peer"), rows, left=2)


def _skipped(results: Sequence[RunResult]) -> str:
    return _markdown(("run", "why"), [(r.run.id, escape(r.skipped or "", quote=False)) for r in results], left=2)


# ------------------------------------------------------------------------------------------------------ the plot


def plot(report: Report) -> str:
    """Log-log scatter of the complete rows, with the diagonal and the +-10% band."""
    rows = report.select(lambda r: r.run.gated and r.time_error_frac is not None)
    times = [t for r in rows for t in (r.run.step_time_s, r.predicted_step_time_s) if t]
    low, high = floor(log10(min(times))), -floor(-log10(max(times)))
    sources = sorted({r.run.group for r in rows})
    colour = {source: COLOURS[i % len(COLOURS)] for i, source in enumerate(sources)}

    def x(value: float) -> float:
        return MARGIN + (log10(value) - low) / (high - low) * (WIDTH - 2 * MARGIN - 120)

    def y(value: float) -> float:
        return HEIGHT - MARGIN - (log10(value) - low) / (high - low) * (HEIGHT - 2 * MARGIN)

    dots = [
        f'<circle cx="{x(r.run.step_time_s or 1):.1f}" cy="{y(r.predicted_step_time_s or 1):.1f}" r="2.2" '
        f'fill="{colour[r.run.group]}" fill-opacity="0.6"/>'
        for r in rows
    ]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *_axes(x, y, low, high), *dots, *_legend(colour), "</svg>"]) + "\n"


def _axes(x: Callable[[float], float], y: Callable[[float], float], low: int, high: int) -> list[str]:
    first, last = 10.0**low, 10.0**high
    lines = []
    left, right, bottom, top = x(first), x(last), y(first), y(last)
    for value in (10.0**exponent for exponent in range(low, high + 1)):
        across, up = x(value), y(value)
        lines += [
            f'<path d="M{across:.1f} {bottom:.1f}V{top:.1f}M{left:.1f} {up:.1f}H{right:.1f}" stroke="#dddddd"/>',
            f'<text x="{across:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{value:g}</text>',
            f'<text x="{left - 8:.1f}" y="{up + 4:.1f}" text-anchor="end">{value:g}</text>',
        ]
    for factor, dash in ((1.0, ""), (1.1, ' stroke-dasharray="4 3"'), (1 / 1.1, ' stroke-dasharray="4 3"')):
        start, end = max(first, first / factor), min(last, last / factor)
        path = f"M{x(start):.1f} {y(start * factor):.1f}L{x(end):.1f} {y(end * factor):.1f}"
        lines.append(f'<path d="{path}" stroke="#444444"{dash}/>')
    middle = 10.0 ** ((low + high) / 2)
    lines.append(f'<text x="{x(middle):.1f}" y="{HEIGHT - 16}" text-anchor="middle">measured step time, s</text>')
    turned = f'transform="translate(18 {y(middle):.1f}) rotate(-90)"'
    lines.append(f'<text {turned} text-anchor="middle">predicted step time, s</text>')
    return lines


def _legend(colour: dict[str, str]) -> list[str]:
    lines = []
    for index, (source, fill) in enumerate(colour.items()):
        top = MARGIN + 18 * index
        lines.append(f'<circle cx="{WIDTH - 160}" cy="{top}" r="4" fill="{fill}"/>')
        lines.append(f'<text x="{WIDTH - 150}" y="{top + 4}">{escape(source)}</text>')
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the files would change")
    check = parser.parse_args().check
    report = compare(read_runs())
    stale = []
    for name, text in (("accuracy.md", page(report)), ("accuracy.svg", plot(report))):
        file = DOCS / name
        if check:
            stale += [name] if not file.is_file() or file.read_text(encoding="utf-8") != text else []
        else:
            DOCS.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file}", file=sys.stderr)
    for name in stale:
        print(f"docs/{name} is not up to date: run scripts/accuracy_page.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

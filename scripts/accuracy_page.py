"""Writes docs/accuracy.md and docs/accuracy.svg: the accuracy by group, and predicted over measured.

python scripts/accuracy_page.py            writes both
python scripts/accuracy_page.py --check    fails (exit 1) where they are not what it would write
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from colorsys import hls_to_rgb
from html import escape
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from autodeploy.accuracy import Report, RunResult, compare, read_runs
from autodeploy.accuracy.bands import CAP, Pairs, coverage, families_of, inside, of_sources
from autodeploy.accuracy.compare import group_figures, total_figures
from autodeploy.accuracy.render import GROUP_COLUMNS, TARGET_COLUMNS, group_cells, percent, target_cells
from autodeploy.accuracy.targets import TargetStatus, target_status

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH, TOP, LEFT, RIGHT, STRIP = 860, 30, 170, 130, 26
RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)

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
        "![Predicted over measured step time, a strip and a colour per source, one dot per complete row](accuracy.svg)",
        "## By group, complete rows without a suspect mark",
        ERRORS,
        _groups(groups, "complete"),
        "## How far to trust a prediction",
        _bands(report),
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


def _bands(report: Report) -> str:
    found = coverage(report.results, families_of(report.results), "time")
    memory = coverage(report.results, families_of(report.results), "memory")
    everything = [pair for pairs in found.by_source.values() for pair in pairs]
    capped, mean = of_sources(found.by_source)
    memory_capped, memory_mean = of_sources(memory.by_source)
    aside = [pair for pairs in found.aside.values() for pair in pairs]
    text = (
        "`step_time_error_frac` is the band that nine of ten runs are meant to stay within, on a cluster whose runs "
        "the table of errors (`scripts/error_bands.py`) has never seen. It is judged so: each row's band is computed "
        f"without its whole source. Then {percent(inside(everything))} of all rows lie inside, {percent(capped)} with "
        f"{CAP} rows of a source at most, {percent(mean)} as mean over the {len(found.by_source)} sources. With only the "
        f"row's own family left out, as in `accuracy`: {percent(inside(found.by_group['all']))}; families that no fit has "
        f"seen {percent(inside(found.by_group['families that no fit has seen']))}. The median band is "
        f"{_ratio(found.by_group['all']):.2f} times the median error: that is the price of holding on new sources. A single "
        "source can still lie outside as a whole, as the table shows: the errors of one source lean one way. "
        "Errors here are over the smaller of predicted and measured. "
        f"`peak_memory_error_frac`, whole source left out: {percent(memory_capped)} with {CAP} rows of a source at most, "
        f"{percent(memory_mean)} as mean over {len(memory.by_source)} sources."
    )
    if aside:
        text += (
            f" Of the {len(aside)} rows of the sources that were put aside before the first fit (last in the table), which no "
            f"constant of the bands was chosen by, {percent(inside(aside))} lie inside."
        )
    named = [*sorted(found.by_source.items()), *((f"{name} (put aside)", p) for name, p in sorted(found.aside.items()))]
    rows = [
        (
            name,
            str(len(pairs)),
            percent(inside(pairs)),
            *(percent(float(np.median(c))) for c in zip(*pairs, strict=True)),
        )
        for name, pairs in named
    ]
    return text + "\n\n" + _markdown(("source, left out whole", "rows", "inside", "median error", "median band"), rows)


def _ratio(pairs: Pairs) -> float:
    errors, bands = zip(*pairs, strict=True)
    return float(np.median(bands) / np.median(errors))


def _targets(statuses: Sequence[TargetStatus]) -> str:
    rows = [(*target_cells(status), status.target.peer or "-") for status in statuses]
    return _markdown((*TARGET_COLUMNS, "peer"), rows, left=2)


def _skipped(results: Sequence[RunResult]) -> str:
    return _markdown(("run", "why"), [(r.run.id, escape(r.skipped or "", quote=False)) for r in results], left=2)


# ------------------------------------------------------------------------------------------------------ the plot


def plot(report: Report) -> str:
    """A strip a source: predicted over measured step time of its complete rows, the shortest steps on top of a strip."""
    strips: dict[str, list[tuple[float, float]]] = {}
    for r in report.select(lambda r: r.run.gated and r.time_error_frac is not None):
        strips.setdefault(r.run.group, []).append((r.run.step_time_s or 0.0, 1 + (r.time_error_frac or 0.0)))
    height = TOP + STRIP * len(strips) + 44
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    dots = [line for at, source in enumerate(sorted(strips)) for line in _strip(source, sorted(strips[source]), at)]
    return "\n".join([*head, *_axis(TOP + STRIP * len(strips)), *dots, "</svg>"]) + "\n"


def ratio_x(ratio: float) -> float:
    """Logarithmic, so that half and double are equally far from 1; what is beyond the axis is drawn at its end."""
    share = (log(ratio) - log(RATIOS[0])) / (log(RATIOS[-1]) - log(RATIOS[0]))
    return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)


def _axis(bottom: int) -> list[str]:
    left, right = ratio_x(0.9), ratio_x(1.1)
    lines = [f'<rect x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{bottom - TOP}" fill="#eef3ee"/>']
    for ratio in RATIOS:
        x, stroke = ratio_x(ratio), "#444444" if ratio == 1 else "#dddddd"
        lines.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{stroke}"/>')
        lines += [f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{ratio:g}</text>' for y in (TOP - 6, bottom + 16)]
    middle = ratio_x(1.0)
    text = "predicted / measured step time (log scale; shaded: within 10%; triangles: beyond the axis)"
    lines.append(f'<text x="{middle:.1f}" y="{bottom + 36}" text-anchor="middle">{text}</text>')
    lines.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP - 6}">rows, within 10%</text>')
    return lines


def _strip(source: str, rows: list[tuple[float, float]], at: int) -> list[str]:
    """Name, dots in the source's own colour, count; `rows`: (measured seconds, ratio), sorted."""
    top, fill = TOP + STRIP * at, source_colour(at)
    lines = [
        f'<path d="M{LEFT} {top}H{WIDTH - RIGHT}" stroke="#eeeeee"/>',
        f'<text x="{LEFT - 10}" y="{top + STRIP / 2 + 4:g}" text-anchor="end" fill="{fill}">{escape(source)}</text>',
    ]
    for index, (_, ratio) in enumerate(rows):
        x, y = ratio_x(ratio), top + 4 + (STRIP - 8) * (index + 0.5) / len(rows)
        if RATIOS[0] <= ratio <= RATIOS[-1]:
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{fill}" fill-opacity="0.6"/>')
        else:
            tip = 7 if ratio > 1 else -7
            lines.append(f'<path d="M{x:.1f} {y - 4:.1f}L{x + tip:.1f} {y:.1f}L{x:.1f} {y + 4:.1f}Z" fill="{fill}"/>')
    near = sum(0.9 <= ratio <= 1.1 for _, ratio in rows) / len(rows)
    lines.append(f'<text x="{WIDTH - RIGHT + 12}" y="{top + STRIP / 2 + 4:g}">{len(rows):,}, {near:.0%}</text>')
    return lines


def source_colour(at: int) -> str:
    """One colour a source: the golden angle keeps neighbours apart; all dark enough to read on white."""
    red, green, blue = hls_to_rgb(at * 0.381966 % 1, (0.32, 0.42)[at % 2], 0.65)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


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

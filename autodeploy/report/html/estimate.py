"""The pages of ``estimate`` and ``simulate``: one strategy by cause and by rank; of a replay the lanes and the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.html.common import assumptions, by_cause, case_line
from autodeploy.report.html.figures import stacked_bars
from autodeploy.report.html.page import Markup, Page, Part, Section
from autodeploy.report.html.parts import Column, lead, line, note, table, tiles

Document = Mapping[str, Any]
LARGEST_PICTURE_BYTES = 2_000_000
MOST_BARS = 32
SHARES = (Column("Cause", "cause"), Column("Value", "value", ".4f"), Column("Share", "share", ".1%"))


def estimate_page(document: Document, picture: str = "") -> Page:
    """What ``estimate`` or ``simulate --format json`` prints, as a page. ``picture``: an SVG of the replayed step."""
    found = document["estimate"]
    sections = [_answer(document), _causes(found), _ranks(found)]
    if "lanes" in found["per_rank"]:
        sections += _replayed(found, picture)
    sections.append(assumptions(document, found))
    return Page(f"{found['strategy']} for {document['model']['name']}", case_line(document), sections)


def _answer(document: Document) -> Section:
    found, cap = document["estimate"], document["memory_cap_gib"]
    parts: list[Part] = []
    if not found["fits"]:
        parts.append(lead(f"Does not fit: {found['peak_memory_gib']:.1f} of {cap:.1f} GiB.", bad=True))
    if not found["launchable"]:
        parts.append(lead(f"Not launchable: {found['not_launchable_because']}", bad=True))
    parts.append(lead(f"What binds: {found['binds']}. The slowest pipeline rank is {found['critical_rank']}."))
    shown = [
        ("step, predicted", f"{found['step_time_s']:.3f} s"),
        ("nine of ten like runs are within", f"+-{found['step_time_error_frac']:.0%}"),
        ("tokens/s a card", f"{found['tokens_per_s_per_device']:,.0f}"),
        ("MFU", f"{found['mfu']:.1%}"),
        ("bubble", f"{found['bubble_frac']:.1%}"),
        (f"peak of {cap:.1f} GiB, rank {found['memory_rank']}", f"{found['peak_memory_gib']:.1f} GiB"),
    ]
    if found.get("fit_probability") is not None:
        shown.append(("probability that it fits", f"{found['fit_probability']:.0%}"))
    for key, name, form in (
        ("days", "days", ".1f"),
        ("device_hours", "card-hours", ",.0f"),
        ("price", "price", ",.0f"),
    ):
        if found.get(key) is not None:
            shown.append((name, format(found[key], form)))
    return Section("Answer", [*parts, tiles(shown)])


def _causes(found: Document) -> Section:
    bars = stacked_bars(["step"], by_cause([found], "time_s"), "seconds", "Time of the step by cause, exposed only.")
    memory = stacked_bars([f"rank {found['memory_rank']}"], by_cause([found], "memory_gib"), "GiB", "Peak by cause.")
    return Section("Where time and memory go", [bars, _shares(found["time_s"]), memory, _shares(found["memory_gib"])])


def _shares(values: Mapping[str, float]) -> Markup:
    total = sum(values.values()) or 1.0
    shown = [(cause, value) for cause, value in values.items() if value > total * 1e-6]
    rows = [
        {"cause": c.replace("_", " "), "value": v, "share": v / total} for c, v in sorted(shown, key=lambda x: -x[1])
    ]
    return table(SHARES, rows)


def _ranks(found: Document) -> Section:
    per_rank = found["per_rank"]
    chosen = _spread(len(per_rank["rank"]))
    names = [f"rank {per_rank['rank'][i]}" for i in chosen]
    memory = {cause: [values[i] for i in chosen] for cause, values in per_rank["memory_gib"].items()}
    busy = {"busy": [per_rank["busy_s"][i] for i in chosen]}
    parts: list[Part] = [
        stacked_bars(
            names, busy, "seconds", "What a pipeline rank computes and communicates in its stages over the step."
        ),
        stacked_bars(names, memory, "GiB", "Peak memory by pipeline rank and cause."),
    ]
    if len(chosen) < len(per_rank["rank"]):
        parts.append(note(f"{len(chosen)} of {len(per_rank['rank'])} ranks are drawn, evenly spread."))
    return Section("By pipeline rank", parts)


def _spread(count: int) -> list[int]:
    """At most MOST_BARS of ``count`` ranks, the first and the last among them."""
    if count <= MOST_BARS:
        return list(range(count))
    return [round(i * (count - 1) / (MOST_BARS - 1)) for i in range(MOST_BARS)]


def _replayed(found: Document, picture: str) -> list[Section]:
    per_rank = found["per_rank"]
    chosen = _spread(len(per_rank["rank"]))
    lanes = {
        f"{lane} {state}": [values[f"{state}_s"][i] for i in chosen]
        for lane, values in per_rank["lanes"].items()
        if max(values["busy_s"]) > 0.0
        for state in ("busy", "idle")
    }
    told = f"Pipeline {found['pipeline_time_s']:.3f} s, computing idle {found['compute_idle_frac']:.1%} of it."
    if found["ep_masked_frac"] is not None:
        told += f" Expert communication {found['ep_time_s']:.3f} s, {found['ep_masked_frac']:.1%} of it hidden under computing."
    columns = [Column("Rank", "rank", "d")] + [Column(name, name, ".4f") for name in lanes]
    rows = [{"rank": per_rank["rank"][i], **{k: v[n] for k, v in lanes.items()}} for n, i in enumerate(chosen)]
    sections = [Section("Lanes", [line(told), table(columns, rows)])]
    size = len(picture.encode())
    if picture and size < LARGEST_PICTURE_BYTES:
        sections.append(Section("Timeline", [Markup(f'<div class="svg">{picture[picture.index("<svg") :]}</div>')]))
    elif picture:
        said = f"The timeline of this step takes {size / 1e6:.0f} MB and is left out: --window with --picture draws a part."
        sections.append(Section("Timeline", [note(said)]))
    return sections

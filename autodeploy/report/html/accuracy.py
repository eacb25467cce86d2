"""The page of ``accuracy``: predicted over measured by group, the groups' figures, targets, the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.html.figures import ratio_strip
from autodeploy.report.html.page import Page, Part, Section
from autodeploy.report.html.parts import Column, lead, note, table, tiles

Document = Mapping[str, Any]
GROUPS = (
    Column("Group", "group"),
    Column("Runs", "runs", "d"),
    Column("Timed", "timed", "d"),
    Column("Time error", "time_mape", ".1%"),
    Column("Median", "time_median_ape", ".1%"),
    Column("90th", "time_p90_ape", ".1%"),
    Column("Bias", "time_mean_error", "+.1%"),
    Column("As typed", "as_typed_time_mape", ".1%"),
    Column("Memory measured", "memory_measured", "d"),
    Column("Memory error", "memory_mape", ".1%"),
    Column("Kendall tau", "rank_tau", ".2f"),
)
TARGETS = (
    Column("Target", "name"),
    Column("Metric", "metric"),
    Column("Limit", "limit", ".3f"),
    Column("Value", "value", ".3f"),
    Column("Met", "met"),
    Column("Peer", "peer", "wide"),
)


def accuracy_page(document: Document) -> Page:
    """What ``accuracy --format json`` prints, as a page."""
    total, gate = document["total"], document["gate"]
    shown = [
        ("runs predicted", f"{total['predicted']:,} of {total['runs']:,}"),
        ("mean time error", _percent(total["time_mape"])),
        ("median time error", _percent(total["time_median_ape"])),
        ("as a user would type it", _percent(total["as_typed_time_mape"])),
        ("mean memory error", _percent(total["memory_mape"])),
    ]
    sections = [Section("Total", [tiles(shown)]), _gate(gate)]
    for key, name in (("time", "Step time"), ("memory", "Peak memory")):
        groups = ratios(document, key)
        if groups:
            caption = "One dot a complete, measured run; one colour a source. Left of 1: predicted too small."
            sections.append(
                Section(f"{name}: predicted / measured", [ratio_strip(groups, "predicted / measured", caption)])
            )
    rows = [
        {"group": name, **each["complete"]} for name, each in document["groups"].items() if each["complete"]["runs"]
    ]
    sections.append(
        Section("Groups", [table(GROUPS, rows), note("Complete runs only, each with its own configuration.")])
    )
    if document.get("targets"):
        met = [{**target, "met": {True: "yes", False: "no"}.get(target["met"], "")} for target in document["targets"]]
        sections.append(Section("Targets", [table(TARGETS, met)]))
    return Page("Predicted against measured", f"{total['runs']:,} published runs in {len(rows)} groups", sections)


def ratios(document: Document, key: str) -> dict[str, list[tuple[float, str]]]:
    """Group -> (predicted / measured, id of the run) of its complete runs; ``key`` is time or memory."""
    measured, predicted = {
        "time": ("measured_step_time_s", "predicted_step_time_s"),
        "memory": ("measured_memory_gib", "predicted_memory_gib"),
    }[key]
    found: dict[str, list[tuple[float, str]]] = {}
    for run in document["runs"]:
        if run["complete"] and not run["suspect"] and run[measured] and run[predicted]:
            found.setdefault(run["group"], []).append((run[predicted] / run[measured], run["id"]))
    return dict(sorted(found.items()))


def _gate(gate: Document) -> Section:
    told = f"{'Passed' if gate['passed'] else 'Failed'}, held against {gate['baseline']}."
    if gate["baseline"] is None and gate["passed"]:
        told = "Not judged: no baseline was given for these runs."
    parts: list[Part] = [lead(told, bad=not gate["passed"])]
    for name in ("failed", "unjudged"):
        if gate[name]:
            parts.append(table([Column(name.capitalize(), "line", "wide")], [{"line": text} for text in gate[name]]))
    return Section("Gate", parts)


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1%}"

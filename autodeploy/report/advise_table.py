"""The result of ``advise`` on one page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.explain_table import own_line
from autodeploy.report.table import columns, heading, seconds, wrap


def advise_page(document: Mapping[str, Any]) -> str:
    parts = [heading(document), ""]
    parts += _now(document)
    if document["single_changes"]:
        parts += ["", "single changes that gain most, each alone:"]
        rows = [
            [
                row["change"],
                seconds(row["step_time_s"]),
                f"{row['gain_frac']:+.1%}",
                f"{row['peak_memory_gib']:.1f}",
                row["strategy"],
            ]
            for row in document["single_changes"]
        ]
        parts.append(columns(["change", "step s", "gain", "GiB", "strategy"], rows, {0, 4}, flexible=4))
    parts += ["", *_decision(document)]
    if document["trials"]:
        parts += ["", "worth a short run each:"]
        parts.append(
            columns(["row", "step s", "best", "fits", "strategy"], [_trial(row) for row in document["trials"]], {4}, 4)
        )
    for path in document.get("exported", []):
        parts.append(f"  {path}")
    return "\n".join(parts)


def _now(document: Mapping[str, Any]) -> list[str]:
    now = document["now"]
    if now is None:
        return ["no launch file: what runs now is not known"]
    head = own_line({"own": now | {"place": None}})
    if now["place"] is None:
        return head[1:]
    return [*head[1:], wrap(f"the first row of the search is {now['first_faster_frac']:.1%} faster")]


def _decision(document: Mapping[str, Any]) -> list[str]:
    if document["decision"] is None:
        nearest = [
            wrap(f"nothing fits; nearest: {miss['strategy']}: {miss['fix']}") for miss in document["nearest"][:1]
        ]
        return nearest or ["nothing fits"]
    return [wrap(f"decision: {document['decision']['advice']}")]


def _trial(row: Mapping[str, Any]) -> list[str]:
    chances = [f"{row[name]:.0%}" for name in ("best_probability", "fit_probability")]
    return [str(row["rank"]), seconds(row["step_time_s"]), *chances, row["strategy"]]

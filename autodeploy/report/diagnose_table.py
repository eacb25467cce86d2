"""The result of ``diagnose`` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.table import columns, heading, seconds, wrap

MOST = 6  # suppositions shown


def diagnose_table(document: Mapping[str, Any]) -> str:
    measured, entry = document["measured"], document["estimate"]
    spread = f"{seconds(measured['step_time_p10_s'])} to {seconds(measured['step_time_p90_s'])}"
    parts = [heading(document), "", wrap(document["strategy"]), ""]
    rows = [["step", seconds(measured["step_time_s"]), seconds(entry["step_time_s"]), f"{document['gap_s']:+.3f}"]]
    for cause, value in measured["time_s"].items():
        ours = entry["time_s"].get(cause, 0.0)
        rows.append([cause.replace("_", " "), seconds(value), seconds(ours), f"{value - ours:+.3f}"])
    if measured["peak_memory_gib"]:
        gap = measured["peak_memory_gib"] - entry["peak_memory_gib"]
        rows.append(
            ["memory GiB", f"{measured['peak_memory_gib']:.1f}", f"{entry['peak_memory_gib']:.1f}", f"{gap:+.1f}"]
        )
    parts.append(columns(["", "measured", "predicted", "gap"], rows, {0}, flexible=0))
    parts += [wrap(f"{measured['steps']} steps, {spread} s in eight of ten"), "", wrap(document["verdict"])]
    if document["explanations"]:
        parts += ["", "what would move the prediction to it, each alone:"]
        shown = [
            [row["what"], seconds(row["step_time_s"]), f"{row['explains_frac']:.0%}"]
            for row in document["explanations"][:MOST]
        ]
        parts.append(columns(["supposed", "step s", "of the gap"], shown, {0}, flexible=0))
    if document["changes"]:
        parts += ["", "what would be faster:"]
        shown = [
            [row["change"], seconds(row["step_time_s"]), f"{row['gain_frac']:+.1%}"] for row in document["changes"]
        ]
        parts.append(columns(["change", "step s", "gain"], shown, {0}, flexible=0))
    return "\n".join(parts)

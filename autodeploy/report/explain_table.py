"""The results of ``explain`` and ``compare`` for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.estimate_table import headline
from autodeploy.report.table import columns, heading, seconds, wrap

SHOWN_S_FRAC = 0.0005  # differences below this share of the step are left out of the table


def explain_table(document: Mapping[str, Any]) -> str:
    entry, exposed, slowest = document["estimate"], document["largest_exposed"], document["slowest_rank"]
    parts = [heading(document), "", wrap(entry["strategy"]), "", headline(entry, document["memory_cap_gib"]), ""]
    parts.append(wrap(f"binds: {document['binds']['what']}: {document['binds']['why']}"))
    parts.append(
        wrap(
            f"slowest rank: {slowest['rank']}, busy {seconds(slowest['busy_s'])} s, "
            f"{slowest['over_mean_frac']:.1%} over the mean"
        )
    )
    if exposed:
        share = f"{seconds(exposed['exposed_s'])} s, {exposed['share']:.1%} of the step"
        parts.append(wrap(f"largest exposed communication: {exposed['name']}, {share}"))
    parts += ["", "one step along each axis:"]
    rows = [_step_row(row) for row in document["steps"]]
    parts.append(columns(["step", "step s", "gain", "GiB", "why not"], rows, {0, 4}, flexible=4))
    parts += ["", wrap(document["advice"])]
    return "\n".join(parts)


def _step_row(row: Mapping[str, Any]) -> list[str]:
    if row["refused"]:
        return [row["change"], "-", "-", "-", row["why_not"]]
    gain = f"{row['gain_frac']:+.1%}"
    return [
        row["change"],
        seconds(row["step_time_s"]),
        gain,
        f"{row['peak_memory_gib']:.1f}",
        row["why_not"] or "take it",
    ]


def compare_table(document: Mapping[str, Any]) -> str:
    a, b = document["a"], document["b"]
    parts = [heading(document), "", *(_side(name, one) for name, one in (("A", a), ("B", b))), ""]
    if document["causes"]:
        step = max(a["step_time_s"], b["step_time_s"])
        rows = [
            [row["cause"].replace("_", " "), seconds(row["a_s"]), seconds(row["b_s"]), f"{row['difference_s']:+.3f}"]
            for row in document["causes"]
            if abs(row["difference_s"]) >= SHOWN_S_FRAC * step or max(row["a_s"], row["b_s"]) >= 0.02 * step
        ]
        rows.append(["step", seconds(a["step_time_s"]), seconds(b["step_time_s"]), f"{document['difference_s']:+.3f}"])
        parts += [columns(["where the time goes", "A s", "B s", "B - A"], rows, {0}, flexible=0), ""]
        parts.append(_verdict(document))
    if document["single_changes"]:
        parts += ["", "each difference alone, on A:"]
        rows = [_single_row(row) for row in document["single_changes"]]
        parts.append(columns(["change", "step s", "gain s", "note"], rows, {0, 3}, flexible=3))
    return "\n".join(parts)


def _side(name: str, one: Mapping[str, Any]) -> str:
    if one["refused"]:
        return wrap(f"{name}  {one['strategy']}: not allowed: {one['refused']}")
    fits = "fits" if one["fits"] else "DOES NOT FIT"
    return wrap(f"{name}  {one['strategy']}: {seconds(one['step_time_s'])} s, {one['peak_memory_gib']:.1f} GiB, {fits}")


def _verdict(document: Mapping[str, Any]) -> str:
    a, b = document["a"]["step_time_s"], document["b"]["step_time_s"]
    faster, slower, name = (a, b, "A") if a <= b else (b, a, "B")
    note = "" if document[name.lower()]["fits"] else ", but does not fit"
    return wrap(f"{name} is {(slower - faster) / slower:.1%} faster: {seconds(slower - faster)} s of the step{note}")


def _single_row(row: Mapping[str, Any]) -> list[str]:
    if row["refused"]:
        return [row["change"], "-", "-", f"not alone: {row['refused']}"]
    note = "" if row["fits"] else "does not fit"
    return [row["change"], seconds(row["step_time_s"]), f"{row['gain_s']:+.3f}", note]


def own_line(document: Mapping[str, Any]) -> list[str]:
    """Where the user's own setting stands, below a search of their launch file; empty for any other search."""
    own = document.get("own")
    if not own:
        return []
    if own["refused"]:
        return ["", wrap(f"yours: {own['strategy']}: not allowed: {own['refused']}")]
    figures = f"{seconds(own['step_time_s'])} s, {own['peak_memory_gib']:.1f} GiB"
    if own["place"] is None:
        return ["", wrap(f"yours: {own['strategy']}: {figures}: {'fits' if own['fits'] else 'does not fit'}")]
    beaten = f"place {own['place']} beside these {own['rows']} rows; the first is {own['first_faster_frac']:.1%} faster"
    return ["", wrap(f"yours: {own['strategy']}: {figures}: {beaten}")]

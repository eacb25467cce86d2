"""The result of ``simulate`` for people: headline, expert communication, lanes by rank, a timeline of small cases."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autodeploy.report.estimate_table import headline, shares, side_by_side
from autodeploy.report.table import WIDTH, columns, heading, seconds, wrap

if TYPE_CHECKING:
    from autodeploy.replay import SimulatedStep

SMALL_RANKS, SMALL_SLOTS = 8, 40  # a timeline in the terminal shows no more forwards of a rank than this
RANK_COLUMNS = 9  # "rank  12 " in front of the timeline
LANES = ("compute", "intra-node", "inter-node")


def simulate_table(
    document: Mapping[str, Any], step: SimulatedStep, window_s: tuple[float, float] | None, colour: bool
) -> str:
    entry = document["estimate"]
    title = f"{entry['strategy']}  DP{entry['dp']}, {entry['micro_batches']} micro-batches"
    parts = [heading(document), "", wrap(title), "", headline(entry, document["memory_cap_gib"]), *_replay(entry), ""]
    parts += side_by_side(
        shares("time on rank " + str(entry["critical_rank"]), entry["time_s"], "s"),
        shares("memory of rank " + str(entry["memory_rank"]), entry["memory_gib"], "GiB"),
    )
    parts += ["", columns(*_rank_table(entry), set(), flexible=0)]
    small = entry["pp"] <= SMALL_RANKS and entry["micro_batches"] * entry["vpp"] <= SMALL_SLOTS
    if small or (window_s is not None and entry["pp"] <= 4 * SMALL_RANKS):
        parts += ["", _timeline(step, window_s, colour)]
    return "\n".join(parts)


def _replay(entry: Mapping[str, Any]) -> list[str]:
    closed, simulated = entry["screened_step_time_s"], entry["simulated_step_time_s"]
    lines = [
        f"replayed as {entry['simulated_as']}: pipeline {seconds(entry['pipeline_time_s'])} s, compute lanes idle "
        f"{100 * entry['compute_idle_frac']:.1f}%; closed form {seconds(closed)} s ({100 * (closed / simulated - 1):+.1f}%)"
    ]
    if entry["ep_masked_frac"] is not None:
        steady = entry["ep_masked_frac_steady"]
        in_steady = "no paired phase" if steady is None else f"{100 * steady:.1f}% in the steady phase"
        lines.append(
            f"expert communication {seconds(entry['ep_time_s'])} s a rank, masked {100 * entry['ep_masked_frac']:.1f}% "
            f"of the step, {in_steady}; cut: {entry['cut']}, lane order {entry['lane_order']}"
        )
    return [wrap(line) for line in lines]


def _rank_table(entry: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    ranks = entry["per_rank"]
    used = [name for name in LANES if name == LANES[0] or any(ranks["lanes"][name]["busy_s"])]
    names = ["rank"]
    for name in used:
        names += [f"{name} busy s", "idle s"]
    rows = []
    for r in ranks["rank"]:
        times = [seconds(ranks["lanes"][name][key][r]) for name in used for key in ("busy_s", "idle_s")]
        rows.append([str(r), *times, str(ranks["in_flight_chunks"][r]), f"{ranks['peak_memory_gib'][r]:.2f}"])
    return [*names, "in flight", "peak GiB"], rows


def _timeline(step: SimulatedStep, window_s: tuple[float, float] | None, colour: bool) -> str:
    from rich.console import Console

    from autodeploy.schedule.terminal import terminal_timeline

    text = io.StringIO()
    console = Console(file=text, force_terminal=colour, no_color=not colour, width=WIDTH + 20)
    console.print(terminal_timeline(step.result, 0, WIDTH - RANK_COLUMNS, window_s), end="")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def ranks_csv(document: Mapping[str, Any]) -> str:
    """One row a pipeline rank."""
    entry = document["estimate"]
    ranks, text = entry["per_rank"], io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lanes = [(name, key) for name in LANES for key in ("busy_s", "idle_s")]
    named = [f"{name.replace('-', '_')}_{key}" for name, key in lanes]
    writer.writerow(["strategy", "devices", "step_time_s", "rank", *named, "in_flight_chunks", "peak_memory_gib"])
    for r in ranks["rank"]:
        row = [entry["strategy"], entry["devices"], entry["step_time_s"], r]
        row += [ranks["lanes"][name][key][r] for name, key in lanes]
        writer.writerow([*row, ranks["in_flight_chunks"][r], ranks["peak_memory_gib"][r]])
    return text.getvalue()

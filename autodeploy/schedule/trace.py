"""Chrome / Perfetto trace of one scenario: a process per rank, a thread per lane, flow arrows for P2P.

Format: Trace Event Format (Google, "JSON Array Format"): complete events `X`, metadata `M`, flows `s` and `f`; times in us.
Each slice says its part (forward, input gradient, weight gradient, recompute, P2P). Transfers that hold no lane are
asynchronous slices, `b` and `e`, of the sender.
A fourth thread, `step`, splits each rank's step into pipeline, gradient reduction, wait, optimizer, gather and idle.
"""

from __future__ import annotations

import json
from typing import Any

from autodeploy.schedule.operations import KIND_NAMES
from autodeploy.schedule.request import SimulationResult
from autodeploy.schedule.segments import LANE_NAMES
from autodeploy.schedule.timeline import Slice, events_of, hops, slices, transfers

STEP_THREAD = len(LANE_NAMES)
US = 1e6


def trace_events(result: SimulationResult, scenario: int = 0) -> list[dict[str, Any]]:
    """The whole step of one scenario."""
    pieces = slices(result, scenario)
    events: list[dict[str, Any]] = _names(events_of(result).schedule.pp)
    for piece in pieces:
        events.append(
            {
                "ph": "X",
                "pid": piece.rank,
                "tid": piece.lane,
                "name": piece.name,
                "cat": KIND_NAMES[piece.kind],
                "ts": piece.start_s * US,
                "dur": (piece.end_s - piece.start_s) * US,
                "args": {
                    "part": piece.part,
                    "stage": piece.stage,
                    "micro_batch": piece.micro_batch,
                    "layer": piece.layer,
                },
            }
        )
    for number, hop in enumerate(hops(result, pieces, scenario)):
        source, target = pieces[hop.source], pieces[hop.target]
        shared = {"name": "p2p", "cat": "p2p", "id": number}
        middle = (source.start_s + source.end_s) / 2
        events.append({"ph": "s", "pid": source.rank, "tid": source.lane, "ts": middle * US, **shared})
        events.append(
            {"ph": "f", "bp": "e", "pid": target.rank, "tid": target.lane, "ts": target.start_s * US, **shared}
        )
    return events + _transfers(result, pieces, scenario) + _step_events(result, scenario)


def _transfers(result: SimulationResult, pieces: list[Slice], scenario: int) -> list[dict[str, Any]]:
    rows = []
    for number, piece in enumerate(transfers(result, pieces, scenario)):
        name = f"P2P {KIND_NAMES[piece.kind]}{piece.micro_batch} from stage {piece.stage}"
        shared = {"pid": piece.rank, "tid": 0, "name": name, "cat": "P2P", "id": f"p2p-{number}"}
        args = {"part": piece.part, "stage": piece.stage, "micro_batch": piece.micro_batch}
        rows.append({"ph": "b", "ts": piece.start_s * US, "args": args, **shared})
        rows.append({"ph": "e", "ts": piece.end_s * US, **shared})
    return rows


def _names(ranks: int) -> list[dict[str, Any]]:
    rows = []
    for rank in range(ranks):
        rows.append(
            {"ph": "M", "pid": rank, "tid": 0, "name": "process_name", "args": {"name": f"pipeline rank {rank}"}}
        )
        for lane, name in enumerate((*LANE_NAMES, "step")):
            rows.append({"ph": "M", "pid": rank, "tid": lane, "name": "thread_name", "args": {"name": name}})
    return rows


def _step_events(result: SimulationResult, scenario: int) -> list[dict[str, Any]]:
    """Slices of the `step` thread; on each rank they fill the step without a gap."""
    kept = events_of(result)
    step_s = float(result.step_s[scenario])
    rows = []
    for rank in range(kept.schedule.pp):
        reduction, optimizer, gather = (float(x) for x in kept.tail_s[scenario, rank])
        end = float(kept.rank_end_s[scenario, rank])
        marks = [("pipeline", end), ("gradient reduction", reduction)]
        wait = float(kept.meets_at_s[scenario, rank]) - end - reduction
        marks += [("wait for other ranks", wait), ("optimizer", optimizer), ("parameter gather", gather)]
        marks.append(("idle", step_s - sum(length for _, length in marks)))
        at = 0.0
        for name, length in marks:
            if length > 1e-12:
                row = {"ph": "X", "pid": rank, "tid": STEP_THREAD, "name": name, "cat": "step", "args": {}}
                rows.append({**row, "ts": at * US, "dur": length * US})
                at += length
    return rows


def trace_json(result: SimulationResult, scenario: int = 0) -> str:
    """The text of a trace file."""
    return json.dumps({"traceEvents": trace_events(result, scenario), "displayTimeUnit": "ms"})

"""The events of one scenario as plain slices, for traces and pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autodeploy.schedule.operations import KIND_NAMES, B, F, I, ScheduleError
from autodeploy.schedule.request import SimulationResult, StepEvents
from autodeploy.schedule.segments import LANE_NAMES, RECOMPUTE_CHAIN, SENDS, Segment
from cost_models.schedules import SCHEDULE_TABLE

WEIGHTS = (Segment.EXPERTS_W, Segment.ATTENTION_W)
RECOMPUTED = tuple(s for s in Segment if s.name.endswith("_R"))
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, RECOMPUTE, P2P = PARTS = (
    "forward", "input gradient", "weight gradient", "recompute", "P2P",
)  # fmt: skip
P2P_LANE = len(LANE_NAMES)  # of pictures: transfers that hold no lane of the sender


def part_of(segment: int) -> str:
    """Which of `PARTS` a segment is."""
    if segment in SENDS:
        return P2P
    if segment in RECOMPUTE_CHAIN:
        return RECOMPUTE
    if segment in WEIGHTS:
        return WEIGHT_GRADIENT
    return FORWARD if segment < RECOMPUTE_CHAIN[0] else INPUT_GRADIENT


PART_OF = tuple(part_of(segment) for segment in Segment)


@dataclass(frozen=True, slots=True)
class Slice:
    """One segment on one lane of one rank."""

    rank: int
    lane: int
    start_s: float
    end_s: float
    kind: int
    stage: int
    micro_batch: int
    layer: int
    segment: int
    paired: bool

    @property
    def part(self) -> str:
        """One of `PARTS`."""
        return PART_OF[self.segment]

    @property
    def operation(self) -> tuple[int, int, int]:
        return self.kind, self.stage, self.micro_batch

    @property
    def name(self) -> str:
        """Such as `F3 stage 17 layer 0 experts`."""
        part = Segment(self.segment).name.rsplit("_", 1)[0].lower().replace("_", " ")
        return f"{KIND_NAMES[self.kind]}{self.micro_batch} stage {self.stage} layer {self.layer} {part}"


@dataclass(frozen=True, slots=True)
class Hop:
    """A P2P transfer: from the slice that makes the data to the slice that waits for it (indices)."""

    source: int
    target: int
    sent_s: float
    arrives_s: float


def events_of(result: SimulationResult) -> StepEvents:
    """The events, or what to do to have them."""
    if result.events is None:
        raise ScheduleError("SimulationRequest.keep_events", False, "True, and one lane order for the whole batch")
    return result.events


def slices(result: SimulationResult, scenario: int = 0) -> list[Slice]:
    """All segments in order of rank, lane, start."""
    events = events_of(result)
    times = events.times
    start, end = times.start_s[:, scenario], times.end_s[:, scenario]
    order = np.lexsort((end, start, times.lane, events.rank))
    return [
        Slice(
            int(events.rank[e]),
            int(times.lane[e]),
            float(start[e]),
            float(end[e]),
            int(events.kind[e]),
            int(events.stage[e]),
            int(events.micro_batch[e]),
            int(times.layer[e]),
            int(times.segment[e]),
            bool(events.paired[e]),
        )
        for e in order
        if end[e] > start[e]
    ]


def hops(result: SimulationResult, all_slices: list[Slice], scenario: int = 0) -> list[Hop]:
    """Every transfer between ranks."""
    events = events_of(result)
    early = SCHEDULE_TABLE[events.schedule.name].pairs == "early"  # its gradient leaves before the weight part
    first: dict[tuple[int, int, int], int] = {}
    last: dict[tuple[int, int, int], int] = {}
    for index, piece in enumerate(all_slices):
        if piece.kind not in (F, B, I) or piece.segment in RECOMPUTED:
            continue
        key = (F if piece.kind == F else B, piece.stage, piece.micro_batch)
        if key not in first or piece.start_s < all_slices[first[key]].start_s:
            first[key] = index
        if (not early or piece.segment not in WEIGHTS) and (
            key not in last or piece.end_s >= all_slices[last[key]].end_s
        ):
            last[key] = index
    found = []
    for (kind, stage, micro_batch), target in first.items():
        source = last.get((kind, stage - 1 if kind == F else stage + 1, micro_batch))
        if source is None or all_slices[source].rank == all_slices[target].rank:
            continue
        boundary = stage - 1 if kind == F else stage
        sent = all_slices[source].end_s
        found.append(Hop(source, target, sent, sent + float(events.p2p_s[1 + boundary, scenario])))
    return found


def transfers(result: SimulationResult, all_slices: list[Slice], scenario: int = 0) -> list[Slice]:
    """P2P that holds no lane of the sender, as slices of the sender on `P2P_LANE`, by rank and start."""
    if not events_of(result).p2p_s[:, scenario].any():
        return []
    found = []
    for hop in hops(result, all_slices, scenario):
        source = all_slices[hop.source]
        segment = Segment.SEND_F if source.kind == F else Segment.SEND_B
        if hop.arrives_s > hop.sent_s:
            found.append(replace(source, lane=P2P_LANE, start_s=hop.sent_s, end_s=hop.arrives_s, segment=int(segment)))
    return sorted(found, key=lambda piece: (piece.rank, piece.start_s, piece.end_s))


def in_window(all_slices: list[Slice], start_s: float, end_s: float) -> list[Slice]:
    """Slices that touch the window."""
    return [piece for piece in all_slices if piece.end_s > start_s and piece.start_s < end_s]

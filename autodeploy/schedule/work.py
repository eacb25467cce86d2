"""Scenarios that share their graphs, ready to be priced: segments as cells, stages that are equal as one.

Axes: N scenarios, S virtual stages, C distinct stages, L layers, K segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.alike import parts_alike, plan_costs_s
from autodeploy.schedule.batches import take
from autodeploy.schedule.blocks import BlockGraph, SlotKind
from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.graphs import graph_of
from autodeploy.schedule.pricing import SlotCosts
from autodeploy.schedule.request import SimulationRequest
from autodeploy.schedule.segments import COMPUTE, INTER, Segment, Structure
from autodeploy.schedule.slots import slot_template
from autodeploy.schedule.templates import Template
from cost_models.schedules import SCHEDULE_TABLE

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
BLOCK = 128  # scenarios replayed at a time: the arrays of a level stay in cache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stages:
    """`of` [S]: which distinct stage each is; `structures` of these, and their `cells` [C, L x K, N], seconds."""

    of: I64
    structures: tuple[Structure, ...]
    cells: F64

    def slots(self, kinds: Iterable[SlotKind]) -> list[SlotKind]:
        """The same with distinct stages."""
        of = self.of.tolist()
        return [(ops, tuple(of[stage] for stage in stages)) for ops, stages in kinds]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A request of scenarios alike. `ends`: ways to pair micro-batches there, each with its graph; `slots`: the distinct
    slots of all graphs, (kinds, distinct stages); `slot_of[g]` [kinds of graph g]: which of them each kind is."""

    request: SimulationRequest
    ends: tuple[str, ...]
    graphs: tuple[BlockGraph, ...]
    stages: Stages
    slots: tuple[SlotKind, ...]
    slot_of: tuple[I64, ...]
    hops_s: F64 | None  # [1 + S, N], row 0 zero; None where transfers hold a lane or take no time

    def templates(self, slots: Iterable[SlotKind], entry: str | None) -> list[Template]:
        """As the schedule runs them under a lane order; without one nothing overlaps."""
        pairs, of = SCHEDULE_TABLE[self.request.schedule].pairs, self.stages.structures
        send_lane = COMPUTE if self.request.p2p_exposed else INTER
        return [
            slot_template(
                kinds,
                tuple(of[s] for s in stages),
                entry,
                pairs == "joint" and len(kinds) == 2,
                pairs == "early",
                send_lane,
            )
            for kinds, stages in slots
        ]

    def cells_of_slots(self, first: int = 0) -> I64:
        """Where the stage of each stream of each slot starts among the cells, [slots, 2]."""
        size = self.stages.cells.shape[1]
        return np.array([[first + stage * size for stage in (*of, of[-1])[:2]] for _, of in self.slots])

    def costs(self) -> SlotCosts:
        """What its slots are priced with."""
        request, cells = self.request, self.stages.cells
        return SlotCosts(
            seconds=cells.reshape(-1, request.scenarios),
            at=self.cells_of_slots(),
            piece_overhead_s=request.piece_overhead_s,
            pair_scale=pair_scale(request),
        )


def pair_scale(request: SimulationRequest) -> F64 | None:
    """How long a pair takes over its halves, [N]; None: as long."""
    saving = np.asarray(request.pair_saving_frac, dtype=np.float64)
    return 1.0 - np.broadcast_to(saving, (request.scenarios,)) if saving.any() else None


def works_of(request: SimulationRequest) -> tuple[list[Work], list[I64]]:
    """Scenarios that share a graph, at most a block of them where no events are asked for; and which they are."""
    if request.scenarios == 1:
        return [work_of(request)], [np.zeros(1, dtype=np.int64)]
    plans = SCHEDULE_TABLE[request.schedule].plans_with_costs and request.order_costs is None
    parts = parts_alike(with_sends(request), plan_costs_s(request) if plans else None)
    size = request.scenarios if request.keep_events else BLOCK
    parts = [at[start : start + size] for at in parts for start in range(0, len(at), size)]
    return [work_of(request if len(parts) == 1 else take(request, at)) for at in parts], parts


def work_of(request: SimulationRequest) -> Work:
    """Of scenarios that are alike."""
    stages = _stages(with_sends(request))
    ends: tuple[str, ...] = ("none",)
    if request.overlaps_lanes and SCHEDULE_TABLE[request.schedule].pairs_ends:
        ends = (request.ends,) if request.ends is not None else ("none", "warm-up")
    graphs = tuple(graph_of(request, each) for each in ends)
    index: dict[SlotKind, int] = {}
    slot_of = [np.array([index.setdefault(slot, len(index)) for slot in stages.slots(graph.kinds)]) for graph in graphs]
    hops = None
    if not request.sends and np.any(request.p2p_s):
        hops = np.concatenate([np.zeros((1, request.scenarios)), hop_s(request).T])
    return Work(
        request=request,
        ends=ends,
        graphs=graphs,
        stages=stages,
        slots=tuple(index),
        slot_of=tuple(slot_of),
        hops_s=hops,
    )


def _stages(segments: LayerSegments) -> Stages:
    packed = segments.packed()
    stages, layers, kinds, scenarios = packed.shape
    first: dict[bytes, int] = {}
    of = np.array([first.setdefault(packed[s].tobytes(), s) for s in range(stages)])
    distinct = np.array(list(first.values()))
    structures = segments.structures()
    return Stages(
        of=np.searchsorted(distinct, of),
        structures=tuple(structures[s] for s in distinct),
        cells=packed[distinct].reshape(len(distinct), layers * kinds, scenarios),
    )


def hop_s(request: SimulationRequest) -> F64:
    """Seconds of each hop, [N, S]."""
    p2p = np.asarray(request.p2p_s, dtype=np.float64)
    return np.broadcast_to(p2p[:, None] if p2p.ndim == 1 else p2p, (request.scenarios, request.stages))


def with_sends(request: SimulationRequest) -> LayerSegments:
    """Adds the sends that hold a lane of the sender: after the last layer of a stage, and in the backward its first."""
    segments = request.segments
    if not request.sends:
        return segments
    seconds, hop, stages = segments.seconds.copy(), hop_s(request), np.arange(request.stages)
    has_layers = np.any(seconds > 0, axis=(0, 3))
    first, last = has_layers.argmax(axis=1), has_layers.shape[1] - 1 - has_layers[:, ::-1].argmax(axis=1)
    last = np.where(has_layers.any(axis=1), last, 0)
    seconds[:, stages[:-1], last[:-1], Segment.SEND_F] = hop[:, :-1]
    seconds[:, stages[1:], first[1:], Segment.SEND_B] = hop[:, :-1]
    return LayerSegments(seconds=seconds)

"""Scenarios that share their graphs, ready to be priced: segments as cells, stages that are equal as one.

Axes: N scenarios, S virtual stages, C distinct stages, L layers, K segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.alike import parts_alike, plan_costs_s
from autodeploy.schedule.batches import take
from autodeploy.schedule.blocks import BlockGraph, SlotKind
from autodeploy.schedule.costs import LayerSegments
from autodeploy.schedule.graphs import graph_of
from autodeploy.schedule.pricing import SlotCosts
from autodeploy.schedule.request import SimulationRequest
from autodeploy.schedule.segments import COMPUTE, INTER, LANES_OF_KINDS, SEGMENTS, Segment, Structure
from autodeploy.schedule.slots import slot_template
from autodeploy.schedule.templates import LANES, Template
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
SlotShape = tuple[tuple[int, ...], tuple[Structure, ...]]  # (kinds, structures) of the operations of a slot
BLOCK = 128  # scenarios replayed at a time: the arrays of a level stay in cache


@record(eq=False)
class Stages:
    """`of` [S]: which distinct stage each is; `structures` of these, and their `cells` [C, L x K, N], seconds."""

    of: I64
    structures: tuple[Structure, ...]
    cells: F64

    def slots(self, kinds: Iterable[SlotKind]) -> list[SlotKind]:
        """The same with distinct stages."""
        of = self.of.tolist()
        return [(ops, tuple([of[stage] for stage in stages])) for ops, stages in kinds]


@record(eq=False)
class Work:
    """A request of scenarios alike. `ends`: ways to pair micro-batches there, each with its graph; `slots`: the distinct
    slots of all graphs, (kinds, distinct stages); `slot_of[g]` [kinds of graph g]: which of them each kind is. `shapes`: the
    distinct (kinds, structures) of slots, and `shape_of` [slots]: which of them each is."""

    request: SimulationRequest
    ends: tuple[str, ...]
    graphs: tuple[BlockGraph, ...]
    stages: Stages
    slots: tuple[SlotKind, ...]
    slot_of: tuple[I64, ...]
    shapes: tuple[SlotShape, ...]
    shape_of: tuple[int, ...]
    hops_s: F64 | None  # [1 + S, N], row 0 zero; None where transfers hold a lane or take no time

    def templates(self, entry: str | None) -> list[Template]:
        """Of its slots, as the schedule runs them under a lane order; without one nothing overlaps."""
        pairs = SCHEDULE_TABLE[self.request.schedule].pairs
        send_lane = COMPUTE if self.request.p2p_exposed else INTER
        found = [
            slot_template(kinds, own, entry, pairs == "joint" and len(kinds) == 2, pairs == "early", send_lane)
            for kinds, own in self.shapes
        ]
        return [found[shape] for shape in self.shape_of]

    def cells_of_slots(self, first: int = 0) -> I64:
        """Where the stage of each stream of each slot starts among the cells, [slots, 2]."""
        stages = np.array([(*of, of[-1])[:2] for _, of in self.slots])
        return first + stages * self.stages.cells.shape[1]

    def busy_s(self, templates: Sequence[Template]) -> F64:
        """Seconds that each slot keeps each lane, [slots, lanes, N], under the lane order of `templates`."""
        request, cells = self.request, self.stages.cells
        by_segment = cells.reshape(len(cells), -1, SEGMENTS, request.scenarios).sum(axis=1)  # [C, K, N]
        by_kind = np.moveaxis(np.tensordot(LANES_OF_KINDS, by_segment, axes=(2, 1)), 2, 0)  # [C, kinds, lanes, N]
        scale = pair_scale(request)
        busy = np.zeros((len(self.slots), LANES, request.scenarios))
        for slot, ((kinds, stages), template) in enumerate(zip(self.slots, templates, strict=True)):
            for kind, stage in zip(kinds, stages, strict=True):
                busy[slot] += by_kind[stage, kind]
            if request.piece_overhead_s:
                busy[slot] += request.piece_overhead_s * template.cut_nodes()[:, None]
            if scale is not None and len(kinds) == 2:
                busy[slot] *= scale
        return busy

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
    shapes: dict[SlotShape, int] = {}
    of = stages.structures
    shape_of = [shapes.setdefault((kinds, tuple([of[s] for s in own])), len(shapes)) for kinds, own in index]
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
        shapes=tuple(shapes),
        shape_of=tuple(shape_of),
        hops_s=hops,
    )


def _stages(segments: LayerSegments) -> Stages:
    packed = segments.packed()
    stages, layers, kinds, scenarios = packed.shape
    alike: dict[bytes, list[int]] = {}  # distinct stages by what they are in the first scenario
    of = []
    for stage in range(stages):
        found = alike.setdefault(packed[stage, ..., 0].tobytes(), [])
        same = next((one for one in found if (packed[one] == packed[stage]).all()), stage)
        of.append(same)
        if same == stage:
            found.append(stage)
    distinct, index = np.unique(of, return_inverse=True)
    structures = segments.structures()
    return Stages(
        of=index.reshape(-1),
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

"""The parts of a layer as a rank runs them, on three lanes; and the streams (chains of parts) of one operation.

Forward:   attention (compute), dispatch (inter, then intra), experts (compute), combine (intra, then inter).
Backward:  the mirror image; the weight parts apart; recomputed parts before the backward that needs them.
A dense layer, an embedding or a head is a layer with an attention (compute) part only: absent parts leave no node.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.operations import B, F, I, W
from cost_models.records import record

COMPUTE, INTRA, INTER = 0, 1, 2
LANE_NAMES = ("compute", "intra-node", "inter-node")


class Segment(IntEnum):
    """Last axis of `LayerSegments.seconds`."""

    ATTENTION_F = 0
    DISPATCH_INTER_F = 1
    DISPATCH_INTRA_F = 2
    EXPERTS_F = 3
    COMBINE_INTRA_F = 4
    COMBINE_INTER_F = 5
    ATTENTION_R = 6  # R: recomputed in the backward
    DISPATCH_INTER_R = 7
    DISPATCH_INTRA_R = 8
    EXPERTS_R = 9
    COMBINE_INTRA_R = 10
    COMBINE_INTER_R = 11
    COMBINE_INTER_B = 12
    COMBINE_INTRA_B = 13
    EXPERTS_B = 14
    DISPATCH_INTRA_B = 15
    DISPATCH_INTER_B = 16
    ATTENTION_B = 17
    EXPERTS_W = 18
    ATTENTION_W = 19
    SEND_F = 20  # P2P that the sender waits for; set by the simulator, not by the caller
    SEND_B = 21


SEGMENTS = len(Segment)
FORWARD_CHAIN = tuple(Segment(k) for k in range(0, 6))
RECOMPUTE_CHAIN = tuple(Segment(k) for k in range(6, 12))
BACKWARD_CHAIN = tuple(Segment(k) for k in range(12, 18))


def lane_of(segment: int) -> int:
    """Compute, intra-node or inter-node."""
    name = Segment(segment).name
    if "INTER" in name or "SEND" in name:
        return INTER
    return INTRA if "INTRA" in name else COMPUTE


LANE_OF = tuple(lane_of(k) for k in Segment)
IS_EP = tuple("INTER" in k.name or "INTRA" in k.name for k in Segment)
SENDS = frozenset({int(Segment.SEND_F), int(Segment.SEND_B)})
MOE_SEGMENTS = frozenset(k for k in Segment if "ATTENTION" not in k.name and "SEND" not in k.name)


def _lanes_of_kinds() -> NDArray[np.float64]:
    """[kinds, lanes, segments]: 1 where an operation of a kind has a segment, and on which lane."""
    lanes = np.zeros((4, len(LANE_NAMES), SEGMENTS))
    weights, again = (Segment.EXPERTS_W, Segment.ATTENTION_W), (*RECOMPUTE_CHAIN, *BACKWARD_CHAIN, Segment.SEND_B)
    has = {F: (*FORWARD_CHAIN, Segment.SEND_F), B: (*again, *weights), I: again, W: weights}
    for kind, segments in has.items():
        for segment in segments:
            lanes[kind, LANE_OF[segment], segment] = 1.0
    return lanes


LANES_OF_KINDS = _lanes_of_kinds()
Structure = tuple[int, ...]  # of a stage: for each layer a bit mask of the segments it has


class Node(NamedTuple):
    """One segment (or 1/`pieces` of it) of one stream; `after`: indices of nodes that end before it starts."""

    lane: int
    stream: int
    layer: int
    segment: int
    pieces: int
    after: tuple[int, ...]
    entry: bool  # waits for the input of its stream

    def moved(self, first: int) -> Node:
        """The same in the second stream, behind so many nodes of the first."""
        after = tuple([at + first for at in self.after])
        return Node(self.lane, 1, self.layer, self.segment, self.pieces, after, self.entry)


@record(kw_only=False, eq=False)
class Streams:
    """The nodes of a slot's one or two streams, no lane order yet; `exits[j]`: nodes that make the output of stream j."""

    nodes: tuple[Node, ...]
    exits: tuple[tuple[int, ...], ...]

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """[n, 4]: stream, layer x segments + segment, pieces and lane of each node."""
        rows = [(n.stream, n.layer * SEGMENTS + n.segment, n.pieces, LANE_OF[n.segment]) for n in self.nodes]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    @cached_property
    def lanes(self) -> list[int]:
        return [node.lane for node in self.nodes]

    @cached_property
    def followers(self) -> list[list[int]]:
        """For each node those that wait for it."""
        followers: list[list[int]] = [[] for _ in self.nodes]
        for at, node in enumerate(self.nodes):
            for before in node.after:
                followers[before].append(at)
        return followers


@lru_cache(maxsize=4096)
def build_streams(
    kinds: tuple[int, ...], structures: tuple[Structure, ...], pieces: int = 1, early_gradient: bool = False
) -> Streams:
    """Chains of the operations of a slot; `pieces` cuts the all-to-alls and experts of each layer.

    A full backward hands its gradient on when all of it has run, weight parts too (one autograd call), or, with
    `early_gradient`, as soon as its input part has.
    """
    nodes: tuple[Node, ...] = ()
    exits: list[tuple[int, ...]] = []
    for kind, structure in zip(kinds, structures, strict=True):
        own, ends = _chain(kind, structure, pieces, early_gradient)
        first = len(nodes)
        if exits:
            own = tuple([node.moved(first) for node in own])
            ends = tuple([at + first for at in ends])
        nodes += own
        exits.append(ends)
    return Streams(nodes=nodes, exits=tuple(exits))


@lru_cache(maxsize=4096)
def _chain(
    kind: int, structure: Structure, pieces: int, early_gradient: bool
) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """Nodes of an operation alone in its slot, and those that make its output."""
    chain = _Chain(structure, pieces, early_gradient)
    if kind == F:
        chain.forward()
    elif kind in (B, I):
        chain.backward(with_weights=kind == B)
    elif kind == W:
        chain.weights()
    return tuple(chain.nodes), chain.tail if early_gradient or kind != B else chain.everything()


class _Chain:
    """Appends the nodes of an operation; `tail` is what the next node of the chain waits for."""

    def __init__(self, structure: Structure, pieces: int, eager: bool) -> None:
        self.nodes: list[Node] = []
        self.structure, self.pieces = structure, pieces
        self.eager = eager  # recompute need not wait for the gradient
        self.tail: tuple[int, ...] = ()

    def everything(self) -> tuple[int, ...]:
        """Nodes that no other node waits for."""
        waited = {before for node in self.nodes for before in node.after}
        return tuple(at for at in range(len(self.nodes)) if at not in waited)

    def _has(self, layer: int, segment: int) -> bool:
        return bool(self.structure[layer] >> segment & 1)

    def _add(self, layer: int, segment: int, after: tuple[int, ...], entry: bool, pieces: int = 1) -> int:
        self.nodes.append(Node(LANE_OF[segment], 0, layer, segment, pieces, after, entry))
        return len(self.nodes) - 1

    def _run(self, layer: int, chain: tuple[Segment, ...], tail: tuple[int, ...], entry: bool) -> tuple[int, ...]:
        """Adds the present segments of `chain`; the MoE ones in `pieces` parallel rows, joined at the end."""
        for cut, group in _split_moe(chain, self.structure[layer]):
            rows = self.pieces if cut else 1
            row_tails: list[tuple[int, ...]] = [tail] * rows
            for segment in group:
                for row in range(rows):
                    node = self._add(layer, segment, row_tails[row], entry and not row_tails[row], rows)
                    row_tails[row] = (node,)
            tail = tuple(dict.fromkeys(n for row_tail in row_tails for n in row_tail))
        return tail

    def forward(self) -> None:
        last = len(self.structure) - 1
        for layer in range(last + 1):
            self.tail = self._run(layer, FORWARD_CHAIN, self.tail, entry=True)
        self._send(last, Segment.SEND_F)

    def backward(self, with_weights: bool) -> None:
        for layer in range(len(self.structure) - 1, -1, -1):
            recomputed = self._run(layer, RECOMPUTE_CHAIN, (), entry=not self.eager)
            made_from = len(self.nodes)
            self.tail = self._run(layer, BACKWARD_CHAIN, self.tail, entry=True)
            if recomputed:
                self._wait_for(recomputed, made_from)
            if with_weights:
                self._weights_of(layer, made_from)
        self._send(0, Segment.SEND_B)

    def _wait_for(self, recomputed: tuple[int, ...], made_from: int) -> None:
        """The compute nodes of the backward need what was recomputed; the gradients on the wire do not."""
        for index in range(made_from, len(self.nodes)):
            node = self.nodes[index]
            if node.lane == COMPUTE:
                after = node.after + tuple(r for r in recomputed if r not in node.after)
                self.nodes[index] = node._replace(after=after)

    def _weights_of(self, layer: int, made_from: int) -> None:
        made = range(made_from, len(self.nodes))
        for weight, needs in ((Segment.EXPERTS_W, Segment.EXPERTS_B), (Segment.ATTENTION_W, Segment.ATTENTION_B)):
            if self._has(layer, weight):
                after = tuple(n for n in made if self.nodes[n].segment == needs)
                self._add(layer, weight, after or self.tail, entry=not (after or self.tail))

    def weights(self) -> None:
        for layer in range(len(self.structure) - 1, -1, -1):
            for weight in (Segment.EXPERTS_W, Segment.ATTENTION_W):
                if self._has(layer, weight):
                    self.tail = (self._add(layer, weight, self.tail, entry=False),)

    def _send(self, layer: int, segment: Segment) -> None:
        if self.structure and self._has(layer, segment):
            node = self._add(layer, segment, self.tail, entry=not self.tail)
            self.tail = (node,)


@lru_cache(maxsize=1024)
def _split_moe(chain: tuple[Segment, ...], mask: int) -> tuple[tuple[bool, tuple[int, ...]], ...]:
    """Runs of the segments of `mask` that are cut in pieces (True: expert parts with communication) and that are not."""
    groups: list[tuple[bool, list[int]]] = []
    for segment in chain:
        if mask >> segment & 1:
            moe = segment in MOE_SEGMENTS
            if groups and groups[-1][0] == moe:
                groups[-1][1].append(int(segment))
            else:
                groups.append((moe, [int(segment)]))
    return tuple((moe and any(LANE_OF[s] != COMPUTE for s in group), tuple(group)) for moe, group in groups)

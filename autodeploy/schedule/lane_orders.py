"""The catalogue of lane orders of Adaptive Pipe, and the list scheduler that finds them.

A lane order of a slot is the sequence in which its nodes take their lanes. Each entry of the catalogue is a priority
rule with nominal durations: list scheduling of the slot under them gives the sequence, which is then kept, whatever the
real durations are. Which entry suits a strategy is decided on its own durations (`choose.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush

from autodeploy.schedule.operations import F, I, W
from autodeploy.schedule.segments import (
    COMPUTE,
    INTER,
    INTRA,
    IS_EP,
    RECOMPUTE_CHAIN,
    Node,
    Segment,
    Streams,
    Structure,
    build_streams,
)
from cost_models.records import record

WEIGHTS = frozenset({int(Segment.EXPERTS_W), int(Segment.ATTENTION_W)})
RECOMPUTE_MASK = sum(1 << segment for segment in RECOMPUTE_CHAIN)
EP_MASK = sum(1 << segment for segment in Segment if IS_EP[segment])
EACH_LANE = (COMPUTE, INTRA, INTER)
COMPUTE_UNITS: dict[int, float] = {
    Segment.EXPERTS_F: 0.8,
    Segment.EXPERTS_B: 0.8,
    Segment.EXPERTS_R: 0.8,
    Segment.EXPERTS_W: 0.8,
}


@record
class LaneOrder:
    """One entry. `lead`: the stream served first when both can go (None: the one with more left to do).

    `communication_frac`: nominal time of one direction of all-to-all over the attention of one layer; `pieces`: into
    how many parts the all-to-alls and experts are cut; `whole_streams`: no finer than a chunk, stream after stream.
    """

    name: str
    cut: str
    lead: int | None
    communication_frac: float
    pieces: int = 1
    whole_streams: bool = False
    as_recomputed: bool = False


def _catalogue() -> tuple[LaneOrder, ...]:
    """Chosen so that the best entry is within 0.1% on average of the best lane order there is (see the tests).

    A long nominal all-to-all puts the experts' weight part before the forward's experts, a short one after.
    """
    whole = LaneOrder(name="chunk", cut="chunk", lead=0, communication_frac=0.5, whole_streams=True)
    fine = [
        LaneOrder(name=f"sub-layer-{nominal}", cut="sub-layer", lead=None, communication_frac=nominal)
        for nominal in (0.3, 1.0, 1.6)
    ]
    pieces = [
        LaneOrder(name=f"pieces-{parts}-{nominal}", cut="pieces", lead=None, communication_frac=nominal, pieces=parts)
        for parts, nominal in ((2, 1.6), (4, 1.6))
    ]
    recomputed = [
        LaneOrder(name=f"recomputed-{x}", cut="sub-layer", lead=None, communication_frac=x, as_recomputed=True)
        for x in (0.3, 1.0, 1.6)
    ]
    return (whole, *fine, *pieces, *recomputed)


CATALOGUE = _catalogue()


def same_as(name: str, kinds: tuple[int, ...], structures: tuple[Structure, ...]) -> str:
    """The plainest entry of the same sequence: recompute that is there need not be thought of, nor can what has no expert
    communication be cut; and what is a line of nodes goes as it comes."""
    entry = lane_order(name)
    masks = [mask for structure in structures for mask in structure]
    recomputed = entry.as_recomputed and all(_with_recompute(mask) == mask for mask in masks)
    uncut = entry.pieces > 1 and not any(mask & EP_MASK for mask in masks)
    whole = entry.pieces == 1 or uncut
    in_line = kinds == (F,) or (kinds == (I,) and not any(mask & RECOMPUTE_MASK for mask in masks))
    if kinds == (W,) or (in_line and whole):
        return "chunk"
    return f"sub-layer-{entry.communication_frac}" if recomputed or uncut else name


def lane_order(name: str) -> LaneOrder:
    """The catalogue entry of that name."""
    for entry in CATALOGUE:
        if entry.name == name:
            return entry
    raise KeyError(f"lane order {name!r}: one of {', '.join(e.name for e in CATALOGUE)}")


@lru_cache(maxsize=4096)
def ordered_streams(
    kinds: tuple[int, ...], structures: tuple[Structure, ...], entry: LaneOrder, early_gradient: bool = True
) -> tuple[Streams, tuple[int, ...]]:
    """The nodes of a slot and the sequence in which they take the lanes."""
    if len(kinds) == 2 and (kinds[0] == F) == (kinds[1] == F):  # one direction: the first micro-batch must not be late
        entry = replace(entry, lead=0, whole_streams=False)
    streams = build_streams(kinds, structures, entry.pieces, early_gradient)
    if entry.whole_streams:
        return streams, tuple(range(len(streams.nodes)))
    if not entry.as_recomputed:
        return streams, list_schedule(streams, entry)
    longer = tuple(tuple(_with_recompute(mask) for mask in structure) for structure in structures)
    more = build_streams(kinds, longer, entry.pieces, early_gradient)
    place = {_name(more.nodes[n]): at for at, n in enumerate(list_schedule(more, entry))}
    return streams, tuple(sorted(range(len(streams.nodes)), key=lambda n: place[_name(streams.nodes[n])]))


def _with_recompute(mask: int) -> int:
    """The segments of a layer, and the attention once more in the backward where it has one."""
    return mask | 1 << Segment.ATTENTION_R if mask >> Segment.ATTENTION_B & 1 else mask


def _name(node: Node) -> tuple[int, int, int]:
    return node.stream, node.layer, node.segment


def nominal_s(node: Node, entry: LaneOrder) -> float:
    """Nominal duration in units of one layer's attention forward."""
    if node.lane == COMPUTE:
        return COMPUTE_UNITS.get(node.segment, 1.0) / node.pieces
    return entry.communication_frac * (0.75 if node.lane == INTER else 0.25) / node.pieces


def list_schedule(streams: Streams, entry: LaneOrder) -> tuple[int, ...]:
    """Greedy: the node that can start first goes next; ties and near ties by the rule of the entry.

    Each lane keeps the nodes that it could take now, by the rule, and those that come later, by their time.
    """
    nodes, lanes, followers = streams.nodes, streams.lanes, streams.followers
    length = [nominal_s(node, entry) for node in nodes]
    by_rule = _by_rule(nodes, length, entry)
    place = [0] * len(nodes)
    for at, node in enumerate(by_rule):
        place[node] = at
    missing, ready_s, free_s = [len(node.after) for node in nodes], [0.0] * len(nodes), [0.0, 0.0, 0.0]
    now: tuple[list[int], ...] = ([], [], [])  # places by the rule
    later: tuple[list[tuple[float, int]], ...] = ([], [], [])
    for at, count in enumerate(missing):
        if not count:
            heappush(now[lanes[at]], place[at])
    sequence: list[int] = []
    while len(sequence) < len(nodes):
        start, first = min([(free_s[k], now[k][0]) if now[k] else later[k][0] for k in EACH_LANE if now[k] or later[k]])
        best = by_rule[first]
        lane = lanes[best]
        if now[lane]:
            heappop(now[lane])
        else:
            heappop(later[lane])
        end = start + length[best]
        free_s[lane] = free = round(end, 9)
        while later[lane] and later[lane][0][0] <= free:
            heappush(now[lane], heappop(later[lane])[1])
        sequence.append(best)
        for after in followers[best]:
            missing[after] -= 1
            if end > ready_s[after]:
                ready_s[after] = end
            if not missing[after]:
                lane, at_s = lanes[after], round(ready_s[after], 9)
                if at_s <= free_s[lane]:
                    heappush(now[lane], place[after])
                else:
                    heappush(later[lane], (at_s, place[after]))
    return tuple(sequence)


def _by_rule(nodes: tuple[Node, ...], length: list[float], entry: LaneOrder) -> list[int]:
    """Weight parts last, the leading stream first, the longer tail first; then as they come."""
    tails, lead = _tails(nodes, length), entry.lead
    rules = [
        (node.segment in WEIGHTS, 0 if lead is None else int(node.stream != lead), -tails[at], at)
        for at, node in enumerate(nodes)
    ]
    return [rule[-1] for rule in sorted(rules)]


def _tails(nodes: tuple[Node, ...], length: list[float]) -> list[float]:
    """Longest path from the start of each node to the end of the slot."""
    tails = list(length)
    for at in range(len(nodes) - 1, -1, -1):
        tail = tails[at]
        for before in nodes[at].after:
            if length[before] + tail > tails[before]:
                tails[before] = length[before] + tail
    return tails

"""A slot as a small max-plus machine: what it reads (lane clocks, stream inputs), its nodes, what it writes.

The times of a slot are a max-plus linear function of D = 5 inputs: the clocks of the three lanes, and the arrivals of
its two streams. `pricing.py` computes that function once per kind of slot, so a step is replayed slot by slot and still
gives exactly the times of every segment; `node_ends_s` recovers those when asked for.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.segments import COMPUTE, SENDS, Node, Streams
from cost_models.records import record

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
LANES = 3
INPUTS = LANES + 2  # compute, intra, inter clocks; arrivals of stream 0 and stream 1
NEVER = INPUTS  # row of what nothing waits for
FIRST_NODE = INPUTS + 1
WAITS, EXITS = 2, 2  # columns that the arrays of a template have, where more are not needed

Rows = tuple[int, ...]  # of what ends: inputs, `NEVER`, nodes


@record(eq=False)
class NodeArrays:
    """The nodes of a template as index arrays, [n] each."""

    level: I64  # how many nodes wait for one another before it
    waits: I64  # [n, W] rows, padded with NEVER
    count: I64  # of the waits
    exits: I64  # [INPUTS, X] rows, padded with NEVER
    stream: I64
    cell: I64  # layer x segments + segment
    pieces: I64
    lane: I64


@record(kw_only=False, eq=False)
class Template:
    """Nodes of `streams` in evaluation order, `sequence`. `waits`: the rows that each node waits for, without those that
    another of them waits for in turn; `exits`: the rows whose latest makes each output; `uses`: inputs that the slot reads
    or changes."""

    streams: Streams
    sequence: tuple[int, ...]
    waits: tuple[Rows, ...]
    level: tuple[int, ...]
    exits: tuple[Rows, ...]
    uses: frozenset[int]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.streams.nodes[n] for n in self.sequence)

    @property
    def paired(self) -> bool:
        """Of two streams."""
        return len(self.streams.exits) == 2

    @cached_property
    def arrays(self) -> NodeArrays:
        stream, cell, pieces, lane = self.streams.columns[list(self.sequence)].T
        return NodeArrays(
            level=np.array(self.level, dtype=np.int64),
            waits=_padded(self.waits, WAITS),
            count=np.array([len(rows) for rows in self.waits], dtype=np.int64),
            exits=_padded(self.exits, EXITS),
            stream=stream,
            cell=cell,
            pieces=pieces,
            lane=lane,
        )

    def cut_nodes(self) -> I64:
        """How many nodes of each lane are parts of one, [lanes]."""
        return np.bincount(self.arrays.lane[self.arrays.pieces > 1], minlength=LANES)


def _padded(rows: tuple[Rows, ...], least: int) -> I64:
    """[rows, columns], at least so many of them, which is enough for all but odd slots."""
    columns = max([least, *map(len, rows)])
    never = (NEVER,) * columns
    return np.array([(*row, *never[len(row) :]) for row in rows], dtype=np.int64).reshape(len(rows), columns)


def make_template(
    streams: Streams, sequence: tuple[int, ...], blocking: bool, joint: bool = False, send_lane: int = COMPUTE
) -> Template:
    """Fixes lane orders: each lane serves its nodes as they stand in `sequence` (a topological order).

    `blocking`: communication holds the compute lane (no overlap). `joint`: both streams start when both inputs are
    there and end together, as DualPipe's F&B. `send_lane`: the lane that P2P sends hold.
    """
    lane_row = list(range(LANES))  # what a lane is free after
    row_of = [0] * len(sequence)
    before = [0] * FIRST_NODE  # rows that end before each row, as bits
    waits: list[Rows] = []
    level = [-1] * FIRST_NODE
    for row, n in enumerate(sequence, FIRST_NODE):
        node = streams.nodes[n]
        queue = COMPUTE if blocking else send_lane if node.segment in SENDS else node.lane
        rows = [lane_row[queue], *[row_of[b] for b in node.after]]
        if node.entry:
            rows.append(LANES + node.stream)
        if joint and not waits:
            rows += range(LANES, LANES + len(streams.exits))
        kept = _needed(rows, before)
        implied, deepest = 0, 0
        for each in kept:
            implied |= before[each] | 1 << each
            if level[each] >= deepest:
                deepest = level[each] + 1
        lane_row[queue] = row_of[n] = row
        before.append(implied)
        level.append(deepest)
        waits.append(kept)
    lanes = frozenset(lane for lane, row in enumerate(lane_row) if row >= FIRST_NODE)
    return Template(
        streams=streams,
        sequence=sequence,
        waits=tuple(waits),
        level=tuple(level[FIRST_NODE:]),
        exits=(*[(row,) for row in lane_row], *_stream_exits(streams, row_of, joint)),
        uses=lanes | {LANES + stream for stream in range(len(streams.exits))},
    )


def _needed(rows: list[int], before: list[int]) -> Rows:
    """Those that no other of them comes after."""
    first = rows[0]
    if len(rows) == 1:
        return (first,)
    if len(rows) == 2:
        second = rows[1]
        if first == second or before[first] >> second & 1:
            return (first,)
        return (second,) if before[second] >> first & 1 else (first, second)
    implied = 0
    for row in rows:
        implied |= before[row]
    return tuple([row for row in dict.fromkeys(rows) if not implied >> row & 1])


def _stream_exits(streams: Streams, row_of: list[int], joint: bool) -> list[Rows]:
    """Rows whose latest makes the output of each stream: its input where it has no nodes, and of no stream never."""
    ends = [tuple(row_of[n] for n in exits) for exits in streams.exits]
    if joint:
        ends = [tuple(sorted(set().union(*ends)))] * len(ends)
    found = [rows or (LANES + stream,) for stream, rows in enumerate(ends)]
    return found + [(NEVER,)] * (INPUTS - LANES - len(found))


def node_ends_s(template: Template, durations_s: list[F64], inputs_s: list[F64]) -> list[F64]:
    """End of each node; `durations_s[n]` and `inputs_s[j]` broadcast together, say to [T, N]."""
    ends = [*inputs_s, np.zeros(0)]  # the latter: nothing waits for it
    for rows, duration in zip(template.waits, durations_s, strict=True):
        start = ends[rows[0]]
        for row in rows[1:]:
            start = np.maximum(start, ends[row])
        ends.append(start + duration)
    return ends[FIRST_NODE:]

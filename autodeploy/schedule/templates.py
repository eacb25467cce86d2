"""A slot as a small max-plus machine: what it reads (lane clocks, stream inputs), its nodes, what it writes.

The times of a slot are a max-plus linear function of D = 5 inputs: the clocks of the three lanes, and the arrivals of
its two streams. `pricing.py` computes that function once per kind of slot, so a step is replayed slot by slot and still
gives exactly the times of every segment; `node_ends_s` recovers those when asked for.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.segments import COMPUTE, LANE_OF, SEGMENTS, SENDS, Node, Streams
from cost_models.records import record

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
LANES = 3
INPUTS = LANES + 2  # compute, intra, inter clocks; arrivals of stream 0 and stream 1
NEVER = INPUTS  # row of what nothing waits for
FIRST_NODE = INPUTS + 1
WAITS, EXITS = 2, 2  # columns that the arrays of a template have


@record(eq=False)
class NodeArrays:
    """The nodes of a template as index arrays, [n] each; what they wait for as rows: inputs, `NEVER`, nodes.

    A wait that another wait implies is left out; `level`: how many nodes wait for one another before it.
    """

    level: I64
    waits: I64  # [n, W], padded with NEVER
    count: I64  # of the waits
    exits: I64  # [INPUTS, X], rows whose latest makes each output, padded with NEVER
    stream: I64
    cell: I64  # layer x segments + segment
    pieces: I64
    lane: I64


@record(kw_only=False, eq=False)
class Template:
    """Nodes in evaluation order. `queue[n]` is the lane whose order node n keeps (all compute when blocking)."""

    nodes: tuple[Node, ...]
    queue: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]  # for each node: positions of the nodes it waits for, its lane's last included
    reads: tuple[tuple[int, ...], ...]  # for each node: inputs (0..4) it waits for
    lane_last: tuple[int, ...]  # last node of each lane, -1 if the slot leaves the lane alone
    exits: tuple[tuple[int, ...], ...]

    @cached_property
    def uses(self) -> frozenset[int]:
        """Inputs that the slot reads or changes."""
        return frozenset({*self.queue, *(LANES + stream for stream in range(len(self.exits)))})

    def cut_nodes(self) -> I64:
        """How many nodes of each lane are parts of one, [lanes]."""
        return np.bincount(self.arrays.lane[self.arrays.pieces > 1], minlength=LANES)

    @cached_property
    def arrays(self) -> NodeArrays:
        waits, level = _needed_waits(self)
        of_node = [(n.stream, n.layer * SEGMENTS + n.segment, n.pieces, LANE_OF[n.segment]) for n in self.nodes]
        stream, cell, pieces, lane = np.array(of_node, dtype=np.int64).reshape(-1, 4).T
        return NodeArrays(
            level=np.array(level, dtype=np.int64),
            waits=_padded(waits, WAITS),
            count=np.array([len(rows) for rows in waits], dtype=np.int64),
            exits=_padded(_exit_rows(self), EXITS),
            stream=stream,
            cell=cell,
            pieces=pieces,
            lane=lane,
        )


def _needed_waits(template: Template) -> tuple[list[list[int]], list[int]]:
    """Rows that each node waits for, without those that another of them waits for in turn; and the levels."""
    before: list[int] = [0] * FIRST_NODE  # rows before each row, as bits
    waits: list[list[int]] = []
    level: list[int] = []
    for after, read in zip(template.waits, template.reads, strict=True):
        rows = [*read, *(FIRST_NODE + n for n in after)]
        implied = 0
        for row in rows:
            implied |= before[row]
        kept = [row for row in rows if not implied >> row & 1]
        for row in kept:
            implied |= 1 << row
        before.append(implied)
        waits.append(kept)
        level.append(1 + max((level[row - FIRST_NODE] for row in kept if row > NEVER), default=-1))
    return waits, level


def _exit_rows(template: Template) -> list[list[int]]:
    """Rows whose latest makes each output: an output that nothing changes is the input."""
    lanes = [[lane if last < 0 else FIRST_NODE + last] for lane, last in enumerate(template.lane_last)]
    streams = [[FIRST_NODE + n for n in nodes] or [LANES + j] for j, nodes in enumerate(template.exits)]
    return lanes + streams + [[LANES + j] for j in range(len(streams), INPUTS - LANES)]


def _padded(rows: list[list[int]], least: int) -> I64:
    """[rows, columns], at least so many of them, which is enough for all but odd slots."""
    widest = max((len(row) for row in rows), default=0)
    columns = max(widest, least)
    return np.array([row + [NEVER] * (columns - len(row)) for row in rows], dtype=np.int64).reshape(len(rows), columns)


def make_template(
    streams: Streams, sequence: tuple[int, ...], blocking: bool, joint: bool = False, send_lane: int = COMPUTE
) -> Template:
    """Fixes lane orders: each lane serves its nodes as they stand in `sequence` (a topological order).

    `blocking`: communication holds the compute lane (no overlap). `joint`: both streams start when both inputs are
    there and end together, as DualPipe's F&B. `send_lane`: the lane that P2P sends hold.
    """
    position = {node: at for at, node in enumerate(sequence)}
    nodes = tuple(streams.nodes[n] for n in sequence)
    queue = tuple(COMPUTE if blocking else send_lane if n.segment in SENDS else n.lane for n in nodes)
    lane_last = [-1] * LANES
    waits, reads = [], []
    for at, node in enumerate(nodes):
        after = {position[n] for n in node.after}
        read = {LANES + node.stream} if node.entry else set()
        if joint and at == 0:
            read |= {LANES + stream for stream in range(len(streams.exits))}
        if lane_last[queue[at]] >= 0:
            after.add(lane_last[queue[at]])
        else:
            read.add(queue[at])
        lane_last[queue[at]] = at
        waits.append(tuple(sorted(after)))
        reads.append(tuple(sorted(read)))
    ends = [tuple(position[n] for n in exits) for exits in streams.exits]
    if joint:
        ends = [tuple(sorted(set().union(*ends)))] * len(ends)
    return Template(nodes, queue, tuple(waits), tuple(reads), tuple(lane_last), tuple(ends))


def node_ends_s(template: Template, durations_s: list[F64], inputs_s: list[F64]) -> list[F64]:
    """End of each node; `durations_s[n]` and `inputs_s[j]` broadcast together, say to [T, N]."""
    ends: list[F64] = []
    for at, duration in enumerate(durations_s):
        sources = [ends[n] for n in template.waits[at]] + [inputs_s[j] for j in template.reads[at]]
        start = sources[0]
        for source in sources[1:]:
            start = np.maximum(start, source)
        ends.append(start + duration)
    return ends

"""A slot as a small max-plus machine: what it reads (lane clocks, stream inputs), its nodes, what it writes.

The times of a slot are a max-plus linear function of D = 5 inputs: the clocks of the three lanes, and the arrivals of
its two streams. `transfer_matrix` computes that function once per kind of slot, so a step is replayed slot by slot and
still gives exactly the times of every segment; `node_ends_s` recovers those when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.segments import COMPUTE, SENDS, Node, Streams

F64 = NDArray[np.float64]
LANES = 3
INPUTS = LANES + 2  # compute, intra, inter clocks; arrivals of stream 0 and stream 1
ABSENT = -np.inf


@dataclass(frozen=True, slots=True)
class Template:
    """Nodes in evaluation order. `queue[n]` is the lane whose order node n keeps (all compute when blocking)."""

    nodes: tuple[Node, ...]
    queue: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]  # for each node: positions of the nodes it waits for, its lane's last included
    reads: tuple[tuple[int, ...], ...]  # for each node: inputs (0..4) it waits for
    lane_last: tuple[int, ...]  # last node of each lane, -1 if the slot leaves the lane alone
    exits: tuple[tuple[int, ...], ...]


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


def transfer_matrix(template: Template, durations_s: list[F64]) -> F64:
    """[T, out, in, N]: seconds from each input to each output, -inf where the output does not depend on the input."""
    types, scenarios = durations_s[0].shape
    inputs = []
    for j in range(INPUTS):
        unit = np.full((types, INPUTS, scenarios), ABSENT)
        unit[:, j] = 0.0
        inputs.append(unit)
    ends = node_ends_s(template, [d[:, None, :] for d in durations_s], inputs)
    matrix = np.full((types, INPUTS, INPUTS, scenarios), ABSENT)
    for lane in range(LANES):
        matrix[:, lane] = inputs[lane] if template.lane_last[lane] < 0 else ends[template.lane_last[lane]]
    for stream, exits in enumerate(template.exits):
        matrix[:, LANES + stream] = inputs[LANES + stream] if not exits else ends[exits[0]]
        for node in exits[1:]:
            np.maximum(matrix[:, LANES + stream], ends[node], out=matrix[:, LANES + stream])
    return matrix

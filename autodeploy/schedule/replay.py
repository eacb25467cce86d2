"""Times of every slot of many graphs: longest paths, level by level, the slots of one level of all graphs together.

Axes: W columns (scenarios, or lane orders of a scenario), D inputs and outputs of a slot, R rows of all graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph
from autodeploy.schedule.templates import LANES
from cost_models.records import record

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@record(eq=False)
class Run:
    """One graph to replay: `slot` [kinds], where among the matrices each of its slot kinds is; `hops_s` [1 + S, W] seconds of
    each hop, row 0 zero, None where no transfer delays a receiver."""

    graph: BlockGraph
    slot: I64
    hops_s: F64 | None


def replay(runs: Sequence[Run], matrix: F64, inputs: Sequence[int]) -> tuple[F64, list[I64]]:
    """State after each slot, [D, R, W]: lane clocks and stream outputs among `inputs`; and the rows of each run [1 + B], of
    which the first is the start of the step. `matrix` [D in, D out, slots, W]."""
    rows = _Rows(runs, inputs)
    scenarios = matrix.shape[-1]
    state = np.zeros((len(inputs), rows.count, scenarios))
    flat = state.reshape(-1, scenarios)  # one row per output and slot
    lanes = sum(j < LANES for j in inputs)
    hops = rows.hops(len(inputs) - lanes)
    for low, high in zip(rows.level_at[:-1].tolist(), rows.level_at[1:].tolist(), strict=True):
        found = flat.take(rows.read[:, low:high], axis=0)
        if hops is not None:
            found[lanes:] += hops[1].take(hops[0][:, low:high], axis=0)
        moved = matrix.take(rows.slot[low:high], axis=2)
        moved += found[:, None]
        state[:, low:high] = np.maximum.reduce(moved, axis=0)
    return state, rows.of_run


class _Rows:
    """Slots of all runs sorted by level; row 0 is the start of the step, for all of them."""

    def __init__(self, runs: Sequence[Run], inputs: Sequence[int]) -> None:
        self.runs, graphs = runs, [run.graph for run in runs]
        before = np.cumsum([0, *(len(graph) for graph in graphs)])
        self.count = int(before[-1]) + 1
        self.order, self.level_at = _by_level(graphs)
        row_of = np.empty(self.count, dtype=np.int64)
        row_of[self.order] = np.arange(self.count)
        self.of_run = [np.r_[0, row_of[low + 1 : high + 1]] for low, high in pairwise(before.tolist())]
        lanes = sum(j < LANES for j in inputs)
        previous = row_of[self._sorted([_moved(g.previous, at) for g, at in zip(graphs, before, strict=False)])]
        read = [lane * self.count + previous for lane in range(lanes)]
        for j in (j - LANES for j in inputs if j >= LANES):
            source = row_of[self._sorted([_moved(g.source[:, j], at) for g, at in zip(graphs, before, strict=False)])]
            output = lanes + self._sorted([g.source_stream[:, j] for g in graphs])
            read.append(output * self.count + source)
        self.read = np.stack(read)
        self.slot = self._sorted([run.slot[run.graph.kind] for run in runs])

    def _sorted(self, of_graphs: Sequence[NDArray[np.integer]]) -> I64:
        """Values of the slots of each graph, by row."""
        return np.concatenate([[0], *of_graphs])[self.order]

    def hops(self, streams: int) -> tuple[I64, F64] | None:
        """Row of each stream's hop by row [streams, R], and seconds of all hops; None where nothing is delayed."""
        if all(run.hops_s is None for run in self.runs):
            return None
        none = np.zeros((1, next(run.hops_s.shape[1] for run in self.runs if run.hops_s is not None)))
        seconds = [none if run.hops_s is None else run.hops_s for run in self.runs]
        at = np.cumsum([0, *(len(s) for s in seconds)])
        rows = [
            self._sorted(
                [run.graph.hop[:, j] * (run.hops_s is not None) + a for run, a in zip(self.runs, at, strict=False)]
            )
            for j in range(streams)
        ]
        return np.stack(rows), np.concatenate(seconds)


def _by_level(graphs: Sequence[BlockGraph]) -> tuple[I64, I64]:
    """Rows of all graphs in order of level, 0 first; and the first row of each level."""
    if len(graphs) == 1:
        return np.arange(len(graphs[0]) + 1), graphs[0].level_at
    level = np.concatenate([np.repeat(np.arange(len(g.level_at) - 1), np.diff(g.level_at)) for g in graphs])
    small = level.astype(np.int16) if level.max() < 2**15 else level  # sorted by radix
    order = np.concatenate([[0], 1 + np.argsort(small, kind="stable")])
    return order, np.concatenate([[1], 1 + np.cumsum(np.bincount(level))])


def _moved(slots: I32, at: int) -> I32:
    """Slots of one graph among those of all: 0 stays the start of the step."""
    return np.where(slots > 0, slots + at, 0)

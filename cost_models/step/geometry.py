"""Which stages and ranks a batch has: those that hold the same layers are one, padded to the most of any strategy.

What a stage costs depends on its layers, and what a rank holds on its stages: of a pipeline of 64 ranks a handful differ.
Where every rank is to be told apart (a replay, a list by rank) the geometry is whole.

Axes: N strategies, G geometries, S distinct stages, P distinct ranks, V chunks, C columns of the price list.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.schedules.facts import PLACEMENTS, Placement
from cost_models.strategies import F64, I64, Bool, Layout, StrategyBatch


@record(eq=False)
class LayoutGeometry:
    """Of one layout under one placement."""

    pp: int
    vpp: int
    placement: Placement
    stage: I64  # [pp * vpp] distinct stage of each virtual stage
    rank: I64  # [pp] distinct rank of each pipeline rank
    by_kind: I64  # [pp] pipeline ranks, those alike beside each other
    kind_starts: I64  # [P] where each distinct rank begins among them
    counts: F64  # [C, S] layers of each column
    layers_in_all: F64  # [C]
    held: I64  # [V, P] distinct stage of each chunk of a rank
    onto: F64  # [S, P] chunks of each stage on each rank
    work: F64  # [S, P] the same of what a rank works on: fed from both ends, half of two stages
    mirror: I64  # [P] the rank fed from the other end, else itself
    ahead: F64  # [S, P] first chunks of the ranks before the first of its kind
    behind: F64  # [S, P] the same before the last of its kind, by the shorter way where both ends are fed


@lru_cache(maxsize=8192)
def layout_geometry(layout: Layout, placement: Placement, whole: bool) -> LayoutGeometry:
    """``whole``: every stage and every rank apart."""
    pp, vpp = layout.pp, layout.vpp
    count = pp * vpp
    stage = np.arange(count) if whole else _numbered([row.tobytes() for row in layout.counts])
    stages = int(stage.max()) + 1
    chunks = stage[_stage_of_chunk(pp, vpp, placement)]  # [V, pp]
    apart = whole or placement == "both-ends"  # how much of either end a rank holds depends on its place
    rank = np.arange(pp) if apart else _numbered([chunks[:, r].tobytes() for r in range(pp)])
    ranks = int(rank.max()) + 1
    by_kind = np.argsort(rank, kind="stable")
    starts = np.searchsorted(rank[by_kind], np.arange(ranks))
    first, last = by_kind[starts], by_kind[np.append(starts[1:], pp) - 1]
    held = chunks[:, first]
    onto = np.zeros((stages, ranks))
    np.add.at(onto, (held, np.arange(ranks)[None, :]), 1.0)
    both = placement == "both-ends"
    mirror = np.arange(ranks)[::-1] if both else np.arange(ranks)
    chunk = (np.arange(stages)[:, None] == stage[:pp]).astype(float)
    before = np.cumsum(chunk, axis=1) - chunk  # first chunks of the ranks before each rank
    behind = before[:, last]
    if both:
        behind = before[:, np.minimum(last, pp - 1 - last)]
    counts = np.zeros((layout.counts.shape[1], stages))
    counts[:, stage] = layout.counts.T
    return LayoutGeometry(
        pp=pp, vpp=vpp, placement=placement, stage=stage, rank=rank, by_kind=by_kind, kind_starts=starts, counts=counts,
        layers_in_all=layout.counts.sum(axis=0), held=held, onto=onto,
        work=(onto + onto[:, mirror]) / 2.0, mirror=mirror, ahead=before[:, first], behind=behind,
    )  # fmt: skip


def _numbered(keys: Sequence[Hashable]) -> I64:
    """A number for each distinct key, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _stage_of_chunk(pp: int, vpp: int, placement: Placement) -> I64:
    """Virtual stage of each chunk of each rank, [V, pp]."""
    stages = np.arange(pp * vpp).reshape(vpp, pp)
    if placement == "v":
        stages[1::2] = stages[1::2, ::-1].copy()
    return stages


@record(eq=False)
class Geometry:
    """Of every strategy of a batch: ``of`` [N] says which of ``each`` [G]."""

    of: I64
    each: tuple[LayoutGeometry, ...]
    counts: F64  # [G, C, S]
    layers_in_all: F64  # [G, C]
    onto: F64  # [G, S, P]
    work: F64  # [G, S, P]
    ahead: F64  # [G, S, P] nought where a V comes back
    behind: F64  # [G, S, P]
    present: Bool  # [G, P, C] columns of which a rank holds layers
    mirror: I64  # [G, P]
    runs: tuple[tuple[int, int, int], ...] = ()  # stretches of one geometry: start, end, which; empty: not looked for

    @property
    def ranks(self) -> int:
        return int(self.onto.shape[2])

    @property
    def layers(self) -> F64:
        """Decoder layers of each stage, [N, S] or [1, S]."""
        return self.each_row(self.counts[:, :-3].sum(axis=1))

    @property
    def rank_counts(self) -> F64:
        """Layers of each column that a rank works on, [G, P, C]."""
        return np.asarray(np.matmul(self.counts, self.work).transpose(0, 2, 1))

    def take(self, rows: I64) -> Geometry:
        """Some of the strategies."""
        return replace(self, of=self.of[rows], runs=())

    def in_order(self) -> Geometry:
        """Of strategies alike beside alike: without geometries that none has, and faster to contract."""
        used, of = np.unique(self.of, return_inverse=True)
        ends = np.flatnonzero(np.diff(of.reshape(-1), append=-1)) + 1
        starts = np.concatenate([[0], ends[:-1]])
        runs = tuple(zip(starts.tolist(), ends.tolist(), of.reshape(-1)[starts].tolist(), strict=True))
        return replace(_geometry(tuple(self.each[g] for g in used), of.reshape(-1)), runs=runs)

    def repeated(self, count: int) -> Geometry:
        """All strategies once more, ``count`` times in all."""
        if count == 1:
            return self
        size = len(self.of)
        runs = tuple((start + k * size, end + k * size, g) for k in range(count) for start, end, g in self.runs)
        few = len(runs) * LONG <= size * count
        return replace(self, of=np.tile(self.of, count), runs=runs if few else ())

    def over_all_stages(self, per_column: F64) -> F64:
        """[N, C] of a layer of each column -> [N], of the whole model."""
        return np.asarray((per_column * self.each_row(self.layers_in_all)).sum(axis=1))

    def every_stage(self) -> I64:
        """Of strategies with as many stages: the distinct stage of each, [N, all stages]."""
        used, of = np.unique(self.of, return_inverse=True)
        return np.stack([self.each[g].stage for g in used])[of.reshape(-1)]

    def each_row(self, table: NDArray[Any]) -> NDArray[Any]:
        """[G, ...] -> [N, ...]; of one geometry [1, ...], which broadcasts."""
        return table if len(self.each) == 1 else table[self.of]

    def contract(self, values: F64, table: F64) -> F64:
        """[N, A] with [G, A, B] -> [N, B]."""
        if len(self.each) == 1:
            return np.asarray(values @ table[0])
        if not self.runs:
            return np.asarray(np.einsum("na,nab->nb", values, table[self.of]))
        out = np.empty((len(values), table.shape[2]))
        for start, end, g in self.runs:
            np.matmul(values[start:end], table[g], out=out[start:end])
        return out


def most(values: F64) -> F64:
    """Largest of each row, [N, P] -> [N]: column by column, which is faster than many short rows."""
    return reduce(np.maximum, values.T) if values.shape[1] <= FEW else values.max(axis=1)


FEW = 32
LONG = 16  # strategies of one geometry in a row for which a product of their own pays
PLACEMENT = np.array([PLACEMENTS.index(schedule.placement) for schedule in SCHEDULE_TABLE.values()])


def geometry_of(batch: StrategyBatch, *, whole: bool = False) -> Geometry:
    """``whole``: every stage and every rank apart."""
    names, of = np.unique(batch.layout * len(PLACEMENTS) + PLACEMENT[batch.schedule], return_inverse=True)
    pairs = [divmod(int(name), len(PLACEMENTS)) for name in names]
    each = tuple(layout_geometry(batch.layouts[layout], PLACEMENTS[place], whole) for layout, place in pairs)
    return _geometry(each, of.reshape(-1))


def _geometry(each: tuple[LayoutGeometry, ...], of: I64) -> Geometry:
    tables = _padded(each)
    present = np.matmul(tables["counts"], tables["onto"]).transpose(0, 2, 1) > 0
    return Geometry(of=of, each=each, mirror=_mirrors(each), present=present, **tables)


@lru_cache(maxsize=256)
def _padded(each: tuple[LayoutGeometry, ...]) -> dict[str, Any]:
    """The tables of ``Geometry``: stages and ranks that a geometry has not hold nothing."""
    stages, ranks = (max(one.onto.shape[axis] for one in each) for axis in (0, 1))
    columns = each[0].counts.shape[0]
    shapes = {
        "counts": (columns, stages),
        "layers_in_all": (columns,),
        **dict.fromkeys(("onto", "work", "ahead", "behind"), (stages, ranks)),
    }
    tables = {name: np.zeros((len(each), *shape)) for name, shape in shapes.items()}
    for g, one in enumerate(each):
        s, p = one.onto.shape
        tables["counts"][g, :, :s] = one.counts
        tables["layers_in_all"][g] = one.layers_in_all
        tables["onto"][g, :s, :p] = one.onto
        tables["work"][g, :s, :p] = one.work
        tables["behind"][g, :s, :p] = one.behind
        tables["ahead"][g, :s, :p] = one.ahead if one.placement != "v" else 0.0
    return tables


@lru_cache(maxsize=256)
def _mirrors(each: tuple[LayoutGeometry, ...]) -> I64:
    ranks = max(len(one.mirror) for one in each)
    return np.stack([np.concatenate([one.mirror, np.arange(len(one.mirror), ranks)]) for one in each])

"""A space not yet written out: pieces, packed into parts that may be had in any order.

Axes: C core points, O ways of a cut, B bases (core points x ways), R rungs of a ladder, P pieces of a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from autodeploy.strategy.axes import Axes, among
from autodeploy.strategy.core import Asked, CorePoints
from autodeploy.strategy.cuts import Cut
from autodeploy.strategy.laddered import Laddered, crossed, ladder_of
from autodeploy.strategy.prune import DEVIATIONS, DOMINATED, groups
from autodeploy.strategy.rule import Proposal, Rule
from autodeploy.strategy.rules import OPTION_RULES, RELIEF_RULES, RULES, check
from autodeploy.strategy.rules_torchtitan import micro_batches_per_round
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import I64, Bool, Ladder, StrategyBatch


@dataclass(slots=True)
class SpaceCounts:
    """Filled while the space is walked."""

    core: int = 0  # valid core points, each once for every VPP
    enumerated: int = 0  # strategies yielded
    pruned: Counter[str] = field(default_factory=Counter)  # by statement: what is not yielded (audit: yielded too)
    rejected: Counter[str] = field(default_factory=Counter)  # by rule: core points, bases or strategies it excludes

    def add(self, other: SpaceCounts) -> None:
        self.core += other.core
        self.enumerated += other.enumerated
        self.pruned.update(other.pruned)
        self.rejected.update(other.rejected)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Core points (rows of the plan's) that go with every way and every rung of a cut."""

    cut: Cut
    rows: I64

    def __len__(self) -> int:
        """Bases."""
        return len(self.rows) * len(self.cut.ways)


@dataclass(frozen=True, kw_only=True, eq=False)
class SpacePlan:
    """The strategies of some numbers of cards. ``counts``: what the plan itself has left out."""

    asked: Asked
    core: CorePoints
    parts: list[list[Piece]]
    counts: SpaceCounts
    audit: bool = False

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def most(self) -> int:
        """Strategies, if the rules of the options excluded none."""
        return sum(len(piece) * len(piece.cut.ladder) for part in self.parts for piece in part)

    def part(self, i: int) -> tuple[Laddered, SpaceCounts]:
        """Valid bases with the rungs that each may take, and what was left out on the way."""
        counts = SpaceCounts()
        bases, of_piece = _bases(self, self.parts[i])
        valid = self._valid_bases(bases, counts)
        laddered = _laddered(bases.take(valid), self.parts[i], of_piece[valid])
        laddered = self._valid_rungs(laddered, counts)
        counts.enumerated = len(laddered)
        return laddered, counts

    def proposal(self, batch: StrategyBatch) -> Proposal:
        asked = self.asked
        return Proposal(
            model=asked.model, hardware=asked.hardware, workload=asked.workload, batch=batch, backend=asked.backend
        )

    def _check(self, batch: StrategyBatch, among: tuple[Rule, ...] = RULES) -> I64:
        asked = self.asked
        return check(asked.model, asked.hardware, asked.workload, batch, asked.backend.name, among=among)

    def _valid_bases(self, bases: StrategyBatch, counts: SpaceCounts) -> I64:
        """Rows that break no rule and (unless audited) that no other strategy of the space dominates."""
        known = self.asked.axes.sequence_parallel is None  # else what the core points were checked for no longer holds
        codes = self._check(bases, OPTION_RULES if known else RULES)
        _count(codes, counts)
        rows = np.flatnonzero(codes == 0)
        if self.asked.axes.dispatcher is not None:
            return rows  # the user chose
        proposal, keep = self.proposal(bases.take(rows)), np.ones(len(rows), dtype=bool)
        for statement in DOMINATED:
            holds = keep & statement.holds(proposal)
            counts.pruned[statement.name] += int(holds.sum())
            keep &= ~holds
        return rows if self.audit else rows[keep]

    def _valid_rungs(self, laddered: Laddered, counts: SpaceCounts) -> Laddered:
        """Without what a rule about relief rejects; counts the dominated strategies one step away from the others."""
        batch = crossed(laddered.bases, laddered.ladder)
        codes = np.where(laddered.allowed, self._check(batch, RELIEF_RULES), 0)
        _count(codes, counts)
        allowed = laddered.allowed & (codes == 0)
        for deviation in DEVIATIONS:
            if not asked_for(self.asked.axes, deviation.name):
                counts.pruned[deviation.name] += int((deviation.where(self.proposal(batch)) & allowed).sum())
        return replace(laddered, allowed=allowed)


def asked_for(axes: Axes, name: str) -> bool:
    """A user who names values of the axis gets these, and nothing besides."""
    given = {"zero-0": axes.zero}
    return given[name] is not None


def _count(codes: I64, counts: SpaceCounts) -> None:
    found = np.bincount(codes.reshape(-1), minlength=1)
    for code in np.flatnonzero(found[1:]) + 1:
        counts.rejected[RULES[code - 1].name] += int(found[code])


# ------------------------------------------------------------------------------------------------ writing out


def _bases(plan: SpacePlan, pieces: Sequence[Piece]) -> tuple[StrategyBatch, I64]:
    """Core points x ways of every piece, without relief, [B]; and the piece of each, [B]."""
    points = np.concatenate([np.repeat(piece.rows, len(piece.cut.ways)) for piece in pieces])
    columns: dict[str, Any] = {
        name: np.concatenate([np.tile(piece.cut.columns[name], len(piece.rows)) for piece in pieces])
        for name in pieces[0].cut.columns
    }
    of_piece = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    first = np.cumsum([0, *(len(piece.cut.layouts) for piece in pieces)])
    columns["layout"] = columns["layout"] + first[of_piece]
    layouts = tuple(layout for piece in pieces for layout in piece.cut.layouts)
    batch = replace(plan.core.take(points).plain(), **columns, layouts=layouts)
    return _with_axes(plan, batch, of_piece)


def _with_axes(plan: SpacePlan, batch: StrategyBatch, of_piece: I64) -> tuple[StrategyBatch, I64]:
    """Micro-batch groups and sequence parallel: the default, or what the user names."""
    axes, micro_batches = plan.asked.axes, plan.proposal(batch).micro_batches
    if axes.micro_batch_group is None:
        if plan.asked.backend.name == "torchtitan":
            smallest = micro_batches_per_round(micro_batches, batch.pp)
        else:
            smallest, _ = groups(micro_batches, batch.pp)
        looped = np.array([schedule.grouped for schedule in SCHEDULE_TABLE.values()])[batch.schedule]
        batch = replace(batch, micro_batch_group=np.where(looped & (smallest != batch.pp), smallest, 0))
    else:
        values = among(axes.micro_batch_group, range(1, int(micro_batches.max(initial=1)) + 1))
        batch, of_piece = _each(batch, of_piece, "micro_batch_group", np.array(values, dtype=np.int64))
    if axes.sequence_parallel is not None:
        batch, of_piece = _each(batch, of_piece, "sequence_parallel", np.array(axes.sequence_parallel, dtype=bool))
    return batch, of_piece


def _each(batch: StrategyBatch, of_piece: I64, column: str, values: I64 | Bool) -> tuple[StrategyBatch, I64]:
    """Every strategy with every value of a column."""
    rows = np.tile(np.arange(len(batch)), len(values))
    changed: dict[str, Any] = {column: np.repeat(values, len(batch))}
    return replace(batch.take(rows), **changed), of_piece[rows]


def _laddered(bases: StrategyBatch, pieces: Sequence[Piece], of_piece: I64) -> Laddered:
    """Every base with the rungs of its own cut: one ladder where all cuts agree, else one a base, the short ones padded."""
    ladders = [piece.cut.ladder for piece in pieces]
    rungs = max(map(len, ladders))
    own = np.array([np.arange(rungs) < len(ladder) for ladder in ladders])
    if len(set(ladders)) == 1:
        ladder = ladder_of(ladders[0])
    else:
        padded = [ladder_of((*each, *(each[-1:] * (rungs - len(each))))) for each in ladders]
        ladder = Ladder(
            **{each.name: np.stack([getattr(one, each.name) for one in padded])[of_piece] for each in fields(Ladder)}
        )
    return Laddered(bases=bases, ladder=ladder, allowed=own[of_piece])


# --------------------------------------------------------------------------------------------------- packing


def packed(pieces: Sequence[Piece], chunk: int) -> list[list[Piece]]:
    """Parts of at most some ``chunk`` bases x rungs: small pieces share one, large ones are cut between core points."""
    parts: list[list[Piece]] = [[]]
    for piece in pieces:
        for small in _split(piece, chunk):
            rungs = max(len(each.cut.ladder) for each in [*parts[-1], small])
            if parts[-1] and rungs * (sum(map(len, parts[-1])) + len(small)) > chunk:
                parts.append([])
            parts[-1].append(small)
    return [part for part in parts if part]


def _split(piece: Piece, chunk: int) -> Iterator[Piece]:
    step = max(1, chunk // max(len(piece.cut.ways) * len(piece.cut.ladder), 1))
    for start in range(0, len(piece.rows), step):
        yield Piece(piece.cut, piece.rows[start : start + step])

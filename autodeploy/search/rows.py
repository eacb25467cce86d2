"""Strategies of bases x ladder, not yet written out, with what is known of them before they are priced.

Axes: N strategies, B bases, R rungs, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import compact_layouts, group_key
from autodeploy.search.cutoffs import best, nth
from autodeploy.search.shortlist import departures_of
from autodeploy.strategy.laddered import Laddered
from cost_models.strategies import F64, I64, Bool, StrategyBatch

if TYPE_CHECKING:
    from cost_models.step import Bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """N of the strategies of bases x ladder, each with its least time and its memory."""

    space: Laddered
    base: NDArray[np.intp]
    rung: NDArray[np.intp]
    least_step_s: F64
    memory_bytes: F64

    def __len__(self) -> int:
        return len(self.base)

    @staticmethod
    def where(space: Laddered, found: Bounds, wanted: Bool) -> Rows:
        """The strategies that are ``wanted``, [B, R]."""
        base, rung = np.nonzero(wanted)
        return Rows(
            space=space, base=base, rung=rung, least_step_s=found.least_step_s[base, rung],
            memory_bytes=found.peak_reserved_bytes[base, rung],
        )  # fmt: skip

    def take(self, index: NDArray[np.intp] | Bool) -> Rows:
        arrays = {name: getattr(self, name)[index] for name in ("base", "rung", "least_step_s", "memory_bytes")}
        return replace(self, **arrays)

    def compact(self) -> Rows:
        """With only the bases that are used."""
        used = np.flatnonzero(np.bincount(self.base, minlength=len(self.space.bases)))
        place = np.zeros(len(self.space.bases), dtype=np.intp)
        place[used] = np.arange(len(used))
        return replace(self, space=self.space.take(used), base=place[self.base])

    @property
    def batch(self) -> StrategyBatch:
        return self.space.batch(self.base, self.rung)

    @property
    def departures(self) -> I64:
        """As ``departures_of`` the batch: those of its base, and one for each kind of relief."""
        ladder = self.space.ladder
        relief = (ladder.recompute > 0).astype(np.int64) + (ladder.swap_frac > 0) + (ladder.offload_frac > 0)
        of_rung = relief[self.rung] if relief.ndim == 1 else relief[self.base, self.rung]
        return departures_of(self.space.bases)[self.base] + of_rung


def written_out(parts: Sequence[Rows]) -> StrategyBatch:
    """One batch, equal layouts once."""
    return compact_layouts(StrategyBatch.concatenate([rows.batch for rows in parts]))


def groups_of(batches: Sequence[StrategyBatch]) -> tuple[I64, I64, I64]:
    """The group of each strategy of the batches, numbered from 0; of each group its cards, numbered from 0, and as they are."""
    first, second = (np.concatenate(keys) for keys in zip(*map(group_key, batches), strict=True))
    devices = np.concatenate([batch.devices for batch in batches])
    order = np.lexsort((second, first))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    devices_of = devices[order[new]]
    return group, np.unique(devices_of, return_inverse=True)[1], devices_of


def nearest_rows(parts: Sequence[Rows], count: int) -> list[Rows]:
    """Of each group those that need least memory (in single precision: as misses are ordered), of the ``count`` least groups."""
    parts = [rows for rows in parts if len(rows)]
    if not parts:
        return []
    group, size_of, _ = groups_of([rows.space.bases for rows in parts])
    firsts = np.cumsum([0, *(len(rows.space.bases) for rows in parts)])
    of_rows = [group[rows.base + first] for rows, first in zip(parts, firsts, strict=False)]
    memory = [rows.memory_bytes.astype(np.float32) for rows in parts]
    least = best(np.concatenate(memory), np.concatenate(of_rows), len(size_of))
    last = nth(least, count)
    near = [(bytes_ == least[of]) & (bytes_ <= last) for bytes_, of in zip(memory, of_rows, strict=True)]
    return [rows.take(where) for rows, where in zip(parts, near, strict=True) if where.any()]

"""Strategies with their prices: the price list of a batch, and the groups of it that share layout and schedule.

Axes: N strategies, S virtual stages, P pipeline ranks, C columns of the price list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_models.case import Case
from cost_models.inputs import Workload
from cost_models.layer_price import LayerPrices
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE, Schedule
from cost_models.step.geometry import Geometry, geometry_of
from cost_models.strategies import F64, I64, RECOMPUTE_BIT, SCHEDULES, Bool, Ladder, Layout, StrategyBatch

FULL = RECOMPUTE_BIT["full"]
Array = TypeVar("Array", F64, I64, Bool)


@record(eq=False)
class PriceTable:
    """Price list of a batch, and where each strategy finds its prices in it. Mask 0 is always among the masks."""

    prices: LayerPrices
    point: I64  # [N] row
    mask: I64  # [N] the strategy's own recompute mask
    plain: I64  # [N] the mask without "full"

    def take(self, rows: I64) -> PriceTable:
        return PriceTable(prices=self.prices, point=self.point[rows], mask=self.mask[rows], plain=self.plain[rows])

    def masked(self, by_mask: F64, mask: I64) -> F64:
        """Rows [N, ...] of an array over core points and masks [U, M, ...], under the masks of index ``mask``."""
        flat = by_mask.reshape(-1, *by_mask.shape[2:])
        return flat.take(self.point * len(self.prices.masks) + mask, axis=0)


def price_table(case: Case, batch: StrategyBatch, also: Sequence[int] = ()) -> PriceTable:
    """Prices every core point of the batch, under its masks and those of ``also``, that the case's book has not."""
    asked = {*np.flatnonzero(np.bincount(batch.recompute)).tolist(), *also}
    prices, point = case.book.prices(case, batch, [*asked, *(mask & ~FULL for mask in asked)])
    return PriceTable(
        prices=prices, point=point, mask=prices.of_mask(batch.recompute), plain=prices.of_mask(batch.recompute & ~FULL)
    )


@record(eq=False)
class PricedBatch:
    """N strategies, the case they are priced for, and their prices. With ``bases`` row i is base ``base[i]`` under some
    relief: what no relief changes is worked out once a base."""

    case: Case
    batch: StrategyBatch
    table: PriceTable
    geometry: Geometry
    bases: PricedBatch | None = None
    base: I64 | None = None
    rungs: int = 0  # where the rows are all bases under one rung after another, else 0
    known: dict[object, Any] = field(default_factory=dict)  # of bases: what was worked out

    @property
    def micro_batches(self) -> I64:
        """[N]"""
        return self.once(_micro_batches)

    @property
    def micro_batch_group(self) -> I64:
        """[N], pp where none is named."""
        return micro_batch_groups(self.batch)

    @property
    def shards_each_use(self) -> Bool:
        """Strategies that gather parameters and scatter gradients in every micro-batch, [N]."""
        return self.once(_shards_each_use)

    def under(self, ladder: Ladder) -> PricedBatch:
        """All strategies under the first rung, then all under the next: what no relief changes is worked out once."""
        rungs, prices = len(ladder), self.table.prices
        batch = ladder.rung_by_rung(self.batch)
        table = PriceTable(
            prices=prices, point=np.tile(self.table.point, rungs), mask=prices.of_mask(batch.recompute),
            plain=prices.of_mask(batch.recompute & ~FULL),
        )  # fmt: skip
        return PricedBatch(
            case=self.case, batch=batch, table=table, geometry=self.geometry.repeated(rungs), bases=self,
            base=np.tile(np.arange(len(self.batch)), rungs), rungs=rungs,
        )  # fmt: skip

    def take(self, rows: I64) -> PricedBatch:
        """Some of the strategies."""
        return replace(
            self, batch=self.batch.take(rows), table=self.table.take(rows), geometry=self.geometry.take(rows),
            base=None if self.base is None else self.base[rows], rungs=0, known={},
        )  # fmt: skip

    def in_order(self) -> PricedBatch:
        """Of strategies alike beside alike."""
        return replace(self, geometry=self.geometry.in_order())

    def has(self, fact: str) -> Bool:
        """Whether a fact of the schedule's record holds, [N]."""
        return SCHEDULE_FACTS[fact][self.batch.schedule]

    def once(self, quantity: Callable[[PricedBatch], Array]) -> Array:
        """A quantity [N, ...] that no relief changes; a named function, by which the bases know it."""
        if self.bases is None:
            return quantity(self)
        found: NDArray[Any] = self.bases.worked_out(quantity)
        if self.rungs:
            return np.tile(found, (self.rungs, *[1] * (found.ndim - 1))) if self.rungs > 1 else found  # type: ignore[return-value]
        assert self.base is not None
        return found.take(self.base, axis=0)  # type: ignore[return-value]

    def once_a_mask(self, quantity: Callable[[PricedBatch], F64]) -> F64:
        """A quantity [N, ...] that recompute changes, swap and offload do not."""
        if self.bases is None or not self.rungs:
            return quantity(self)
        key = (quantity, self.batch.recompute.tobytes(), self.batch.recompute_layers.tobytes())
        if key not in self.bases.known:
            self.bases.known[key] = _kept(quantity(self))
        return self.bases.known[key]  # type: ignore[no-any-return]

    def worked_out(self, quantity: Callable[[PricedBatch], Any]) -> Any:
        """The quantity of these strategies, once."""
        if quantity not in self.known:
            self.known[quantity] = _kept(quantity(self))
        return self.known[quantity]

    def priced(self, per_point: F64) -> F64:
        """Rows [N, ...] of an array over the core points [U, ...]."""
        return per_point.take(self.table.point, axis=0)

    def on_stages(self, per_column: F64) -> F64:
        """[N, C] of a layer of each column -> [N, S] of the stages."""
        return self.geometry.contract(per_column, self.geometry.counts)

    def by_rank(self, stage_values: F64) -> F64:
        """[N, S] -> [N, P]: the sum of what each rank holds."""
        return self.geometry.contract(stage_values, self.geometry.onto)

    def before(self, stage_s: F64) -> F64:
        """[N, S] -> [N, P]: over the stages before the first of each rank, of ranks alike the last."""
        return self.geometry.contract(stage_s, self.geometry.behind)

    def through(self, values: F64, tables: Callable[[PricedBatch], F64]) -> F64:
        """[N, A] through tables [N, A, B] that no relief changes -> [N, B]."""
        table = self.once(tables)
        return reduce(np.add, (values[:, a, None] * table[:, a] for a in range(values.shape[1])))

    def work_by_rank(self, stage_s: F64) -> F64:
        """[N, S] -> [N, P]: what a rank works on for one micro-batch. Fed from both ends, it has half of two stages."""
        return self.geometry.contract(stage_s, self.geometry.work)


def _kept(found: Array) -> Array:
    """Handed out again and again: nobody may write into it."""
    found.flags.writeable = False
    return found


def _micro_batches(own: PricedBatch) -> I64:
    return np.maximum(own.batch.micro_batches(own.case.workload.global_batch), 1)


def _shards_each_use(own: PricedBatch) -> Bool:
    return shards_each_use(own.batch, own.case.workload)


SCHEDULE_FACTS: dict[str, Bool] = {
    fact: np.array([bool(getattr(schedule, fact)) for schedule in SCHEDULE_TABLE.values()])
    for fact in ("pairs_ends", "runs_overlapped", "plans_with_costs", "splits_backward")
}


def priced_batch(case: Case, batch: StrategyBatch, *, also: Sequence[int] = (), whole: bool = False) -> PricedBatch:
    """``also``: further recompute masks to price; ``whole``: every stage and every rank apart."""
    table = price_table(case, batch, also)
    return PricedBatch(case=case, batch=batch, table=table, geometry=geometry_of(batch, whole=whole))


@record(eq=False)
class PricedGroup(PricedBatch):
    """Of one layout and schedule, every stage and rank apart. ``rows`` of the batch they are from."""

    rows: I64
    layout: Layout
    schedule: Schedule

    def take(self, rows: I64) -> PricedGroup:
        """Some of the strategies."""
        return replace(
            self, batch=self.batch.take(rows), rows=self.rows[rows], table=self.table.take(rows),
            geometry=self.geometry.take(rows),
        )  # fmt: skip


def laid_out(group: PricedGroup, layout: Layout) -> PricedGroup:
    """The same strategies with another layout."""
    batch = replace(group.batch, layout=np.zeros_like(group.batch.layout), layouts=(layout,))
    return replace(group, batch=batch, layout=layout, geometry=geometry_of(batch, whole=True))


def micro_batch_groups(batch: StrategyBatch) -> I64:
    """0 and pp are the same thing, [N]."""
    return np.where(batch.micro_batch_group > 0, batch.micro_batch_group, batch.pp)


def shards_each_use(batch: StrategyBatch, workload: Workload) -> Bool:
    """Strategies that gather parameters and scatter gradients in every micro-batch, [N]."""
    sharded = (batch.zero_stage >= 3) | ((batch.zero_stage == 2) & workload.stack.fsdp)
    return sharded & ~keeps_whole(batch, workload)


def keeps_whole(batch: StrategyBatch, workload: Workload) -> Bool:
    """Strategies that gather their parameters once a step and keep them, with whole gradients, over the micro-batches of a
    pipeline: FSDP2 under PP neither reshards after the forward nor reduces before the last backward, [N]."""
    return (batch.pp > 1) & workload.stack.fsdp_whole_under_pp


def replay_groups(case: Case, batch: StrategyBatch, table: PriceTable) -> Iterator[PricedGroup]:
    """Groups that share an event graph: the same micro-batches, micro-batch group, overlap and sharding, too."""
    m = np.maximum(batch.micro_batches(case.workload.global_batch), 1)
    sharded = shards_each_use(batch, case.workload)
    apart = (m, micro_batch_groups(batch), batch.ep_overlap.astype(np.int64), sharded.astype(np.int64))
    return priced_groups(case, batch, table, apart)


def priced_groups(case: Case, batch: StrategyBatch, table: PriceTable, apart: Sequence[I64]) -> Iterator[PricedGroup]:
    """Rows that share layout, schedule and each column of ``apart`` [N], in order of first appearance."""
    keys = np.stack([batch.layout, batch.schedule, *apart], axis=1)
    _, first, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(index.reshape(-1), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(index.reshape(-1)))[:-1])
    for part in np.argsort(first):
        rows = parts[part]
        own = batch.take(rows)
        yield PricedGroup(
            case=case,
            batch=own,
            rows=rows,
            geometry=geometry_of(own, whole=True),
            layout=batch.layouts[int(batch.layout[rows[0]])],
            schedule=SCHEDULE_TABLE[SCHEDULES[int(batch.schedule[rows[0]])]],
            table=table.take(rows),
        )

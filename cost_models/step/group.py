"""Strategies with their prices: the price list of a batch, and the groups of it that share layout and schedule.

Axes: N strategies, S virtual stages, P pipeline ranks, C columns of the price list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cost_models.case import Case
from cost_models.dims import core_points
from cost_models.inputs import Workload
from cost_models.layer_price import LayerPrices, price_layers
from cost_models.schedules import SCHEDULE_TABLE, Schedule
from cost_models.strategies import F64, I64, RECOMPUTE_BIT, SCHEDULES, Bool, Layout, StrategyBatch

FULL, MOE = RECOMPUTE_BIT["full"], RECOMPUTE_BIT["moe"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriceTable:
    """Price list of a batch, and where each strategy finds its prices in it. Mask 0 is always among the masks."""

    prices: LayerPrices
    point: I64  # [N] row
    mask: I64  # [N] the strategy's own recompute mask
    plain: I64  # [N] the mask without "full"

    def take(self, rows: I64) -> PriceTable:
        return PriceTable(prices=self.prices, point=self.point[rows], mask=self.mask[rows], plain=self.plain[rows])


def price_table(case: Case, batch: StrategyBatch, also: Sequence[int] = ()) -> PriceTable:
    """Prices every core point of the batch once, under the masks of the batch, 0, and those of ``also``."""
    plain = batch.recompute & ~FULL
    overlap = [MOE] if batch.ep_overlap.any() else []  # what lanes need
    masks = np.unique(np.concatenate([batch.recompute, plain, [0, *overlap, *also]]).astype(np.int64))
    core = core_points(batch, case.workload)
    return PriceTable(
        prices=price_layers(case, core, tuple(int(mask) for mask in masks)),
        point=core.index,
        mask=np.searchsorted(masks, batch.recompute),
        plain=np.searchsorted(masks, plain),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedGroup:
    """N strategies of one layout and schedule, and the case they are priced for. ``rows`` of the batch they are from."""

    case: Case
    batch: StrategyBatch
    rows: I64
    layout: Layout
    schedule: Schedule
    table: PriceTable

    @property
    def micro_batches(self) -> I64:
        """[N]"""
        return np.maximum(self.batch.micro_batches(self.case.workload.global_batch), 1)

    @property
    def micro_batch_group(self) -> I64:
        """[N], pp where none is named."""
        return micro_batch_groups(self.batch)

    def take(self, rows: I64) -> PricedGroup:
        """Some of the strategies."""
        return replace(self, batch=self.batch.take(rows), rows=self.rows[rows], table=self.table.take(rows))

    def priced(self, per_point: F64) -> F64:
        """Rows [N, ...] of an array over the core points [U, ...]."""
        return per_point[self.table.point]

    def by_rank(self, stage_values: F64) -> F64:
        """[N, S] -> [N, P]: the sum of what each rank holds."""
        return sum_by_rank(stage_values, self.layout, self.schedule.v_shaped)

    def work_by_rank(self, stage_s: F64) -> F64:
        """[N, S] -> [N, P]: what a rank works on for one micro-batch. Fed from both ends, it has half of two stages."""
        own = self.by_rank(stage_s)
        return (own + own[:, ::-1]) / 2 if self.schedule.placement == "both-ends" else own


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


def closed_form_groups(case: Case, batch: StrategyBatch, table: PriceTable) -> Iterator[PricedGroup]:
    """Groups of one layout and schedule: what the closed form prices at once."""
    return priced_groups(case, batch, table, ())


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
        yield PricedGroup(
            case=case,
            batch=batch.take(rows),
            rows=rows,
            layout=batch.layouts[int(batch.layout[rows[0]])],
            schedule=SCHEDULE_TABLE[SCHEDULES[int(batch.schedule[rows[0]])]],
            table=table.take(rows),
        )


def rank_of_stage(layout: Layout, v_shaped: bool) -> I64:
    """Pipeline rank of each virtual stage, [S]."""
    stages = np.arange(layout.pp * layout.vpp)
    rank = stages % layout.pp
    if v_shaped:
        rank = np.where((stages // layout.pp) % 2 == 1, layout.pp - 1 - rank, rank)
    return rank


def sum_by_rank(stage_values: F64, layout: Layout, v_shaped: bool) -> F64:
    """[N, S] -> [N, P]."""
    if not v_shaped:
        return stage_values.reshape(len(stage_values), layout.vpp, layout.pp).sum(axis=1)
    onto = np.zeros((layout.pp * layout.vpp, layout.pp))
    onto[np.arange(len(onto)), rank_of_stage(layout, True)] = 1.0
    return stage_values @ onto

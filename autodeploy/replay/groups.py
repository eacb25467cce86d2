"""Strategies that share one event graph, and how the simulator runs them.

Axes: N strategies of the group.
"""

from __future__ import annotations

from collections.abc import Iterator

from cost_models.case import Case
from cost_models.layer_price import LayerPrices
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE, Schedule
from cost_models.step.group import PricedGroup, PriceTable, price_table, replay_groups, shards_each_use
from cost_models.strategies import I64, RECOMPUTE_BIT, Layout, StrategyBatch

MOE, MOE_ACT = RECOMPUTE_BIT["moe"], RECOMPUTE_BIT["moe_act"]


@record(eq=False)
class ReplayGroup:
    """A priced group of one micro-batch count, group size and overlap."""

    priced: PricedGroup

    @property
    def rows(self) -> I64:
        return self.priced.rows

    @property
    def case(self) -> Case:
        return self.priced.case

    @property
    def batch(self) -> StrategyBatch:
        return self.priced.batch

    @property
    def layout(self) -> Layout:
        return self.priced.layout

    @property
    def schedule(self) -> Schedule:
        return self.priced.schedule

    @property
    def table(self) -> PriceTable:
        return self.priced.table

    @property
    def prices(self) -> LayerPrices:
        return self.priced.table.prices

    @property
    def micro_batches(self) -> int:
        return int(self.priced.micro_batches[0])

    @property
    def micro_batch_group(self) -> int:
        return int(self.priced.micro_batch_group[0])

    @property
    def lanes(self) -> bool:
        """Expert communication has lanes of its own. Where the schedule pairs nothing the overlap stays within a
        micro-batch, and where parameters are gathered for each use the gathers fill the same links: there the closed
        form's share counts as hidden."""
        overlaps = bool(self.batch.ep_overlap[0]) and self.schedule.overlapped_as is not None
        return overlaps and self.layout.pp > 1 and not shards_each_use(self.batch, self.case.workload)[0]

    @property
    def grouped(self) -> bool:
        """Micro-batches go in groups of `micro_batch_group`."""
        return self.schedule.grouped

    @property
    def simulated_as(self) -> str:
        """The schedule that the simulator replays."""
        schedule = self.schedule if self.layout.pp > 1 else SCHEDULE_TABLE["none"]
        return schedule.overlapped_as if self.lanes and schedule.overlapped_as else schedule.replayed_as


def groups_of(case: Case, batch: StrategyBatch) -> Iterator[ReplayGroup]:
    """The groups of a batch, in order of first appearance."""
    for priced in replay_groups(case, batch, price_table(case, batch)):
        yield ReplayGroup(priced=priced)

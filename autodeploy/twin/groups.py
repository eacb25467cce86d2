"""Strategies that share one event graph: the same layout, schedule, micro-batches, group, and overlap.

Axes: N strategies of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import I64, SCHEDULES, Layout, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """`rows` of the batch that it was taken from. `lanes`: expert communication has lanes of its own."""

    rows: I64
    batch: StrategyBatch
    layout: Layout
    schedule: str
    micro_batches: int
    micro_batch_group: int
    ep_overlap: bool

    @property
    def lanes(self) -> bool:
        return self.ep_overlap and self.layout.pp > 1 and SCHEDULE_TABLE[self.schedule].overlapped_as is not None

    @property
    def grouped(self) -> bool:
        """Micro-batches go in groups of `micro_batch_group`."""
        return SCHEDULE_TABLE[self.schedule].grouped

    @property
    def simulated_as(self) -> str:
        """The schedule that the simulator replays."""
        schedule = SCHEDULE_TABLE[self.schedule if self.layout.pp > 1 else "none"]
        return schedule.overlapped_as if self.lanes and schedule.overlapped_as else schedule.replayed_as


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinInput:
    """Three inputs of every price."""

    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload


def groups_of(batch: StrategyBatch, global_batch: int) -> Iterator[Group]:
    """The groups of a batch, in order of first appearance."""
    micro_batches = np.maximum(batch.micro_batches(global_batch), 1)
    group = np.where(batch.micro_batch_group > 0, batch.micro_batch_group, batch.pp)
    keys = np.stack([batch.layout, batch.schedule, micro_batches, group, batch.ep_overlap.astype(np.int64)], axis=1)
    _, first, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    for k in np.argsort(first):
        rows = np.flatnonzero(index.reshape(-1) == k)
        layout, schedule, m, g, overlap = (int(v) for v in keys[rows[0]])
        yield Group(
            rows=rows,
            batch=batch.take(rows),
            layout=batch.layouts[layout],
            schedule=SCHEDULES[schedule],
            micro_batches=m,
            micro_batch_group=g,
            ep_overlap=bool(overlap),
        )

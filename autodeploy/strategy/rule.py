"""What a validity rule is: a name, a sentence, a remedy, the back ends it holds for, and where a batch breaks it.

Axes: N strategies; or B bases and R rungs of a ladder, where the columns of the batch are [B, 1] and [1, R] (``crossed``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from autodeploy.strategy.backends import Backend
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.records import record
from cost_models.strategies import I64, RECOMPUTE_BIT, SCHEDULE_CODE, SCHEDULES, Bool, StrategyBatch


@record(eq=False)
class Proposal:
    """N strategies and all that a rule looks at."""

    model: ModelSpec
    hardware: HardwareProfile | None
    workload: Workload
    batch: StrategyBatch
    backend: Backend
    devices: int | I64 | None = None  # cards; [N] where they differ

    @cached_property
    def micro_batches(self) -> I64:
        return self.workload.global_batch // np.maximum(self.batch.micro_batch * self.batch.dp, 1)

    @cached_property
    def group(self) -> I64:
        """Micro-batch group size: 0 means PP."""
        return np.where(self.batch.micro_batch_group == 0, self.batch.pp, self.batch.micro_batch_group)

    @cached_property
    def moe(self) -> bool:
        return any(kind.feed_forward is not None and kind.feed_forward.is_moe for kind in self.model.kinds)

    def scheduled(self, names: frozenset[str] | tuple[str, ...]) -> Bool:
        """Strategies whose schedule is among ``names``, [N]."""
        table = np.array([name in names for name in SCHEDULES])
        return table[self.batch.schedule]

    def schedule_is(self, name: str) -> Bool:
        return self.batch.schedule == SCHEDULE_CODE[name]

    def recomputes(self, *modules: str) -> Bool:
        """Strategies that recompute one of the modules, [N]."""
        return (self.batch.recompute & sum(RECOMPUTE_BIT[module] for module in modules)) > 0

    def everywhere(self, broken: bool) -> Bool:
        return np.full(len(self.batch), broken)

    def per_layout(self, broken: Callable[[int], bool]) -> Bool:
        """A property of layout ``i``, spread to the strategies that use it, [N]."""
        return np.array([broken(i) for i in range(len(self.batch.layouts))], dtype=bool)[self.batch.layout]


ALL: tuple[str, ...] = ()


@record(eq=False)
class Rule:
    """``broken`` is True where a strategy breaks the rule. ``soft``: worth avoiding, not impossible; only a search
    obeys it, and only on axes that the user left free. ``relief``: it reads recompute, recompute_layers, swap_frac or
    offload_frac; the other rules look at the bases of a ladder alone."""

    name: str
    text: str
    remedy: str
    broken: Callable[[Proposal], Bool]
    backends: tuple[str, ...] = ALL
    soft: bool = False
    relief: bool = False

    def holds_for(self, backend: str) -> bool:
        return not self.backends or backend in self.backends

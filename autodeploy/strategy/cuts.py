"""How the stages of a PP may be run: each VPP with its schedules, overlaps, layouts, dispatchers, ZeRO stages and ladder.

Axes: O ways of a cut.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from autodeploy.strategy.core import Asked, stage_cuts
from autodeploy.strategy.options import Relief, Run, dispatchers, reliefs, runs, zero_stages
from cost_models.strategies import DISPATCHER_CODE, I64, SCHEDULE_CODE, Bool, Layout


@dataclass(frozen=True)
class Cut:
    """A (PP, VPP) pair, its runs crossed with dispatchers and ZeRO stages, and the ladder of its stages."""

    pp: int
    vpp: int
    ways: tuple[tuple[Run, str, int], ...]
    ladder: tuple[Relief, ...]

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        return tuple({id(run.layout): run.layout for run, _, _ in self.ways}.values())

    @cached_property
    def columns(self) -> dict[str, I64 | Bool]:
        """What each way says of a strategy, [O] each; ``layout`` among ``layouts``."""
        place = {id(layout): i for i, layout in enumerate(self.layouts)}
        return {
            "schedule": np.array([SCHEDULE_CODE[run.schedule] for run, _, _ in self.ways]),
            "ep_overlap": np.array([run.ep_overlap for run, _, _ in self.ways], dtype=bool),
            "layout": np.array([place[id(run.layout)] for run, _, _ in self.ways]),
            "dispatcher": np.array([DISPATCHER_CODE[name] for _, name, _ in self.ways]),
            "zero_stage": np.array([stage for _, _, stage in self.ways]),
            "vpp": np.full(len(self.ways), self.vpp),
        }

    @property
    def frugal(self) -> tuple[int, float]:
        """The highest ZeRO stage and the largest share offloaded: what leaves least of the weights on a card."""
        return max(stage for _, _, stage in self.ways), max(relief.offload_frac for relief in self.ladder)


def cuts_of(asked: Asked, pp: int, rejected: Counter[str]) -> list[Cut]:
    """One for each VPP that the layers allow; without ways where no schedule runs it."""
    model, backend, axes = asked.model, asked.backend, asked.axes
    found = []
    for vpp, _ in stage_cuts(model, pp, backend, axes, rejected):
        ladder = reliefs(model, asked.workload, backend, axes, -(-model.num_layers // (pp * vpp)))
        ways = product(
            runs(model, backend, axes, pp, vpp), dispatchers(model, backend, axes), zero_stages(backend, axes, pp)
        )
        found.append(Cut(pp, vpp, tuple(ways), tuple(ladder)))
    return found

"""Bases and the ladder that they may climb: how a space is handed to those who price it.

Axes: B bases, R rungs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from autodeploy.strategy.options import Relief
from cost_models.strategies import Bool, Ladder, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laddered:
    """``bases`` [B] without relief; ``allowed`` [B, R]: which rungs each may take."""

    bases: StrategyBatch
    ladder: Ladder
    allowed: Bool

    def __len__(self) -> int:
        """Strategies."""
        return int(np.count_nonzero(self.allowed))

    def take(self, rows: NDArray[np.intp]) -> Laddered:
        """Some of the bases."""
        ladder = self.ladder
        if ladder.recompute.ndim > 1:
            ladder = replace(ladder, **{each.name: getattr(ladder, each.name)[rows] for each in fields(ladder)})
        return Laddered(bases=self.bases.take(rows), ladder=ladder, allowed=self.allowed[rows])

    def batch(self, base: NDArray[np.intp], rung: NDArray[np.intp]) -> StrategyBatch:
        """The strategies at these bases and rungs, [N] each."""
        shared = self.ladder.recompute.ndim == 1
        columns = {
            each.name: getattr(self.ladder, each.name)[rung if shared else (base, rung)] for each in fields(self.ladder)
        }
        return replace(self.bases.take(base), **columns)

    def expand(self) -> StrategyBatch:
        """Every strategy, base by base."""
        return self.ladder.expand(self.bases).take(self.allowed.reshape(-1))


def ladder_of(reliefs: Sequence[Relief]) -> Ladder:
    return Ladder(
        recompute=np.array([relief.mask for relief in reliefs], dtype=np.int64),
        recompute_layers=np.array([relief.layers for relief in reliefs], dtype=np.int64),
        swap_frac=np.array([relief.swap_frac for relief in reliefs], dtype=np.float64),
        offload_frac=np.array([relief.offload_frac for relief in reliefs], dtype=np.float64),
    )


def crossed(bases: StrategyBatch, ladder: Ladder) -> StrategyBatch:
    """Bases x ladder without writing them out: the columns are [B, 1] and [1, R] (or [B, R]), and broadcast."""
    columns = {each.name: getattr(bases, each.name)[:, None] for each in fields(bases) if each.name != "layouts"}
    rungs = {each.name: np.atleast_2d(getattr(ladder, each.name)) for each in fields(ladder)}
    return replace(bases, **{**columns, **rungs})

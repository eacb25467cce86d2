"""What a study tries: axes with named values, as a dashboard shows them, each combination repaired to a strategy.

Axes: M strategies of the catalogue, A axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.search.candidates import compact_layouts
from autodeploy.strategy.axis_table import COLUMNS
from cost_models.strategies import DISPATCHERS, SCHEDULES, StrategyBatch, recompute_modules

Value = str | int | float | bool
Params = Mapping[str, Value]

# Outermost first: an axis is repaired given those before it.
AXES = ("devices", *(name for name in COLUMNS if name != "dp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """``choices``: the values of every parameter that has more than one. ``start`` is tried first. ``bound_s``: a lower
    bound of the score of every strategy of the catalogue by row, where one is known."""

    choices: Mapping[str, tuple[Value, ...]]
    decode: Callable[[Sequence[Params]], StrategyBatch]
    start: Sequence[Params] = ()


class Catalogue:
    """Strategies as a table of codes: each axis a sorted list of values, each strategy a row of indices into them."""

    def __init__(self, batch: StrategyBatch) -> None:
        batch = compact_layouts(batch)
        columns = [_column(batch, name) for name in AXES]
        self.values = [np.unique(column) for column in columns]
        codes = np.stack([np.searchsorted(v, c).astype(np.int32) for v, c in zip(self.values, columns, strict=True)])
        self.order = np.lexsort(codes[::-1])
        self.codes = codes[:, self.order]
        self.batch = batch
        self.names = [_names(batch, name, v) for name, v in zip(AXES, self.values, strict=True)]

    @property
    def choices(self) -> dict[str, tuple[Value, ...]]:
        """The axes that vary."""
        return {name: names for name, names in zip(AXES, self.names, strict=True) if len(names) > 1}

    def params(self, row: int) -> dict[str, Value]:
        """The named values of strategy ``row`` of the batch, on the axes that vary."""
        code = self.codes[:, int(np.flatnonzero(self.order == row)[0])]
        return {name: names[c] for name, names, c in zip(AXES, self.names, code, strict=True) if len(names) > 1}

    def decode(self, trials: Sequence[Params]) -> StrategyBatch:
        """The nearest strategy of the catalogue for each combination."""
        index = [{value: code for code, value in enumerate(names)} for names in self.names]
        wanted = [
            [at.get(trial[name], 0) if name in trial else 0 for name, at in zip(AXES, index, strict=True)]
            for trial in trials
        ]
        return compact_layouts(self.batch.take(self.order[[nearest_row(self.codes, row) for row in wanted]]))


def nearest_row(codes: np.ndarray, wanted: Sequence[int]) -> int:
    """Row of ``codes`` [A, M] (rows sorted) that agrees with ``wanted`` [A] as closely as possible, axis after axis."""
    low, high = 0, codes.shape[1]
    for column, target in zip(codes, wanted, strict=True):
        part = column[low:high]
        at = int(np.searchsorted(part, target))
        neighbours = [part[i] for i in (at - 1, at) if 0 <= i < len(part)]
        value = min(neighbours, key=lambda v: abs(int(v) - target))
        low, high = low + int(np.searchsorted(part, value)), low + int(np.searchsorted(part, value, side="right"))
    return low


def _column(batch: StrategyBatch, name: str) -> np.ndarray:
    return np.asarray(getattr(batch, name))


def _names(batch: StrategyBatch, name: str, values: np.ndarray) -> tuple[Value, ...]:
    """As a user writes them; one name per value."""
    if name == "schedule":
        return tuple(SCHEDULES[int(v)] for v in values)
    if name == "dispatcher":
        return tuple(DISPATCHERS[int(v)] for v in values)
    if name == "recompute":
        return tuple(",".join(recompute_modules(int(v))) or "none" for v in values)
    if name == "layout":
        texts = [_layout_name(batch, int(v)) for v in values]
        return tuple(text if texts.count(text) == 1 else f"{text} #{i}" for i, text in enumerate(texts))
    return tuple(v.item() for v in values)


def _layout_name(batch: StrategyBatch, index: int) -> str:
    layout = batch.layouts[index]
    return f"PP{layout.pp}/VPP{layout.vpp} {layout.key or layout.text or 'default'}"

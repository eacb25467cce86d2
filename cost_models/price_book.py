"""The price list of a case: grown by what is asked, so that no core point is priced twice in a search.

Axes: N strategies, U core points, M recompute masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from cost_models.dims import core_of, distinct_points
from cost_models.layer_price import LayerPrices, price_layers
from cost_models.strategies import I64, RECOMPUTE_BIT, StrategyBatch

if TYPE_CHECKING:
    from cost_models.case import Case

MOST_POINTS = 20_000  # a list that has grown beyond is begun anew: some 100 MB
# What stages on lanes and the replay's segments are told apart by, beside no recompute at all.
ALWAYS = (0, RECOMPUTE_BIT["moe"], RECOMPUTE_BIT["moe_act"])


class PriceBook:
    """A memo: what it answers depends on the case and on what is asked, never on what was asked before."""

    def __init__(self) -> None:
        self._prices: LayerPrices | None = None
        self._rows: dict[tuple[int, ...], int] = {}
        self._points = np.zeros((0, 0), dtype=np.int64)
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[PriceBook], tuple[()]]:
        """A worker grows its own."""
        return PriceBook, ()

    def prices(self, case: Case, batch: StrategyBatch, masks: Iterable[int]) -> tuple[LayerPrices, I64]:
        """A list that has every strategy's point and every mask, and the row of each strategy in it, [N]."""
        points, index = distinct_points(batch)
        names = list(map(tuple, points.tolist()))
        wanted = tuple(sorted({*ALWAYS, *masks}))
        with self._lock:
            if self._prices is None or len(self._rows) > MOST_POINTS or not set(wanted) <= set(self._prices.masks):
                self._begin(case, points, names, wanted)
            elif not all(name in self._rows for name in names):
                self._grow(case, points, names)
            assert self._prices is not None
            rows = np.array([self._rows[name] for name in names], dtype=np.int64)
            return self._prices, rows[index]

    def _begin(self, case: Case, points: I64, names: list[tuple[int, ...]], masks: tuple[int, ...]) -> None:
        """All points once more where a mask is new."""
        if self._prices is not None and len(self._rows) <= MOST_POINTS:
            new = [i for i, name in enumerate(names) if name not in self._rows]
            points = np.concatenate([self._points, points[new]])
            names = [*self._rows, *(names[i] for i in new)]
            masks = tuple(sorted({*masks, *self._prices.masks}))
        self._prices = price_layers(case, core_of(points, case.workload), masks)
        self._points, self._rows = points, {name: i for i, name in enumerate(names)}

    def _grow(self, case: Case, points: I64, names: list[tuple[int, ...]]) -> None:
        assert self._prices is not None
        new = [i for i, name in enumerate(names) if name not in self._rows]
        more = price_layers(case, core_of(points[new], case.workload), self._prices.masks)
        joined = {
            each.name: np.concatenate([getattr(self._prices, each.name), getattr(more, each.name)])
            for each in fields(LayerPrices)
            if each.name != "masks"
        }
        self._prices = LayerPrices(**joined, masks=self._prices.masks)
        self._points = np.concatenate([self._points, points[new]])
        for i in new:
            self._rows[names[i]] = len(self._rows)

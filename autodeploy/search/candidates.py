"""Strategies together with what ranking needs of their cost.

Axes: N strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.request import Evaluate, Price, SearchRequest
from autodeploy.strategy.axis_table import COLUMNS, departures
from cost_models.strategies import F64, I64, Bool, Layout, StrategyBatch, single


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """N priced strategies; ``score`` is the objective, lower is better."""

    batch: StrategyBatch
    step_s: F64
    reserved_bytes: F64
    feasible: Bool
    score: F64

    def __len__(self) -> int:
        return len(self.step_s)

    def take(self, index: NDArray[np.intp] | Bool | slice) -> Candidates:
        batch = compact_layouts(self.batch.take(index))
        return Candidates(
            batch, self.step_s[index], self.reserved_bytes[index], self.feasible[index], self.score[index]
        )

    @staticmethod
    def concatenate(parts: Sequence[Candidates]) -> Candidates:
        """Joins in the order given; equal layouts become one."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        return Candidates(
            compact_layouts(StrategyBatch.concatenate([part.batch for part in parts])),
            np.concatenate([part.step_s for part in parts]),
            np.concatenate([part.reserved_bytes for part in parts]),
            np.concatenate([part.feasible for part in parts]),
            np.concatenate([part.score for part in parts]),
        )


def no_candidates() -> Candidates:
    none = np.zeros(0)
    batch = single(layout=Layout(pp=1, vpp=1, counts=np.zeros((1, 3)))).take(slice(0, 0))
    return Candidates(batch, none, none, none.astype(bool), none)


def compact_layouts(batch: StrategyBatch) -> StrategyBatch:
    """The same strategies with only the layouts they use, each once, in order of first use."""
    used = np.flatnonzero(np.bincount(batch.layout, minlength=1))  # np.unique would import numpy.ma
    table: dict[object, int] = {}
    layouts: list[Layout] = []
    renumbered = np.zeros(len(batch.layouts) + 1, dtype=np.int64)
    for old in used.tolist():
        layout = batch.layouts[old]
        identity = (layout.pp, layout.vpp, layout.key, layout.text, layout.counts.tobytes())
        if identity not in table:
            table[identity] = len(layouts)
            layouts.append(layout)
        renumbered[old] = table[identity]
    return replace(batch, layout=renumbered[batch.layout], layouts=tuple(layouts))


def price(request: SearchRequest, batch: StrategyBatch, evaluate: Evaluate | Price) -> Candidates:
    """Closed-form price of every strategy of ``batch``."""
    cost = evaluate(request.case, batch)
    score = objective(request.objective, batch, cost.step_s, cost.peak_reserved_bytes)
    return Candidates(batch, cost.step_s, cost.peak_reserved_bytes, cost.feasible, score)


def objective(name: str, batch: StrategyBatch, step_s: F64, reserved_bytes: F64) -> F64:
    """What is minimised, [N]."""
    return objective_of(name, batch.devices, step_s, reserved_bytes)


def objective_of(name: str, devices: I64, step_s: F64, reserved_bytes: F64) -> F64:
    """The same by numbers of cards; no less for a longer step. A step trains the same tokens whatever the strategy, so
    card-seconds stand for both cost and the inverse of tokens per second and card."""
    if name in ("tokens", "cost"):
        return step_s * devices
    if name == "memory":
        return reserved_bytes
    return step_s


def group_key(batch: StrategyBatch) -> tuple[I64, I64]:
    """Two integers per strategy, equal where devices, TP, PP, VPP, EP, ETP and CP are equal."""
    first = (batch.tp << 42) | (batch.pp << 30) | (batch.vpp << 20) | batch.etp
    second = (batch.ep << 44) | (batch.cp << 28) | batch.devices
    return first, second


def best_first(candidates: Candidates) -> NDArray[np.intp]:
    """Order by score; scores equal to seven digits are ordered by memory, then by plainness, then by what they are."""
    return total_order(
        candidates.batch,
        candidates.score.astype(np.float32),
        candidates.reserved_bytes.astype(np.float32),
        departures(candidates.batch),
    )


IDENTITY = tuple(
    name for name in COLUMNS if name not in ("micro_batch_group", "layout")
)  # those two are told apart below


def total_order(batch: StrategyBatch, *keys: NDArray[Any]) -> NDArray[np.intp]:
    """Order by ``keys``, first most; equals by the strategy's own columns, never by where they stood in the batch."""
    order = np.lexsort(keys[::-1])
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    if not same.any():
        return order
    run = np.concatenate([[0], np.cumsum(~same)])
    tied = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    rows = order[tied]
    few = compact_layouts(batch.take(rows))
    columns = [getattr(few, name) for name in IDENTITY]
    order[tied] = rows[np.lexsort([layout_ranks(few), micro_batch_groups(few), *columns[::-1], run[tied]])]
    return order


def micro_batch_groups(batch: StrategyBatch) -> I64:
    """0 and pp are the same thing, [N]."""
    return np.where(batch.micro_batch_group == 0, batch.pp, batch.micro_batch_group)


def layout_identities(batch: StrategyBatch) -> list[tuple[str, str, bytes]]:
    return [(layout.key, layout.text, layout.counts.tobytes()) for layout in batch.layouts]


def layout_ranks(batch: StrategyBatch) -> I64:
    """Place of each strategy's layout among those of the batch in the order of their texts, [N]."""
    names = layout_identities(batch)
    rank = {name: i for i, name in enumerate(sorted(set(names)))}
    return np.array([rank[name] for name in names], dtype=np.int64)[batch.layout]


def identities_of(batch: StrategyBatch) -> list[tuple[object, ...]]:
    """One hashable value per strategy; 0 and pp as micro-batch group are the same thing."""
    columns = [getattr(batch, name).tolist() for name in IDENTITY]
    layouts = layout_identities(batch)
    groups = micro_batch_groups(batch).tolist()
    return list(zip(*columns, groups, [layouts[i] for i in batch.layout.tolist()], strict=True))


def first_of_equals(batch: StrategyBatch) -> Bool:
    """Strategies not seen before in the batch, [N]."""
    first = {row: i for i, row in reversed(list(enumerate(identities_of(batch))))}
    mask = np.zeros(len(batch), dtype=bool)
    mask[list(first.values())] = True
    return mask

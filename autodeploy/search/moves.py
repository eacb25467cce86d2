"""Around what the screen found: its strategies as a catalogue, and small moves on the axes too fine for the screen.

Micro-batch group size G of interleaved schedules, layers under full recompute, activation swap and optimizer offload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodeploy.search.candidates import compact_layouts, first_of_equals
from autodeploy.strategy.axes import Axes
from autodeploy.study.landscape import Catalogue, Landscape, Params, Value
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import I64, RECOMPUTE_BIT, Bool, Ladder, StrategyBatch

STEPS = 8  # swap, offload and layers under recompute move in eighths
EIGHTHS = tuple(i / STEPS for i in range(STEPS + 1))
MOVES: dict[str, tuple[Value, ...]] = {  # the first value leaves a strategy as it is
    "group_choice": (0, 1, 2, 3),
    "recompute_spared_frac": EIGHTHS[:-1],
    "swap_least_frac": EIGHTHS,
    "offload_least_frac": EIGHTHS,
}
Valid = Callable[[StrategyBatch], np.ndarray]


def landscape_around(
    pool: StrategyBatch, start: int, global_batch: int, valid: Valid, free: Mapping[str, bool]
) -> Landscape:
    """Every strategy of ``pool``, the first ``start`` of them tried first, and the moves left free. A move that the rules
    forbid is not made."""
    catalogue = Catalogue(pool)
    moves = {name: values for name, values in MOVES.items() if free[name]}

    def decode(trials: Sequence[Params]) -> StrategyBatch:
        origin = catalogue.decode(trials)
        moved = _moved(origin, trials, global_batch)
        allowed = valid(moved)
        return _choose(allowed, moved, origin)

    unmoved = {name: values[0] for name, values in moves.items()}
    return Landscape(
        choices={**catalogue.choices, **moves},
        decode=decode,
        start=[{**catalogue.params(i), **unmoved} for i in range(min(start, len(pool)))],
    )


def _moved(origin: StrategyBatch, trials: Sequence[Params], global_batch: int) -> StrategyBatch:
    def share(name: str) -> np.ndarray:
        return np.array([float(trial.get(name, 0)) for trial in trials], dtype=np.float64)

    group = _groups(origin, [int(trial.get("group_choice", 0)) for trial in trials], global_batch)
    layers = most_layers(origin)
    spared = np.floor(share("recompute_spared_frac") * layers).astype(np.int64)
    full = (origin.recompute & FULL) != 0
    covered = np.where(full & (spared > 0), layers - spared, origin.recompute_layers)
    return replace(
        origin,
        micro_batch_group=np.where(group > 0, group, origin.micro_batch_group),
        recompute_layers=covered,
        swap_frac=np.maximum(origin.swap_frac, share("swap_least_frac")),
        offload_frac=np.maximum(origin.offload_frac, share("offload_least_frac")),
    )


def _groups(origin: StrategyBatch, choices: Sequence[int], global_batch: int) -> np.ndarray:
    """Micro-batch group of each strategy under its choice, [N]; 0 keeps what is."""
    grouped = np.array([schedule.grouped for schedule in SCHEDULE_TABLE.values()])[origin.schedule] & (origin.vpp > 1)
    micro_batches = origin.micro_batches(global_batch)
    rows = zip(choices, origin.pp.tolist(), micro_batches.tolist(), grouped.tolist(), strict=True)
    return np.array([_group(choice, pp, m) if loops else 0 for choice, pp, m, loops in rows], dtype=np.int64)


def group_sizes(pp: int, micro_batches: int) -> list[int]:
    """Valid sizes G of a micro-batch group: pp <= G <= m, and m % G is 0 or at least pp. Smallest first."""
    return [g for g in range(pp, micro_batches + 1) if micro_batches % g == 0 or micro_batches % g >= pp]


def _group(choice: int, pp: int, micro_batches: int) -> int:
    """0 keeps what is; 1..3 take the smallest sizes above pp, which cost the least memory."""
    sizes = group_sizes(pp, min(micro_batches, 4 * pp))
    return sizes[min(choice, len(sizes) - 1)] if choice and sizes else 0


def _choose(allowed: np.ndarray, moved: StrategyBatch, origin: StrategyBatch) -> StrategyBatch:
    both = StrategyBatch.concatenate([moved, origin])
    n = len(origin)
    return compact_layouts(both.take(np.where(allowed, np.arange(n), np.arange(n) + n)))


def free_moves(axes: Axes) -> dict[str, bool]:
    """Which moves the user has left free: an axis given on the command line is not moved."""
    return {
        "group_choice": axes.micro_batch_group is None,
        "swap_least_frac": axes.swap is None,
        "offload_least_frac": axes.offload is None,
        "recompute_spared_frac": axes.recompute is None,
    }


# ------------------------------------------------------------------------------------- all moves, for the sweep

FULL = RECOMPUTE_BIT["full"]
Recompute = tuple[int, int]  # mask, and layers that "full" covers (0: all)


def base_variants(origins: StrategyBatch, global_batch: int, free: Mapping[str, bool]) -> StrategyBatch:
    """The origins without relief, each once, under every micro-batch group that the moves reach."""
    zero, none = np.zeros(len(origins), dtype=np.int64), np.zeros(len(origins))
    plain = replace(origins, recompute=zero, recompute_layers=zero, swap_frac=none, offload_frac=none)
    parts = [plain]
    for choice in MOVES["group_choice"][1:] if free["group_choice"] else ():
        group = _groups(plain, [int(choice)] * len(plain), global_batch)
        parts.append(replace(plain, micro_batch_group=group).take(group > 0))
    every = StrategyBatch.concatenate(parts)
    return compact_layouts(every.take(first_of_equals(every)))


@dataclass(frozen=True, slots=True)
class Reliefs:
    """What every base may take; ``spares``: also full recompute with some layers spared."""

    recomputes: tuple[Recompute, ...]
    swaps: tuple[float, ...]
    offloads: tuple[float, ...]
    spares: bool

    @property
    def none(self) -> bool:
        return (0, 0) in self.recomputes and 0.0 in self.swaps and 0.0 in self.offloads

    def among_valid(self, bases: StrategyBatch, valid: Valid) -> Reliefs:
        """With only the shares of swap and offload that some base may take: a back end may know all or nothing."""
        swaps = _somewhere(self.swaps, ladder_of([(0, 0)], self.swaps, [0.0]), bases, valid)
        offloads = _somewhere(self.offloads, ladder_of([(0, 0)], [0.0], self.offloads), bases, valid)
        return replace(self, swaps=swaps, offloads=offloads)

    def by_recompute(self, layers: I64) -> Ladder:
        """Every recompute with the least swap and offload, [B, R]; ``layers`` [B] of the bases' largest stages."""
        plain = ladder_of(self.recomputes, self.swaps[:1], self.offloads[:1])
        if not self.spares:
            return plain
        covered = spared_layers(layers)  # [B, eighths]
        wide = np.broadcast_to(plain.recompute_layers, (len(layers), len(plain)))
        full = ladder_of([(FULL, 0)] * covered.shape[1], self.swaps[:1], self.offloads[:1])
        both = {each.name: np.append(getattr(plain, each.name), getattr(full, each.name)) for each in fields(Ladder)}
        return Ladder(**both | {"recompute_layers": np.concatenate([wide, covered], axis=1)})

    def beside(self, recompute: I64, layers: I64) -> Ladder:
        """Every swap and offload but the least of both, beside each row's recompute [F]: [F, R]."""
        rest = ladder_of([(0, 0)], self.swaps, self.offloads).part(slice(1, None))
        shape = (len(recompute), len(rest))
        columns = {"recompute": recompute[:, None], "recompute_layers": layers[:, None]}
        return Ladder(
            **{
                each.name: np.broadcast_to(columns.get(each.name, getattr(rest, each.name)), shape)
                for each in fields(Ladder)
            }
        )


def reliefs_around(origins: StrategyBatch, free: Mapping[str, bool]) -> Reliefs:
    """Where an axis is the user's, what the origins have of it."""
    recomputes = set(zip(origins.recompute.tolist(), origins.recompute_layers.tolist(), strict=True))
    spares = free["recompute_spared_frac"]
    if spares:
        recomputes = {(0, 0), *(pair for pair in recomputes if not pair[0] & FULL)}
    return Reliefs(
        recomputes=tuple(sorted(recomputes)),
        swaps=EIGHTHS if free["swap_least_frac"] else tuple(np.unique(origins.swap_frac).tolist()),
        offloads=EIGHTHS if free["offload_least_frac"] else tuple(np.unique(origins.offload_frac).tolist()),
        spares=spares,
    )


def _somewhere(values: Sequence[float], ladder: Ladder, bases: StrategyBatch, valid: Valid) -> tuple[float, ...]:
    allowed = np.any(valid(ladder.expand(bases)).reshape(len(bases), len(ladder)), axis=0).tolist()
    return tuple(value for value, kept in zip(values, allowed, strict=True) if kept or value == 0.0)


def ladder_of(recomputes: Sequence[Recompute], swaps: Sequence[float], offloads: Sequence[float]) -> Ladder:
    """Every combination."""
    rungs = list(product(recomputes, swaps, offloads))
    return Ladder(
        recompute=np.array([mask for (mask, _), _, _ in rungs], dtype=np.int64),
        recompute_layers=np.array([layers for (_, layers), _, _ in rungs], dtype=np.int64),
        swap_frac=np.array([swap for _, swap, _ in rungs], dtype=np.float64),
        offload_frac=np.array([offload for _, _, offload in rungs], dtype=np.float64),
    )


def spared_layers(layers: I64) -> I64:
    """Layers of a stage left under full recompute where eighths of ``layers`` [B] are spared, [B, eighths]; 0: all of them. An
    eighth that spares no more layers than the one before is all of them again."""
    spared = (np.array(EIGHTHS[:-1]) * layers[:, None]).astype(np.int64)
    more = np.diff(spared, axis=1, prepend=0) > 0
    return np.where(more, layers[:, None] - spared, 0)


def repeated(ladder: Ladder) -> Bool:
    """Rungs that are full recompute of all layers once more."""
    whole = ((ladder.recompute & FULL) > 0) & (ladder.recompute_layers == 0)
    return np.asarray(whole & (np.cumsum(whole, axis=-1) > 1))


def rungs_at(ladder: Ladder, base: NDArray[np.intp], rung: NDArray[np.intp]) -> dict[str, Any]:
    """The columns of a ladder for some bases, each at its rung."""
    columns = {each.name: getattr(ladder, each.name) for each in fields(ladder)}
    return {name: value[rung] if value.ndim == 1 else value[base, rung] for name, value in columns.items()}


def most_layers(batch: StrategyBatch) -> I64:
    """Layers of each strategy's largest stage, [N]."""
    table = np.array([int(layout.layers_per_stage.max()) for layout in batch.layouts], dtype=np.int64)
    return table[batch.layout]

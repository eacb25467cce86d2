"""Around what the screen found: its strategies as a catalogue, and small moves on the axes too fine for the screen.

Micro-batch group size G of interleaved schedules, layers under full recompute, activation swap and optimizer offload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from autodeploy.search.candidates import compact_layouts
from autodeploy.strategy.axes import Axes
from autodeploy.study.landscape import Catalogue, Landscape, Params, Value
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import RECOMPUTE_BIT, SCHEDULES, StrategyBatch

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

    micro_batches = origin.micro_batches(global_batch)
    group = np.array(
        [
            _group(int(trial.get("group_choice", 0)), int(pp), int(m))
            if SCHEDULE_TABLE[SCHEDULES[code]].grouped and vpp > 1
            else 0
            for trial, pp, m, code, vpp in zip(
                trials, origin.pp, micro_batches, origin.schedule, origin.vpp, strict=True
            )
        ],
        dtype=np.int64,
    )
    layers = np.array([origin.layouts[i].layers_per_stage.max() for i in origin.layout])
    spared = np.floor(share("recompute_spared_frac") * layers).astype(np.int64)
    full = (origin.recompute & RECOMPUTE_BIT["full"]) != 0
    covered = np.where(full & (spared > 0), layers.astype(np.int64) - spared, origin.recompute_layers)
    return replace(
        origin,
        micro_batch_group=np.where(group > 0, group, origin.micro_batch_group),
        recompute_layers=covered,
        swap_frac=np.maximum(origin.swap_frac, share("swap_least_frac")),
        offload_frac=np.maximum(origin.offload_frac, share("offload_least_frac")),
    )


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

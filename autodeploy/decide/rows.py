"""Strategies as the error model sees them: where their time goes, what they are made of, what they run that is special.

Axes: N strategies, C causes, A axes, M mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.records import record
from cost_models.strategies import F64, RECOMPUTE_BIT, SCHEDULES, Bool, StrategyBatch

SIZES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")  # axes on which a doubling is a step
KINDS = (
    "recompute", "zero", "sequence_parallel", "attention", "schedule", "dispatcher", "ep_overlap", "offload", "swap", "layout",
)  # fmt: skip  # axes on which two values are alike or not; 0 is the default
AXES = SIZES + KINDS
MECHANISMS = (
    "vpp", "cp", "etp", "recompute", "zero3", "zero-bubble", "v-shaped", "dualpipe", "adaptive-pipe", "ragged-layout",
    "empty-stages", "ep-overlap", "hierarchical-dispatch", "offload", "swap",
)  # fmt: skip
PLAIN_SCHEDULES = ("none", "1f1b", "interleaved", "gpipe")
FAMILIES_OF_SCHEDULES = (
    ("zb-v", "v-shaped"),
    ("zb", "zero-bubble"),
    ("dualpipe", "dualpipe"),
    ("adaptive", "adaptive-pipe"),
)
OTHER_SCHEDULE = "zero-bubble"  # a schedule added later: as little measured


def schedule_family(name: str) -> str:
    """The mechanism that a schedule is; "" for the plain ones."""
    if name in PLAIN_SCHEDULES:
        return ""
    return next((family for start, family in FAMILIES_OF_SCHEDULES if name.startswith(start)), OTHER_SCHEDULE)


@record(eq=False)
class Rows:
    """N strategies of one problem. ``time_s`` [N, C] sums to a step; ``levels`` [N, A] are log2 of sizes and codes of kinds;
    ``mechanisms`` [N, M]; ``usage`` [N] is the predicted peak over the usable memory of a card."""

    causes: tuple[str, ...]
    time_s: F64
    levels: F64
    mechanisms: Bool
    usage: F64

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def step_s(self) -> F64:
        return self.time_s.sum(axis=1)

    @property
    def shares(self) -> F64:
        """Each cause's share of its step, [N, C]."""
        return self.time_s / self.step_s[:, None]

    def take(self, index: NDArray[np.intp] | Bool | slice) -> Rows:
        arrays: dict[str, Any] = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "causes"}
        return replace(self, **arrays)

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Joins rows that have the same causes."""
        names = [f.name for f in fields(Rows) if f.name != "causes"]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **arrays)


def rows_of(batch: StrategyBatch, time_s: Mapping[str, F64], peak_bytes: F64, usable_bytes: float) -> Rows:
    """A priced batch; ``time_s`` by cause, each [N]."""
    return Rows(
        causes=tuple(time_s),
        time_s=np.stack([np.asarray(seconds, dtype=float) for seconds in time_s.values()], axis=1),
        levels=levels_of(batch),
        mechanisms=mechanisms_of(batch),
        usage=np.asarray(peak_bytes, dtype=float) / usable_bytes,
    )


def levels_of(batch: StrategyBatch, attention: float = 0.0) -> F64:
    """Positions on the axes, [N, A]: log2 of sizes; kinds as codes, 0 the default. ``attention`` names the kernel."""
    sizes = [np.log2(np.maximum(getattr(batch, name), 1).astype(float)) for name in SIZES]
    plain = np.isin(batch.schedule, [SCHEDULES.index(name) for name in PLAIN_SCHEDULES])
    recompute = np.where(batch.recompute > 0, batch.recompute * 1000 + batch.recompute_layers, 0)
    kinds = [
        recompute,
        np.where(batch.zero_stage == 1, 0, batch.zero_stage + 1),
        batch.sequence_parallel != (batch.tp > 1),
        np.full(len(batch), attention),
        np.where(plain, 0, batch.schedule),
        batch.dispatcher,
        batch.ep_overlap,
        batch.offload_frac,
        batch.swap_frac,
        ragged(batch),
    ]
    return np.stack([*sizes, *(np.asarray(kind, dtype=float) for kind in kinds)], axis=1)


def ragged(batch: StrategyBatch) -> Bool:
    """Layouts whose stages hold numbers of layers that differ by more than one, or none at all, [N]."""
    return _by_layout(batch, _is_ragged)


def _by_layout(batch: StrategyBatch, says: Callable[[F64], bool]) -> Bool:
    table = np.array([says(layout.layers_per_stage) for layout in batch.layouts] or [False])
    return np.asarray(table[batch.layout], dtype=bool)


def _is_ragged(layers: F64) -> bool:
    return bool(layers.max() - layers.min() > 1 or layers.min() == 0) and len(layers) > 1


def _has_empty_stages(layers: F64) -> bool:
    """Stages between the first and the last that hold no layer: slots that only pass on."""
    return bool((layers[1:-1] == 0).any())


def mechanisms_of(batch: StrategyBatch) -> Bool:
    """What a strategy runs beyond plain data, tensor, pipeline and expert parallelism, [N, M]."""
    kind = np.array([schedule_family(name) for name in SCHEDULES])[batch.schedule]
    columns = {
        "vpp": (batch.vpp > 1) & (kind == ""),
        "cp": batch.cp > 1,
        "etp": batch.etp > 1,
        "recompute": (batch.recompute & ~RECOMPUTE_BIT["full"]) > 0,
        "zero3": batch.zero_stage >= 3,
        **{name: kind == name for name in ("zero-bubble", "v-shaped", "dualpipe", "adaptive-pipe")},
        "ragged-layout": ragged(batch),
        "empty-stages": _by_layout(batch, _has_empty_stages),
        "ep-overlap": batch.ep_overlap,
        "hierarchical-dispatch": (batch.dispatcher >= 2) & (batch.ep > 1),
        "offload": batch.offload_frac > 0,
        "swap": batch.swap_frac > 0,
    }
    return np.stack([np.asarray(columns[name], dtype=bool) for name in MECHANISMS], axis=1)

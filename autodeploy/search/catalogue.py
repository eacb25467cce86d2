"""The whole space as a landscape for a study: every parameter is an axis, repaired to the nearest valid strategy.

Axes: M strategies of the space, A axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autodeploy.search.candidates import compact_layouts
from autodeploy.search.refine import Landscape, Params
from autodeploy.search.request import SearchRequest
from autodeploy.search.space import Space, SpaceCounts, chunks
from cost_models.strategies import StrategyBatch

# Outermost first: an axis is repaired given those before it.
AXES = (
    "tp", "pp", "vpp", "ep", "cp", "etp", "dp", "micro_batch", "schedule", "ep_overlap", "dispatcher", "zero_stage",
    "recompute", "recompute_layers", "micro_batch_group", "offload_frac", "swap_frac", "sequence_parallel", "layout",
)  # fmt: skip


def landscape_of_space(request: SearchRequest, space: Space, counts: SpaceCounts) -> Landscape | None:
    """None where the space is empty. Walks the space once; prices nothing."""
    parts = list(chunks(space, request, counts))
    if not parts:
        return None
    batch = compact_layouts(StrategyBatch.concatenate(parts))
    values = [np.unique(getattr(batch, name)) for name in AXES]
    codes = np.stack(
        [np.searchsorted(v, getattr(batch, name)).astype(np.int32) for name, v in zip(AXES, values, strict=True)]
    )
    order = np.lexsort(codes[::-1])
    codes = codes[:, order]
    highs = {name: len(v) - 1 for name, v in zip(AXES, values, strict=True) if len(v) > 1}

    def decode(trials: Sequence[Params]) -> StrategyBatch:
        wanted = [[trial.get(name, 0) for name in AXES] for trial in trials]
        return compact_layouts(batch.take(order[[nearest_row(codes, row) for row in wanted]]))

    return Landscape(highs=highs, decode=decode)


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

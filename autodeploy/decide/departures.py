"""How far a strategy departs from the plainest one: what a team has to switch on, and can get wrong."""

from __future__ import annotations

import numpy as np

from autodeploy.decide.rows import AXES, Rows
from cost_models.strategies import F64, I64

# One each, whatever its value. TP, PP, EP, DP and sequence parallel with TP are sizes of the job, not departures.
COUNTED = ("cp", "etp", "micro_batch", "recompute", "zero", "swap", "offload", "ep_overlap", "dispatcher", "layout")
PIPELINE = ("vpp", "schedule")  # together one: VPP, or a schedule of its own


def departures(rows: Rows) -> I64:
    """Options that differ from the stack's defaults, [N]."""
    return departures_at(rows.levels)


def departures_at(levels_by_row: F64) -> I64:
    """The same of positions on the axes, [N, A] -> [N]."""
    levels = dict(zip(AXES, levels_by_row.T, strict=True))
    counted = [levels[name] != 0 for name in COUNTED]
    pipeline = np.any([levels[name] != 0 for name in PIPELINE], axis=0)
    return np.sum([*counted, pipeline], axis=0, dtype=np.int64)

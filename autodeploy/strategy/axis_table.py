"""The axes of a strategy, each told once: column, option, token, default.

Read by the notation, the command line, the study's catalogue, and what tells strategies apart. Outermost first: what an
axis may take depends on those before it. Axes: N strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import I64, SCHEDULE_CODE, StrategyBatch

Departs = Callable[[StrategyBatch], Any]  # [N] how far from the default, 0: not at all


@record
class Axis:
    """``column``: its name in ``Strategy``, ``StrategyBatch`` and JSON. ``option``: its name on the command line and in
    ``Axes``; "" where it has none of its own. ``token``: what stands before its number in the notation; "" where the
    notation spells it in words. ``default``: of a strategy that does not say; None where that depends on other axes."""

    column: str
    option: str
    token: str = ""
    default: int | float | str | tuple[str, ...] | None = None
    departs: Departs | None = None

    def departures(self, batch: StrategyBatch) -> I64:
        """[N]"""
        if self.departs is not None:
            return np.asarray(self.departs(batch)).astype(np.int64)
        return np.asarray(getattr(batch, self.column) != self.default).astype(np.int64)


def _schedule_departs(batch: StrategyBatch) -> Any:
    plain = np.where(batch.vpp > 1, SCHEDULE_CODE["interleaved"], SCHEDULE_CODE["1f1b"])
    return (batch.schedule != plain) & (batch.pp > 1)


def _overlap_departs(batch: StrategyBatch) -> Any:
    own = np.array([schedule.needs_overlap for schedule in SCHEDULE_TABLE.values()])[batch.schedule]
    return batch.ep_overlap != own


def _size_is_no_departure(batch: StrategyBatch) -> Any:
    return np.zeros(len(batch), dtype=np.int64)


AXIS_TABLE = (
    Axis(column="tp", option="tp", token="TP", default=1, departs=_size_is_no_departure),
    Axis(column="pp", option="pp", token="PP", default=1, departs=_size_is_no_departure),
    Axis(column="vpp", option="vpp", token="VPP", default=1, departs=_size_is_no_departure),
    Axis(column="ep", option="ep", token="EP", default=1, departs=_size_is_no_departure),
    Axis(column="cp", option="cp", token="CP", default=1, departs=_size_is_no_departure),
    Axis(column="etp", option="etp", token="ETP", default=1, departs=_size_is_no_departure),
    Axis(column="dp", option="dp", token="DP", default=0, departs=_size_is_no_departure),  # 0: from the cards
    Axis(column="micro_batch", option="micro_batch", token="MBS", default=1),
    Axis(column="schedule", option="schedule", departs=_schedule_departs),
    Axis(column="ep_overlap", option="ep_overlap", departs=_overlap_departs),
    Axis(column="dispatcher", option="dispatcher", default="alltoall", departs=lambda b: b.dispatcher != 0),
    Axis(column="zero_stage", option="zero", token="ZeRO", default=1),
    Axis(column="recompute", option="recompute", default=(), departs=lambda b: _bits(b.recompute)),
    Axis(column="recompute_layers", option="", default=0),  # written inside full(...)
    Axis(
        column="micro_batch_group", option="micro_batch_group", token="G", default=0,  # 0: PP
        departs=lambda b: (b.micro_batch_group != 0) & (b.micro_batch_group != b.pp),
    ),
    Axis(column="offload_frac", option="offload", token="offload", default=0.0),
    Axis(column="swap_frac", option="swap", token="swap", default=0.0),
    Axis(column="sequence_parallel", option="sequence_parallel", departs=lambda b: b.sequence_parallel != (b.tp > 1)),
    Axis(
        column="layout", option="layout", default="",
        departs=lambda b: np.array([bool(layout.key) for layout in b.layouts], dtype=bool)[b.layout],
    ),
)  # fmt: skip
COLUMNS = tuple(axis.column for axis in AXIS_TABLE)
OPTIONS = tuple(axis.option for axis in AXIS_TABLE if axis.option)
TOKEN_OF = {axis.column: axis.token for axis in AXIS_TABLE if axis.token}
COUNTS = tuple(axis.column for axis in AXIS_TABLE if axis.token and isinstance(axis.default, int))
SHARES = tuple(axis.column for axis in AXIS_TABLE if axis.token and isinstance(axis.default, float))
DEFAULT_OF = {axis.column: axis.default for axis in AXIS_TABLE if axis.default is not None}


def _bits(mask: I64) -> I64:
    return np.asarray(sum((mask.astype(np.int64) >> i) & 1 for i in range(16)))


def departures(batch: StrategyBatch) -> I64:
    """How many options of each strategy differ from the defaults, [N]."""
    return np.sum([axis.departures(batch) for axis in AXIS_TABLE], axis=0)

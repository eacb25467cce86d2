"""1F1B, PipeDream-flush (Narayanan et al. 2021, arXiv 2104.04473)."""

from __future__ import annotations

from autodeploy.schedule.operations import (
    PipelineShape,
    Schedule,
    loop_placement,
    one_direction,
    require_single_chunk,
    slots_of,
)
from cost_models.schedules.one_f_one_b import one_f_one_b_orders


def one_f_one_b(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); min(m, p-r) micro-batches in flight on rank r."""
    require_single_chunk("1f1b", shape)
    orders = slots_of(one_f_one_b_orders(shape.pp, 1, shape.micro_batches, 0))
    return one_direction("1f1b", shape, loop_placement(shape.pp, 1), orders)

"""1F1B, PipeDream-flush (Narayanan et al. 2021, arXiv 2104.04473)."""

from __future__ import annotations

from autodeploy.schedule.operations import (
    B,
    F,
    PipelineShape,
    Schedule,
    Slot,
    loop_placement,
    one_direction,
    require_single_chunk,
)


def one_f_one_b(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); min(m, p-r) micro-batches in flight on rank r."""
    require_single_chunk("1f1b", shape)
    orders = [_rank_order(shape, rank) for rank in range(shape.pp)]
    return one_direction("1f1b", shape, loop_placement(shape.pp, 1), orders)


def _rank_order(shape: PipelineShape, rank: int) -> list[Slot]:
    m = shape.micro_batches
    warm_up = min(m, shape.pp - rank - 1)
    order: list[Slot] = [((F, rank, i),) for i in range(warm_up)]
    for i in range(m - warm_up):
        order += [((F, rank, warm_up + i),), ((B, rank, i),)]
    return order + [((B, rank, i),) for i in range(m - warm_up, m)]

"""GPipe: all forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965)."""

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


def gpipe(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); all m micro-batches in flight on every rank."""
    require_single_chunk("gpipe", shape)
    orders = [_rank_order(shape.micro_batches, rank) for rank in range(shape.pp)]
    return one_direction("gpipe", shape, loop_placement(shape.pp, 1), orders)


def _rank_order(micro_batches: int, rank: int) -> list[Slot]:
    forwards: list[Slot] = [((F, rank, i),) for i in range(micro_batches)]
    return forwards + [((B, rank, i),) for i in range(micro_batches)]

"""GPipe: all forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965)."""

from __future__ import annotations

from autodeploy.schedule.operations import (
    B,
    F,
    PipelineShape,
    Schedule,
    loop_placement,
    one_direction,
    require_single_chunk,
)


def gpipe(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); all m micro-batches in flight on every rank."""
    require_single_chunk("gpipe", shape)
    micro_batches = range(shape.micro_batches)
    orders = [[((F, r, i),) for i in micro_batches] + [((B, r, i),) for i in micro_batches] for r in range(shape.pp)]
    return one_direction("gpipe", shape, loop_placement(shape.pp, 1), orders)

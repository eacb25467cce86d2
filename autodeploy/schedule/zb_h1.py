"""ZB-H1: 1F1B with the weight part held back, at the memory of 1F1B (Qi et al. 2023, arXiv 2401.10241, section 2.3)."""

from __future__ import annotations

from autodeploy.schedule.operations import (
    PipelineShape,
    Schedule,
    loop_placement,
    of_arrays,
    require_single_chunk,
)
from autodeploy.schedule.turns import split_in_turn


def zero_bubble_h1(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B-2W), B the full backward; at most p micro-batches held on any rank, as rank 0 of 1F1B."""
    require_single_chunk("zb-h1", shape)
    return of_arrays("zb-h1", shape, loop_placement(shape.pp, 1), *split_in_turn(shape))

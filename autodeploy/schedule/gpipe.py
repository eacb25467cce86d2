"""GPipe: all forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965)."""

from __future__ import annotations

import numpy as np

from autodeploy.schedule.operations import PipelineShape, Schedule, loop_placement, of_arrays, require_single_chunk
from autodeploy.schedule.turns import in_turn


def gpipe(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); all m micro-batches in flight on every rank."""
    require_single_chunk("gpipe", shape)
    warm_up = np.full(shape.pp, shape.micro_batches)
    return of_arrays("gpipe", shape, loop_placement(shape.pp, 1), *in_turn(shape, warm_up))

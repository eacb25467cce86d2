"""1F1B, PipeDream-flush (Narayanan et al. 2021, arXiv 2104.04473)."""

from __future__ import annotations

import numpy as np

from autodeploy.schedule.operations import PipelineShape, Schedule, loop_placement, of_arrays, require_single_chunk
from autodeploy.schedule.turns import in_turn


def one_f_one_b(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B); min(m, p-r) micro-batches in flight on rank r."""
    require_single_chunk("1f1b", shape)
    warm_up = np.minimum(shape.micro_batches, np.arange(shape.pp)[::-1])
    return of_arrays("1f1b", shape, loop_placement(shape.pp, 1), *in_turn(shape, warm_up))

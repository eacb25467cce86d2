"""Adaptive Pipe: interleaved pipelining in which a rank runs two streams side by side; one copy of the weights.

Steady phase: the forward of one micro-batch beside the backward of another (one more warm-up chunk than interleaved, so
that the two never depend on each other; as Megatron's `--overlap-moe-expert-parallel-comm`). Warm-up and cool-down,
where only one direction runs: two micro-batches of that direction, if `pair_ends`. Which segments of the two streams
take the three lanes when is decided by the lane order (`lane_orders.py`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.schedule.interleaved import check_group, warm_up_chunks
from autodeploy.schedule.operations import PipelineShape, Schedule, loop_placement, of_arrays
from autodeploy.schedule.turns import side_by_side


def adaptive_pipe(shape: PipelineShape) -> Schedule:
    """In flight: min(mv, 2(p-r-1) + (v-1)G + 2) chunks on rank r."""
    return adaptive_pipe_with(shape, pair_warm_up=True, pair_cool_down=True)


def adaptive_pipe_with(shape: PipelineShape, pair_warm_up: bool, pair_cool_down: bool) -> Schedule:
    """As `adaptive_pipe`, with the overlap of two micro-batches of one direction in either end on or off."""
    check_group(shape)
    shape = replace(shape, ep_overlap=True)
    warm_up = np.array([warm_up_chunks(shape, rank) for rank in range(shape.pp)])
    ops, first = side_by_side(shape, warm_up, pair_warm_up, pair_cool_down)
    return of_arrays("adaptive-pipe", shape, loop_placement(shape.pp, shape.vpp), ops, first)

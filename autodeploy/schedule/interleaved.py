"""Interleaved 1F1B in Megatron-LM's order, any micro-batch group size.

Source: Megatron-LM `core/pipeline_parallel/schedules.py`, `forward_backward_pipelining_with_interleaving`,
`get_pp_rank_microbatches` and `get_schedule_table`.
"""

from __future__ import annotations

import numpy as np

from autodeploy.schedule.operations import PipelineShape, Schedule, ScheduleError, loop_placement, of_arrays
from autodeploy.schedule.turns import in_turn
from cost_models.schedules.interleaved import runs_in_groups


def interleaved(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B)/v; min(mv, 2(p-r-1)+(v-1)G+1) chunks in flight on rank r (one more with EP overlap)."""
    check_group(shape)
    warm_up = np.array([warm_up_chunks(shape, rank) for rank in range(shape.pp)])
    return of_arrays("interleaved", shape, loop_placement(shape.pp, shape.vpp), *in_turn(shape, warm_up))


def check_group(shape: PipelineShape) -> None:
    """p <= G <= m, and the last group is whole or at least p long (Megatron); or one group of all (torch)."""
    p, m, group = shape.pp, shape.micro_batches, shape.group_size
    if shape.vpp == 1 or runs_in_groups(p, m, group):
        return
    if not p <= group <= m:
        raise ScheduleError("interleaved: group", group, f"between pp = {p} and the micro-batch count {m}")
    fits = [g for g in range(p, m + 1) if m % g == 0 or m % g >= p]
    raise ScheduleError("interleaved: group", group, f"such that {m} % group is 0 or >= pp = {p}; these do: {fits[:8]}")


def warm_up_chunks(shape: PipelineShape, rank: int) -> int:
    """Forward chunks of `rank` before its first backward slot: 2(p-r-1) + (v-1)G, +1 with EP overlap.

    With one chunk a rank Megatron runs plain 1F1B: p-r-1.
    """
    total = shape.micro_batches * shape.vpp
    if shape.vpp == 1:
        return min(total, shape.pp - rank - 1 + shape.ep_overlap)
    return min(total, 2 * (shape.pp - rank - 1) + (shape.vpp - 1) * shape.group_size + shape.ep_overlap)

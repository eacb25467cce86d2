"""Interleaved 1F1B in Megatron-LM's order, any micro-batch group size.

Source: Megatron-LM `core/pipeline_parallel/schedules.py`, `forward_backward_pipelining_with_interleaving`,
`get_pp_rank_microbatches` and `get_schedule_table`.
"""

from __future__ import annotations

from autodeploy.schedule.operations import (
    B,
    F,
    PipelineShape,
    Schedule,
    ScheduleError,
    Slot,
    loop_placement,
    one_direction,
)


def interleaved(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B)/v; min(mv, 2(p-r-1)+(v-1)G+1) chunks in flight on rank r (one more with EP overlap)."""
    check_group(shape)
    orders = [_rank_order(shape, rank) for rank in range(shape.pp)]
    return one_direction("interleaved", shape, loop_placement(shape.pp, shape.vpp), orders)


def check_group(shape: PipelineShape) -> None:
    """Megatron's rule: p <= G <= m, and the last group is whole or at least p long."""
    p, m, group = shape.pp, shape.micro_batches, shape.group_size
    if shape.vpp == 1:
        return
    if not p <= group <= m:
        raise ScheduleError("interleaved: group", group, f"between pp = {p} and the micro-batch count {m}")
    if 0 < m % group < p:
        fits = [g for g in range(p, m + 1) if m % g == 0 or m % g >= p]
        raise ScheduleError(
            "interleaved: group", group, f"such that {m} % group is 0 or >= pp = {p}; these do: {fits[:8]}"
        )


def chunk_table(shape: PipelineShape) -> list[tuple[int, int]]:
    """(chunk, micro-batch) of each forward, the same on all ranks: groups of G, chunk by chunk."""
    table = []
    for first in range(0, shape.micro_batches, shape.group_size):
        last = min(first + shape.group_size, shape.micro_batches)
        table += [(chunk, i) for chunk in range(shape.vpp) for i in range(first, last)]
    return table


def warm_up_chunks(shape: PipelineShape, rank: int) -> int:
    """Forward chunks of `rank` before its first backward slot: 2(p-r-1) + (v-1)G, +1 with EP overlap.

    With one chunk a rank Megatron runs plain 1F1B: p-r-1.
    """
    total = shape.micro_batches * shape.vpp
    if shape.vpp == 1:
        return min(total, shape.pp - rank - 1 + shape.ep_overlap)
    return min(total, 2 * (shape.pp - rank - 1) + (shape.vpp - 1) * shape.group_size + shape.ep_overlap)


def chunk_operations(shape: PipelineShape, rank: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """All forwards and all backwards of `rank`, each in its own order."""
    table = chunk_table(shape)
    forwards = [(F, chunk * shape.pp + rank, i) for chunk, i in table]
    backwards = [(B, (shape.vpp - 1 - chunk) * shape.pp + rank, i) for chunk, i in table]
    return forwards, backwards


def _rank_order(shape: PipelineShape, rank: int) -> list[Slot]:
    forwards, backwards = chunk_operations(shape, rank)
    warm_up = warm_up_chunks(shape, rank)
    order: list[Slot] = [(op,) for op in forwards[:warm_up]]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [(forward,), (backward,)]
    return order + [(op,) for op in backwards[len(forwards) - warm_up :]]

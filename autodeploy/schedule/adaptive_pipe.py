"""Adaptive Pipe: interleaved pipelining in which a rank runs two streams side by side; one copy of the weights.

Steady phase: the forward of one micro-batch beside the backward of another (one more warm-up chunk than interleaved, so
that the two never depend on each other; as Megatron's `--overlap-moe-expert-parallel-comm`). Warm-up and cool-down,
where only one direction runs: two micro-batches of that direction, if `pair_ends`. Which segments of the two streams
take the three lanes when is decided by the lane order (`lane_orders.py`).
"""

from __future__ import annotations

from dataclasses import replace

from autodeploy.schedule.interleaved import check_group, chunk_operations, warm_up_chunks
from autodeploy.schedule.operations import Op, PipelineShape, Schedule, Slot, loop_placement, one_direction


def adaptive_pipe(shape: PipelineShape) -> Schedule:
    """In flight: min(mv, 2(p-r-1) + (v-1)G + 2) chunks on rank r."""
    return adaptive_pipe_with(shape, pair_warm_up=True, pair_cool_down=True)


def adaptive_pipe_with(shape: PipelineShape, pair_warm_up: bool, pair_cool_down: bool) -> Schedule:
    """As `adaptive_pipe`, with the overlap of two micro-batches of one direction in either end on or off."""
    check_group(shape)
    shape = replace(shape, ep_overlap=True)
    orders = [_rank_order(shape, rank, pair_warm_up, pair_cool_down) for rank in range(shape.pp)]
    return one_direction("adaptive-pipe", shape, loop_placement(shape.pp, shape.vpp), orders)


def _rank_order(shape: PipelineShape, rank: int, pair_warm_up: bool, pair_cool_down: bool) -> list[Slot]:
    forwards, backwards = chunk_operations(shape, rank)
    warm_up = warm_up_chunks(shape, rank)
    order = _one_way(forwards[:warm_up], pair_warm_up)
    order += list(zip(forwards[warm_up:], backwards, strict=False))
    return order + _one_way(backwards[len(forwards) - warm_up :], pair_cool_down)


def _one_way(ops: list[Op], pair: bool) -> list[Slot]:
    """Micro-batches 2k and 2k+1 of the same stage go together on every rank, so pairs never wait in a circle."""
    slots: list[Slot] = []
    position = 0
    while position < len(ops):
        op = ops[position]
        follows = ops[position + 1] if position + 1 < len(ops) else None
        if pair and follows and follows[1] == op[1] and op[2] % 2 == 0 and follows[2] == op[2] + 1:
            slots.append((op, follows))
            position += 2
        else:
            slots.append((op,))
            position += 1
    return slots

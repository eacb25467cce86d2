"""Orders of looped stages as arrays: warm-up forwards, then a forward and a backward in turn or side by side.

Axes: P ranks, T = M x V forwards (and as many backwards) of a rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.operations import I32, I64, B, F, I, PipelineShape, W
from cost_models.schedules.interleaved import chunk_table

Bool = NDArray[np.bool_]


def turn_operations(shape: PipelineShape) -> tuple[I32, I32]:
    """All forwards and all backwards of every rank, each in its own order, [P, T, 3]."""
    chunk, micro_batch = np.array(chunk_table(shape.vpp, shape.micro_batches, shape.group_size), dtype=np.int32).T
    rank = np.arange(shape.pp, dtype=np.int32)[:, None]
    ops = []
    for kind, of_chunk in ((F, chunk), (B, shape.vpp - 1 - chunk)):
        stage = of_chunk * shape.pp + rank
        ops.append(np.stack(np.broadcast_arrays(np.int32(kind), stage, micro_batch), axis=2))
    return ops[0], ops[1]


def in_turn(shape: PipelineShape, warm_up: I64) -> tuple[I32, I64]:
    """`ops` and `first` of a schedule in which rank r runs `warm_up[r]` forwards, then one and one, then the backwards."""
    forwards, backwards = turn_operations(shape)
    turn, held = np.arange(forwards.shape[1]), warm_up[:, None]
    ops = np.full((shape.pp, 2 * len(turn), 2, 3), -1, dtype=np.int32)
    rank = np.arange(shape.pp)[:, None]
    ops[rank, np.where(turn < held, turn, 2 * turn - held), 0] = forwards
    ops[rank, np.where(turn < len(turn) - held, 2 * turn + 1 + held, len(turn) + turn), 0] = backwards
    return ops.reshape(-1, 2, 3), np.arange(shape.pp + 1) * 2 * len(turn)


def split_in_turn(shape: PipelineShape) -> tuple[I32, I64]:
    """`ops` and `first` of ZB-H1: rank r runs p-1-r forwards, then a forward, an input backward and a weight part in turn, the
    weight parts r turns late; one chunk a rank."""
    m, rank, turn = shape.micro_batches, np.arange(shape.pp)[:, None], np.arange(shape.micro_batches)
    warm_up, late = np.minimum(m, shape.pp - 1 - rank), rank
    has_forward = turn < m - warm_up
    at = warm_up + turn + np.minimum(turn, m - warm_up) + np.maximum(turn - late, 0)  # where a turn starts
    inputs = at + has_forward
    weights = np.where(
        turn + late < m, np.take_along_axis(inputs, np.minimum(turn + late, m - 1), axis=1) + 1, 2 * m + turn
    )
    forwards = np.where(turn < warm_up, turn, np.take_along_axis(at, np.maximum(turn - warm_up, 0), axis=1))
    ops = np.full((shape.pp, 3 * m, 2, 3), -1, dtype=np.int32)
    for kind, place in ((F, forwards), (I, inputs), (W, weights)):
        stage, micro_batch = np.broadcast_arrays(rank, turn)
        ops[rank, place, 0] = np.stack([np.full_like(stage, kind), stage, micro_batch], axis=2)
    return ops.reshape(-1, 2, 3), np.arange(shape.pp + 1) * 3 * m


def side_by_side(shape: PipelineShape, warm_up: I64, pair_warm_up: bool, pair_cool_down: bool) -> tuple[I32, I64]:
    """As `in_turn`, with the forward and the backward of a turn in one slot; in either end, where only one direction
    runs, two micro-batches of that direction, if asked for."""
    forwards, backwards = turn_operations(shape)
    turn, held = np.arange(forwards.shape[1]), warm_up[:, None]
    steady = len(turn) - held
    up = _second_of_pair(forwards, 0 * held, held) & pair_warm_up
    down = _second_of_pair(backwards, steady, steady + held) & pair_cool_down
    slot_f = np.cumsum(~up, axis=1) - 1  # every forward starts a slot but the seconds of the warm-up
    slot_b = (held - up.sum(axis=1, keepdims=True)) + np.cumsum(~down, axis=1) - 1
    count = slot_b[:, -1] + 1
    first = np.concatenate([[0], np.cumsum(count)])
    ops = np.full((first[-1], 2, 3), -1, dtype=np.int32)
    ops[first[:-1, None] + slot_f, up.astype(np.int64)] = forwards
    ops[first[:-1, None] + slot_b, (down | (turn < steady)).astype(np.int64)] = backwards
    return ops, first


def _second_of_pair(ops: I32, low: I64, high: I64) -> Bool:
    """Operations that go with the one before, [P, T], among the turns low <= t < high of each rank: micro-batches 2k and
    2k + 1 of the same stage go together on every rank, so that pairs never wait in a circle."""
    turn = np.arange(ops.shape[1])
    found = np.zeros(ops.shape[:2], dtype=bool)
    same = ops[:, 1:, 1] == ops[:, :-1, 1]
    follows = (ops[:, :-1, 2] % 2 == 0) & (ops[:, 1:, 2] == ops[:, :-1, 2] + 1)
    found[:, 1:] = same & follows
    return np.asarray(found & (turn > low) & (turn < high))

"""Saved activations in flight: how many of each stage a rank holds at most.

Axes: N strategies, S stages, P pipeline ranks, V chunks of a rank.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, in_flight_chunks
from cost_models.step.geometry import LayoutGeometry
from cost_models.step.group import PricedBatch
from cost_models.strategies import F64, I64, SCHEDULES


def held_on_stages(group: PricedBatch) -> F64:
    """Micro-batches of each stage that the ranks hold, [N, S, P]. Forward/backward EP overlap runs one more forward ahead."""
    keys, tables = _distinct(group)
    stages, ranks = group.geometry.onto.shape[1:]
    held = np.zeros((len(tables), stages, ranks))
    for i, table in enumerate(tables):
        held[i, : table.shape[0], : table.shape[1]] = table
    return held[keys]


def fullest_ranks(group: PricedBatch) -> I64:
    """Pipeline rank that holds most chunks among those of each distinct rank, the first of them, [N, P]."""
    out = np.zeros((len(group.batch), group.geometry.onto.shape[2]), dtype=np.int64)
    names, index = _shapes(group)
    for i, (geometry, *shape) in enumerate(names):
        one = group.geometry.each[geometry]
        chunks = _chunks(*shape, one.pp, one.vpp)
        at = [int(np.argmax(np.where(one.rank == p, chunks, -1.0))) for p in range(one.onto.shape[1])]
        out[index == i, : len(at)] = at
    return out


def first_ranks(group: PricedBatch) -> I64:
    """The first pipeline rank of each distinct one, [N, P]."""
    geometry = group.geometry
    first = np.zeros((len(geometry.each), geometry.ranks), dtype=np.int64)
    for g, one in enumerate(geometry.each):
        _, first[g, : one.onto.shape[1]] = np.unique(one.rank, return_index=True)
    return first[geometry.of]


def _distinct(group: PricedBatch) -> tuple[I64, list[F64]]:
    names, index = _shapes(group)
    each = group.geometry.each
    return index, [_of_shape(each[geometry], *shape) for geometry, *shape in names]


def _shapes(group: PricedBatch) -> tuple[list[tuple[int, ...]], I64]:
    """Distinct (geometry, schedule, overlap, micro-batches, group), and which of them each strategy has, [N]."""
    columns = (
        group.geometry.of, group.batch.schedule, group.batch.ep_overlap.astype(np.int64), group.micro_batches,
        group.micro_batch_group,
    )  # fmt: skip
    key = np.zeros(len(group.batch), dtype=np.int64)
    for column in columns:
        _, code = np.unique(column, return_inverse=True)
        key = key * (int(code.max(initial=0)) + 1) + code.reshape(-1)
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    return [tuple(int(column[i]) for column in columns) for i in first], index.reshape(-1)


@lru_cache(maxsize=65536)
def _chunks(schedule: int, overlap: int, micro_batches: int, group: int, pp: int, vpp: int) -> F64:
    """Most chunks that each rank holds, [pp]."""
    record = SCHEDULE_TABLE[SCHEDULES[schedule]]
    name = (record.overlapped_as or record.name) if overlap else record.name
    return in_flight_chunks(name, pp, vpp, micro_batches, group)[0]


@lru_cache(maxsize=65536)
def _of_shape(one: LayoutGeometry, schedule: int, overlap: int, micro_batches: int, group: int) -> F64:
    """[S, P]: of ranks that hold the same layers the most that one of them has in flight."""
    chunks = _chunks(schedule, overlap, micro_batches, group, one.pp, one.vpp)
    ranks = one.onto.shape[1]
    most = np.array([chunks[one.rank == p].max() for p in range(ranks)])
    held = np.zeros(one.onto.shape)
    if one.placement == "both-ends":
        own = (np.arange(ranks) + 1.0) / (ranks + 1.0)  # of p + 1 in flight r + 1 came from the other end
        stages = one.held[0]
        np.add.at(held, (stages, np.arange(ranks)), most * (1.0 - own))
        np.add.at(held, (stages[::-1], np.arange(ranks)), most * own)
        return held
    by_chunk = in_flight_v(most, one.vpp) if one.placement == "v" else in_flight_by_chunk(most, group, one.vpp)
    np.add.at(held, (one.held, np.broadcast_to(np.arange(ranks), one.held.shape)), by_chunk)
    return held


def in_flight_by_chunk(total: F64, group: int, vpp: int) -> F64:
    """Spreads each rank's in-flight chunk count [P] over its chunks, in the interleaved order: groups of ``group``
    micro-batches of chunk 0, then of chunk 1, and round again. Returns [V, P]."""
    if vpp == 1:
        return total[None, :]
    chunk = np.arange(vpp, dtype=float)[:, None]
    first_round = np.clip(total - chunk * group, 0.0, group)
    rest = np.maximum(total - vpp * group, 0.0)
    return np.asarray(first_round + np.clip(rest - chunk * group, 0.0, None) * (chunk == 0))


def in_flight_v(total: F64, vpp: int) -> F64:
    """V-shaped schedules keep about as many micro-batches of each half: [P] -> [V, P]."""
    return np.repeat(total[None, :] / vpp, vpp, axis=0)

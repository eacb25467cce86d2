"""Saved activations in flight: how many of each stage a rank holds at most.

Axes: N strategies, S stages, P distinct ranks, V chunks of a rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, in_flight_chunks
from cost_models.step.geometry import LayoutGeometry
from cost_models.step.group import PricedBatch
from cost_models.strategies import F64, I64, SCHEDULES


def held_on_stages(group: PricedBatch) -> F64:
    """Micro-batches of each stage that the ranks hold, [N, S, P]: of ranks that hold the same layers the most that one of
    them has in flight. Forward/backward EP overlap runs one more forward ahead."""
    out = np.zeros((len(group.batch), *group.geometry.onto.shape[1:]))
    sizes = group.micro_batch_group
    for rows, one, chunks in _chunks(group):
        most = np.maximum.reduceat(chunks[:, one.by_kind], one.kind_starts, axis=1)
        stages, ranks = one.onto.shape
        out[rows, :stages, :ranks] = _on_stages(one, most, sizes[rows])
    return out


def fullest_ranks(group: PricedBatch) -> I64:
    """Pipeline rank that holds most chunks among those of each distinct rank, the first of them, [N, P]."""
    out = np.zeros((len(group.batch), group.geometry.ranks), dtype=np.int64)
    for rows, one, chunks in _chunks(group):
        for p in range(one.onto.shape[1]):
            out[rows, p] = np.argmax(np.where(one.rank == p, chunks, -1.0), axis=1)
    return out


def first_ranks(group: PricedBatch) -> I64:
    """The first pipeline rank of each distinct one, [N, P]."""
    geometry = group.geometry
    first = np.zeros((len(geometry.each), geometry.ranks), dtype=np.int64)
    for g, one in enumerate(geometry.each):
        first[g, : one.onto.shape[1]] = one.by_kind[one.kind_starts]
    return first[geometry.of]


def _chunks(group: PricedBatch) -> Iterator[tuple[I64, LayoutGeometry, F64]]:
    """Rows of one geometry and schedule, and the most chunks that each of their ranks holds, [n, all ranks]."""
    batch, micro_batches, sizes = group.batch, group.micro_batches, group.micro_batch_group
    key = (group.geometry.of * len(SCHEDULES) + batch.schedule) * 2 + batch.ep_overlap
    names, index = np.unique(key, return_inverse=True)
    order = np.argsort(index.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(index.reshape(-1)))
    for name, rows in zip(names.tolist(), np.split(order, ends[:-1]), strict=True):
        kind, overlap = divmod(name, 2)
        geometry, schedule = divmod(kind, len(SCHEDULES))
        record, one = SCHEDULE_TABLE[SCHEDULES[schedule]], group.geometry.each[geometry]
        order_run = (record.overlapped_as or record.name) if overlap else record.name
        yield rows, one, in_flight_chunks(order_run, one.pp, one.vpp, micro_batches[rows], sizes[rows])


def _on_stages(one: LayoutGeometry, most: F64, group: I64) -> F64:
    """Chunks in flight [n, P] of one geometry, spread over the stages that the ranks hold, [n, S, P]."""
    ranks = np.arange(one.onto.shape[1])
    held = np.zeros((len(most), *one.onto.shape))
    if one.placement == "both-ends":
        own = (ranks + 1.0) / (len(ranks) + 1.0)  # of p + 1 in flight r + 1 came from the other end
        held[:, one.held[0], ranks] += most * (1.0 - own)
        held[:, one.held[0][::-1], ranks] += most * own
        return held
    by_chunk = in_flight_v(most, one.vpp) if one.placement == "v" else in_flight_by_chunk(most, group, one.vpp)
    for chunk, stages in enumerate(one.held):
        held[:, stages, ranks] += by_chunk[:, chunk]
    return held


def in_flight_by_chunk(total: F64, group: I64, vpp: int) -> F64:
    """Spreads each rank's in-flight chunk count [n, P] over its chunks, in the interleaved order: groups of ``group``
    micro-batches of chunk 0, then of chunk 1, and round again. Returns [n, V, P]."""
    count, g = total[:, None, :], group[:, None, None]
    if vpp == 1:
        return count
    chunk = np.arange(vpp, dtype=float)[None, :, None]
    first_round = np.clip(count - chunk * g, 0.0, g)
    rest = np.maximum(count - vpp * g, 0.0)
    return np.asarray(first_round + np.clip(rest - chunk * g, 0.0, None) * (chunk == 0))


def in_flight_v(total: F64, vpp: int) -> F64:
    """V-shaped schedules keep about as many micro-batches of each half: [n, P] -> [n, V, P]."""
    return np.repeat(total[:, None, :] / vpp, vpp, axis=1)

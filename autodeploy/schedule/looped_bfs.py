"""Looped BFS: all micro-batches of a chunk, chunk after chunk, then all backwards (Lamy-Poirier 2022, arXiv 2211.05953)."""

from __future__ import annotations

from autodeploy.schedule.operations import PipelineShape, Schedule, loop_placement, one_by_one
from cost_models.schedules.looped_bfs import looped_bfs_orders


def looped_bfs(shape: PipelineShape) -> Schedule:
    """Bubble (p-1)(F+B)/v for m >= p; all m v chunks in flight on every rank."""
    orders = looped_bfs_orders(shape.pp, shape.vpp, shape.micro_batches, 0)
    return one_by_one("looped-bfs", shape, loop_placement(shape.pp, shape.vpp), orders)

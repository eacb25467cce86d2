"""Interleaved zero bubble in the fixed order of torch.distributed.pipelining (ScheduleInterleavedZeroBubble)."""

from __future__ import annotations

from autodeploy.schedule.interleaved import check_group
from autodeploy.schedule.operations import PipelineShape, Schedule, loop_placement, one_by_one
from cost_models.schedules.interleaved_zero_bubble import interleaved_zero_bubble_orders


def interleaved_zero_bubble(shape: PipelineShape) -> Schedule:
    """In flight: min(mv, p-r + (v-1)G) chunks on rank r."""
    check_group(shape)
    orders = interleaved_zero_bubble_orders(shape.pp, shape.vpp, shape.micro_batches, shape.group_size)
    return one_by_one("interleaved-zero-bubble", shape, loop_placement(shape.pp, shape.vpp), orders)

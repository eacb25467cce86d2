"""ZB-V in the fixed order of torch.distributed.pipelining (ScheduleZBVZeroBubble), which torchtitan launches.

Its idea is that of arXiv 2405.15362; `zb_v_auto.py` plans the same fold with the costs at hand.
"""

from __future__ import annotations

from autodeploy.schedule.operations import (
    PipelineShape,
    Schedule,
    one_by_one,
    require_two_chunks,
    v_placement,
)
from cost_models.schedules.v_shaped import zb_v_orders


def zero_bubble_v(shape: PipelineShape) -> Schedule:
    """At most 2p half-stage chunks held on a rank; no bubble but the way down when F = I = W."""
    require_two_chunks("zb-v", shape)
    orders = zb_v_orders(shape.pp, 2, shape.micro_batches, 0)
    return one_by_one("zb-v", shape, v_placement(shape.pp), orders)

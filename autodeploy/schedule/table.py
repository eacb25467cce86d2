"""All schedules by name. A new one: a file with a function, and a line here; the tests run over this table."""

from __future__ import annotations

from autodeploy.schedule.adaptive_pipe import adaptive_pipe
from autodeploy.schedule.dualpipe import dualpipe, dualpipev
from autodeploy.schedule.gpipe import gpipe
from autodeploy.schedule.interleaved import interleaved
from autodeploy.schedule.one_f_one_b import one_f_one_b
from autodeploy.schedule.operations import PipelineShape, Schedule, ScheduleError, ScheduleFn
from autodeploy.schedule.zb_auto import zero_bubble_1p, zero_bubble_2p
from autodeploy.schedule.zb_h1 import zero_bubble_h1
from autodeploy.schedule.zb_v import zero_bubble_v
from autodeploy.schedule.zb_v_memory import v_half, v_min

SCHEDULES: dict[str, ScheduleFn] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zb-h1": zero_bubble_h1,
    "zb-1p": zero_bubble_1p,
    "zb-2p": zero_bubble_2p,
    "zb-v": zero_bubble_v,
    "zb-v-half": v_half,
    "zb-v-min": v_min,
    "dualpipe": dualpipe,
    "dualpipev": dualpipev,
    "adaptive-pipe": adaptive_pipe,
}

PLANS_WITH_COSTS = frozenset({"zb-1p", "zb-2p", "zb-v", "zb-v-half", "zb-v-min"})  # their order depends on the costs


def build_schedule(name: str, shape: PipelineShape) -> Schedule:
    """The schedule `name` for `shape`."""
    if name not in SCHEDULES:
        raise ScheduleError("schedule", name, f"one of {', '.join(SCHEDULES)}")
    return SCHEDULES[name](shape)

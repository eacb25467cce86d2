"""From a schedule's record to the function that lists its operations; the tests run over `SCHEDULES`."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from autodeploy.schedule.operations import PipelineShape, Schedule, ScheduleError, ScheduleFn
from cost_models.schedules import SCHEDULE_TABLE

SCHEDULES = tuple(name for name, schedule in SCHEDULE_TABLE.items() if schedule.replayed_as == name)


@cache
def order_function(name: str) -> ScheduleFn:
    """The function that the record of schedule `name` points at."""
    module, function = SCHEDULE_TABLE[name].order.split(":")
    found: ScheduleFn = getattr(import_module(f"autodeploy.schedule.{module}"), function)
    return found


def build_schedule(name: str, shape: PipelineShape) -> Schedule:
    """The schedule `name` for `shape`."""
    if name not in SCHEDULES:
        raise ScheduleError("schedule", name, f"one of {', '.join(SCHEDULES)}")
    return order_function(name)(shape)

"""All schedules by name. A new one: its two files, and its name here."""

from __future__ import annotations

from collections.abc import Callable

from cost_models.errors import ConfigError
from cost_models.schedules.dualpipe import DUALPIPE, DUALPIPEV
from cost_models.schedules.facts import Schedule
from cost_models.schedules.gpipe import GPIPE, NONE
from cost_models.schedules.interleaved import ADAPTIVE_PIPE, INTERLEAVED
from cost_models.schedules.interleaved_zero_bubble import INTERLEAVED_ZERO_BUBBLE
from cost_models.schedules.looped_bfs import LOOPED_BFS
from cost_models.schedules.one_f_one_b import ONE_F_ONE_B
from cost_models.schedules.v_shaped import ZB_V, ZB_V_AUTO, ZB_V_HALF, ZB_V_MIN
from cost_models.schedules.zero_bubble import ZB_1P, ZB_2P, ZB_H1

SCHEDULE_TABLE: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        NONE, ONE_F_ONE_B, INTERLEAVED, GPIPE, ZB_H1, ZB_1P, ZB_2P, ZB_V, ZB_V_AUTO, ZB_V_HALF, ZB_V_MIN, DUALPIPE, DUALPIPEV,
        ADAPTIVE_PIPE, INTERLEAVED_ZERO_BUBBLE, LOOPED_BFS,
    )
}  # fmt: skip


def find_schedule(name: str) -> Schedule:
    """By name or alias, in any case."""
    lower = name.lower()
    for schedule in SCHEDULE_TABLE.values():
        if lower == schedule.name or lower in schedule.aliases:
            return schedule
    raise ConfigError("schedule", name, f"one of {', '.join(SCHEDULE_TABLE)}")


def schedules_where(holds: Callable[[Schedule], bool]) -> frozenset[str]:
    """Names of the schedules that have a property."""
    return frozenset(name for name, schedule in SCHEDULE_TABLE.items() if holds(schedule))

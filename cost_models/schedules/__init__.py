"""Pipeline schedules as records: what each is, what its step costs in closed form, how much each rank holds.

    from cost_models.schedules import SCHEDULE_TABLE, closed_form_step_s, in_flight_chunks
    SCHEDULE_TABLE["zb-v"].v_shaped, SCHEDULE_TABLE["dualpipe"].weight_copies

A new one: its closed form and record here, its order in `autodeploy/schedule/`, a line in `table.py`.
"""

from cost_models.schedules.facts import Chunks, PipelineCosts, Schedule, Shape
from cost_models.schedules.least import RankSeconds, least_pipeline_s, rank_seconds
from cost_models.schedules.price import closed_form_step_s, closed_forms_s, in_flight_chunks
from cost_models.schedules.table import SCHEDULE_TABLE, find_schedule, schedules_where

__all__ = [
    "SCHEDULE_TABLE",
    "Chunks",
    "PipelineCosts",
    "RankSeconds",
    "Schedule",
    "Shape",
    "closed_form_step_s",
    "closed_forms_s",
    "find_schedule",
    "in_flight_chunks",
    "least_pipeline_s",
    "rank_seconds",
    "schedules_where",
]

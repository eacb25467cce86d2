"""Pipeline schedules as data, and the event-level simulator of one training step.

    from autodeploy.schedule import SimulationRequest, StageCosts, simulate
    result = simulate(SimulationRequest(schedule="1f1b", pp=4, micro_batches=16, costs=StageCosts(...)))
    result.step_s, result.bubble_frac, result.in_flight_chunks

`build_schedule(name, PipelineShape(...))` gives the operation lists alone. `SCHEDULES` is the table.
"""

from autodeploy.schedule.costs import LayerSegments, StageCosts, StageMemory, StepTail
from autodeploy.schedule.lane_orders import CATALOGUE, LaneOrder
from autodeploy.schedule.operations import OrderCosts, PipelineShape, Schedule, ScheduleError
from autodeploy.schedule.request import EpMasking, SimulationRequest, SimulationResult, StepEvents
from autodeploy.schedule.segments import SEGMENTS, Segment
from autodeploy.schedule.simulate import simulate, simulated_s
from autodeploy.schedule.table import SCHEDULES, build_schedule

__all__ = [
    "CATALOGUE",
    "EpMasking",
    "LaneOrder",
    "LayerSegments",
    "OrderCosts",
    "PipelineShape",
    "SCHEDULES",
    "SEGMENTS",
    "Schedule",
    "ScheduleError",
    "Segment",
    "SimulationRequest",
    "SimulationResult",
    "StageCosts",
    "StageMemory",
    "StepEvents",
    "StepTail",
    "build_schedule",
    "simulate",
    "simulated_s",
]

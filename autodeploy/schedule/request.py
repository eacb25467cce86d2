"""What `simulate` takes and gives. N scenarios share one graph; P ranks, S virtual stages (= pp x vpp)."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.costs import LayerSegments, StageCosts, StageMemory, StepTail
from autodeploy.schedule.operations import OrderCosts, PipelineShape, Schedule, ScheduleError
from autodeploy.schedule.table import SCHEDULES
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ENDS = ("none", "warm-up", "cool-down", "both")
OVERLAPS = ("auto", "none", "lanes")


@record
class SimulationRequest:
    """A batch of strategies that share schedule, pp, vpp, micro-batch count and group.

    `costs`: `StageCosts` (one number per stage and direction) or `LayerSegments` (three lanes).
    `overlap`: "none" lets communication hold the compute lane; "lanes" gives each its lane; "auto" is "lanes" where
    the schedule pairs a forward with a backward, else "none".
    `lane_order`: a name of the catalogue; None chooses per scenario. `ends` (adaptive-pipe): where two micro-batches of
    one direction run side by side: "none", "warm-up", "cool-down", "both"; None tries the first two and keeps the faster
    (batches of many scenarios with groups of pp: "none", which is then the faster).
    `piece_overhead_s`: what each part costs more when all-to-alls and experts are cut in pieces.
    `p2p_s`: per hop, [N], [N, S] (entry s: between stages s and s+1) or a number; `p2p_exposed`: the sender waits;
    `p2p_on_lane`: it goes on computing, and the transfer takes its turn on the lane between nodes.
    `pair_saving_frac`: F&B of a pair takes (1 - this) (F + B); with `StageCosts` only.
    `sync_optimizer`: ranks meet before the optimizer (gradient norm); False: each goes on, as post-validation allows.
    `order_costs`: what an automatic schedule plans with; None: its own costs.
    """

    schedule: str
    pp: int
    micro_batches: int
    costs: StageCosts | LayerSegments
    vpp: int = 1
    group: int = 0
    overlap: str = "auto"
    lane_order: str | None = None
    ends: str | None = None
    piece_overhead_s: float = 0.0
    p2p_s: F64 | float = 0.0
    p2p_exposed: bool = False
    p2p_on_lane: bool = False
    pair_saving_frac: F64 | float = 0.0
    sync_optimizer: bool = True
    tail: StepTail = field(default_factory=StepTail)
    memory: StageMemory | None = None
    order_costs: OrderCosts | None = None
    keep_events: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ScheduleError("SimulationRequest.schedule", self.schedule, f"one of {', '.join(SCHEDULES)}")
        if self.overlap not in OVERLAPS:
            raise ScheduleError("SimulationRequest.overlap", self.overlap, f"one of {', '.join(OVERLAPS)}")
        if self.ends not in (*ENDS, None):
            raise ScheduleError("SimulationRequest.ends", self.ends, f"one of {', '.join(ENDS)}")
        if self.stages != self.pp * self.vpp:
            raise ScheduleError("SimulationRequest.costs", f"{self.stages} stages", f"pp x vpp = {self.pp * self.vpp}")

    @property
    def segments(self) -> LayerSegments:
        return self.costs if isinstance(self.costs, LayerSegments) else self.costs.segments()

    @property
    def sends(self) -> bool:
        """Transfers hold a lane of the sender; else they only delay the receiver."""
        return self.p2p_exposed or self.p2p_on_lane

    @property
    def stages(self) -> int:
        if isinstance(self.costs, LayerSegments):
            return int(self.costs.seconds.shape[1])
        return int(self.costs.forward_s.shape[1])

    @property
    def scenarios(self) -> int:
        if isinstance(self.costs, LayerSegments):
            return int(self.costs.seconds.shape[0])
        return int(self.costs.forward_s.shape[0])

    @property
    def overlaps_lanes(self) -> bool:
        if self.overlap == "auto":
            return SCHEDULE_TABLE[self.schedule].pairs != "none"
        return self.overlap == "lanes"

    def shape(self, costs: OrderCosts | None = None) -> PipelineShape:
        return PipelineShape(pp=self.pp, vpp=self.vpp, micro_batches=self.micro_batches, group=self.group, costs=costs)


@record
class EpMasking:
    """All-to-all of the step against what of it no compute hides, [N] each; see `masking.py` for the definition.

    `masked_frac` covers the whole step, `steady_masked_frac` the slots that pair a forward with a backward (nan: none).
    """

    ep_s: F64
    exposed_s: F64
    added_idle_s: F64
    masked_frac: F64
    steady_ep_s: F64
    steady_exposed_s: F64
    steady_masked_frac: F64


@record
class NodeTimes:
    """Every segment of the step, E events: times [E, N], the rest [E]. `slot` counts from 0 in graph order."""

    start_s: F64
    end_s: F64
    slot: I64
    stream: I64
    layer: I64
    segment: I64
    lane: I64


@record
class StepEvents:
    """Every segment of the step of every scenario, with the schedule that ordered them."""

    schedule: Schedule
    times: NodeTimes
    rank: I64  # [E]
    stage: I64
    micro_batch: I64
    kind: I64  # operation kind: F, B, I, W
    paired: NDArray[np.bool_]  # in a slot of a forward and a backward
    p2p_s: F64  # [1 + S, N], by hop
    tail_s: F64  # [N, P, 3]: gradient reduction, optimizer, parameter gather; from `pipeline end` of the rank on
    rank_end_s: F64  # [N, P], last event of the pipeline
    meets_at_s: F64  # [N, P], when the optimizer may start


@record
class SimulationResult:
    """Times and memory of a batch; [N], per rank [N, P], per rank and lane [N, P, 3].

    `step_s` = pipeline + tail. `pipeline_s`: first operation of any rank to the last of any rank; `rank_span_s`: the
    same within a rank. `bubble_frac` = 1 - compute busy / (P x pipeline_s). `period_bubble_frac` uses the longest
    rank span, as zero-bubble papers do. `in_flight_chunks` [P]: most chunks whose backward has not run.
    """

    step_s: F64
    pipeline_s: F64
    rank_span_s: F64
    busy_s: F64
    idle_s: F64
    bubble_s: F64
    bubble_frac: F64
    period_bubble_frac: F64
    in_flight_chunks: I64
    peak_activation_bytes: F64 | None
    peak_memory_bytes: F64 | None
    lane_order: tuple[str, ...]
    ends: tuple[str, ...]
    masking: EpMasking | None
    events: StepEvents | None

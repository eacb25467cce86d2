"""A group of strategies as one request to the simulator, and what a step has beside the pipeline.

Axes: N strategies, P pipeline ranks.
"""

from __future__ import annotations

import numpy as np

from autodeploy.replay.groups import ReplayGroup
from autodeploy.replay.segments import affected_stages, layer_segments, whole_stages
from autodeploy.schedule import SimulationRequest, StageMemory, StepTail
from cost_models.records import record
from cost_models.step.end import StepEnd, beside_the_pipeline_s, rank_load, step_end, straggler_frac
from cost_models.step.stages import StageCosts
from cost_models.strategies import F64

WEIGHT_KEPT_FRAC = 0.5  # of a chunk's activations between its two backward halves (Qi et al. 2024, section 4)


@record(eq=False)
class StepRequest:
    """`step_s` = (simulated + `constant_s`) x (1 + `straggler_frac`), [N] each."""

    request: SimulationRequest
    constant_s: F64
    straggler_frac: F64
    hidden_ep_s: F64  # expert communication that the request leaves out as hidden, summed over ranks

    def step_s(self, simulated_s: F64) -> F64:
        return (simulated_s + self.constant_s) * (1.0 + self.straggler_frac)


def step_request(group: ReplayGroup, *, events: bool = False, layers: bool = False) -> StepRequest:
    """`layers`: segments of every layer even where nothing overlaps."""
    affected = affected_stages(group)
    costs, stack = affected.costs, group.case.workload.stack
    tail, constant = _step_tail(costs, group)
    in_layers = layers or group.lanes
    request = SimulationRequest(
        schedule=group.simulated_as,
        pp=group.layout.pp,
        vpp=group.layout.vpp,
        micro_batches=group.micro_batches,
        group=group.micro_batch_group,
        costs=layer_segments(group, affected) if in_layers else whole_stages(costs),
        overlap="lanes" if group.lanes else "none",
        ends=None if group.schedule.pairs_ends else "none",
        p2p_s=costs.p2p_s,
        # Beside expert communication on lanes P2P takes its turn on the links between nodes.
        p2p_exposed=not stack.overlap_p2p and group.layout.pp > 1,
        p2p_on_lane=group.lanes,
        tail=tail,
        memory=StageMemory(activation_bytes=costs.saved_bytes - costs.swapped_bytes, weight_kept_frac=WEIGHT_KEPT_FRAC),
        keep_events=events,
    )
    return StepRequest(
        request=request,
        constant_s=constant,
        straggler_frac=straggler_frac(group.priced),
        hidden_ep_s=-affected.of("ep_comm").sum(axis=1) * group.micro_batches,
    )


def _step_tail(costs: StageCosts, group: ReplayGroup) -> tuple[StepTail, F64]:
    """Once per step: what follows the pipeline by rank, and what is the same on all."""
    pp = group.layout.pp
    load = rank_load(costs, group.priced)
    end = step_end(load, group.priced)
    reduce, gather = _exposed(end)
    # Later ranks start later, which hides the gathering of their parameters.
    starts_after = np.cumsum(costs.forward_s[:, :pp], axis=1) - costs.forward_s[:, :pp]
    tail = StepTail(
        gradient_reduction_s=reduce,
        optimizer_s=end.optimizer_s,
        parameter_gather_s=np.maximum(gather - (0.0 if group.schedule.v_shaped else starts_after), 0.0),
    )
    return tail, beside_the_pipeline_s(end, load, group.priced)


def _exposed(end: StepEnd) -> tuple[F64, F64]:
    """Exposed reduction and gathering, [N, P] each, in the proportion of the whole."""
    whole = end.grad_reduce_s + end.param_gather_s
    share = np.divide(end.grad_reduce_s, whole, out=np.ones_like(whole), where=whole > 0)
    return end.exposed_s * share, end.exposed_s * (1.0 - share)

"""A group of strategies as one request to the simulator, and what a step has beside the pipeline.

Axes: N strategies, P pipeline ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.schedule import SimulationRequest, StageMemory, StepTail
from autodeploy.twin.groups import Group, TwinInput
from autodeploy.twin.prices import PriceTable
from autodeploy.twin.stages import closed_form_stages, layer_segments, whole_stages
from cost_models import memory
from cost_models.data_parallel import StepEnd, step_end
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.stages import StageCosts
from cost_models.strategies import F64

WEIGHT_KEPT_FRAC = 0.5  # of a chunk's activations between its two backward halves (Qi et al. 2024, section 4)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRequest:
    """`step_s` = (simulated + `constant_s`) x (1 + `straggler_frac`), [N] each."""

    request: SimulationRequest
    constant_s: F64
    straggler_frac: F64
    hidden_ep_s: F64  # expert communication that the request leaves out as hidden, summed over ranks

    def step_s(self, simulated_s: F64) -> F64:
        return (simulated_s + self.constant_s) * (1.0 + self.straggler_frac)


def step_request(
    given: TwinInput, table: PriceTable, group: Group, *, events: bool = False, layers: bool = False
) -> StepRequest:
    """`table` is of the rows of the group. `layers`: segments of every layer even where nothing overlaps."""
    costs, hidden = closed_form_stages(given, table, group)
    tail, constant, straggler = _step_tail(given, table, group, costs)
    in_layers = layers or group.lanes
    request = SimulationRequest(
        schedule=group.simulated_as,
        pp=group.layout.pp,
        vpp=group.layout.vpp,
        micro_batches=group.micro_batches,
        group=group.micro_batch_group,
        costs=layer_segments(given, table, group, costs, hidden) if in_layers else whole_stages(costs),
        overlap="lanes" if group.lanes else "none",
        ends=None if SCHEDULE_TABLE[group.schedule].pairs_ends else "none",
        p2p_s=costs.p2p_s,
        p2p_exposed=not given.workload.stack.overlap_p2p and group.layout.pp > 1,
        tail=tail,
        memory=StageMemory(activation_bytes=costs.saved_bytes - costs.swapped_bytes, weight_kept_frac=WEIGHT_KEPT_FRAC),
        keep_events=events,
    )
    hidden_ep = hidden.sum(axis=1) * group.micro_batches
    return StepRequest(request=request, constant_s=constant, straggler_frac=straggler, hidden_ep_s=hidden_ep)


def _step_tail(given: TwinInput, table: PriceTable, group: Group, costs: StageCosts) -> tuple[StepTail, F64, F64]:
    """Once per step: what follows the pipeline by rank, what is the same on all, and the slowest-of-n share."""
    layout, batch, overheads = group.layout, group.batch, given.hardware.overheads
    v_shaped = SCHEDULE_TABLE[group.schedule].v_shaped
    dense, expert = memory.parameters_by_rank(table.prices, costs.point, layout, v_shaped, given.model)
    forward = memory.sum_by_rank(costs.forward_s, layout, v_shaped)
    backward = memory.sum_by_rank(costs.backward_input_s + costs.backward_weight_s, layout, v_shaped)
    end = step_end(dense, expert, forward, backward, batch, given.model, given.hardware, given.workload)
    reduce, gather = _exposed(end)
    # Later ranks start later, which hides the gathering of their parameters.
    starts_after = np.cumsum(costs.forward_s[:, : layout.pp], axis=1) - costs.forward_s[:, : layout.pp]
    tail = StepTail(
        gradient_reduction_s=reduce,
        optimizer_s=end.optimizer_s,
        parameter_gather_s=np.maximum(gather - (0.0 if v_shaped else starts_after), 0.0),
    )
    critical = np.argmax(forward + backward, axis=1)
    slowed = overheads.overlap_slowdown_frac * end.overlapped_s[np.arange(len(batch)), critical]
    constant = end.embedding_reduce_s + slowed + overheads.step_s + overheads.micro_batch_s * group.micro_batches
    doublings = np.log2(np.maximum(batch.devices / given.hardware.cards_per_node, 1.0))
    return tail, constant, overheads.straggler_frac_per_doubling * doublings


def _exposed(end: StepEnd) -> tuple[F64, F64]:
    """Exposed reduction and gathering, [N, P] each, in the proportion of the whole."""
    whole = end.grad_reduce_s + end.param_gather_s
    share = np.divide(end.grad_reduce_s, whole, out=np.ones_like(whole), where=whole > 0)
    return end.exposed_s * share, end.exposed_s * (1.0 - share)

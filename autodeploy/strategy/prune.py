"""What a statement proves to be no better in time and no better in memory, or too large for the card.

No statement here rests on a fitted number. ``--audit`` prices what they skip. Axes: N strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from autodeploy.strategy.rule import Proposal
from autodeploy.strategy.rules_world import node_cards
from cost_models.inputs import ModelSpec, Workload
from cost_models.strategies import DISPATCHER_CODE, F64, I64, Bool, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominated:
    """A strategy of the expansion that another one of it dominates."""

    name: str
    text: str
    holds: Callable[[Proposal], Bool]


def _ep_nodes(case: Proposal) -> I64:
    """Nodes that an expert group spans. Expert ranks are laid out ETP, EP, EDP, PP inside out."""
    return np.maximum(-(-case.batch.etp * case.batch.ep // node_cards(case.hardware)), 1)


def _allgather_sends_more(case: Proposal) -> Bool:
    nodes = _ep_nodes(case)
    top_k = max((k.feed_forward.top_k for k in case.model.kinds if k.feed_forward), default=0)
    more = nodes - 1 >= top_k * (1 - 1 / nodes) * case.workload.expert_imbalance  # flat: the hottest rank decides
    serial = ~case.batch.ep_overlap & (case.batch.zero_stage < 3)  # else other traffic may hide under the longer way
    return (case.batch.dispatcher == DISPATCHER_CODE["hierarchical-allgather"]) & (nodes > 1) & more & serial


DOMINATED: tuple[Dominated, ...] = (
    Dominated(
        name="dispatch-in-node",
        text="inside one node hierarchical-allgather is the flat all-to-all (the de-duplicating one still saves copies)",
        holds=lambda c: (c.batch.dispatcher == DISPATCHER_CODE["hierarchical-allgather"]) & (_ep_nodes(c) == 1),
    ),
    Dominated(
        name="hierarchical-sends-more",
        text="a token sent once to each of N - 1 other nodes is no less than k (1 - 1/N) copies, and takes a step more",
        holds=_allgather_sends_more,
    ),
)


# ------------------------------------------------------------------- strategies one step away that are dominated


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One step from a strategy of the space to one that it dominates: ``where`` [N], and the step."""

    name: str
    text: str
    where: Callable[[Proposal], Bool]
    step: Callable[[StrategyBatch, Proposal], StrategyBatch]


@lru_cache(maxsize=65536)
def valid_groups(micro_batches: int, pp: int) -> tuple[int, int]:
    """The smallest valid micro-batch group size and the next one; 0 where there is none."""
    found = [0, 0]
    i = 0
    for group in range(pp, micro_batches + 1):
        rest = micro_batches % group
        if rest == 0 or rest >= pp:
            found[i] = group
            i += 1
            if i == 2:
                break
    return found[0], found[1]


def groups(micro_batches: I64, pp: I64) -> tuple[I64, I64]:
    """``valid_groups`` of every strategy, [N] each."""
    base = int(pp.max(initial=0)) + 1
    pairs, index = np.unique(micro_batches * base + pp, return_inverse=True)
    table = np.array([valid_groups(*divmod(pair, base)) for pair in pairs.tolist()], dtype=np.int64).reshape(-1, 2)
    return table[index, 0], table[index, 1]


def _lower_zero(case: Proposal) -> Bool:
    stages = case.backend.zero_stages
    allowed = np.where(case.batch.pp > 1, 0 in case.backend.zero_stages_pipelined, 0 in stages)
    return allowed & (case.batch.zero_stage == 1) & (case.batch.offload_frac == 0)


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        name="zero-0",
        text="an all-reduce moves what a reduce-scatter and an all-gather move; every rank keeps and updates it all",
        where=_lower_zero,
        step=lambda b, c: replace(b, zero_stage=np.zeros(len(b), dtype=np.int64)),
    ),
)


# --------------------------------------------------------------------------------- too large whatever the options


def static_floor_bytes(
    model: ModelSpec, workload: Workload, batch: StrategyBatch, zero: int, offload_frac: float
) -> F64:
    """A lower bound of the bytes of weights, gradients and optimizer on the fullest rank, [N].

    Counts only feed-forward matrices of decoder layers, at their mean over the pipeline: the fullest rank holds no
    less (case 35). Optimizer states are divided as under ZeRO-1 even at ZeRO-0.
    """
    b = batch
    dense_shards, expert_shards = b.tp * b.pp, b.etp * b.ep * b.pp
    dense_copies = b.dp * b.cp
    dense, experts = _feed_forward_parameters(model)
    return dense / dense_shards * _bytes_per_parameter(workload, dense_copies, zero, offload_frac) + (
        experts / expert_shards * _bytes_per_parameter(workload, b.expert_dp, zero, offload_frac)
    )


def _feed_forward_parameters(model: ModelSpec) -> tuple[float, float]:
    """(dense and shared, routed experts) matrix parameters of all decoder layers."""
    dense = experts = 0.0
    for kind, count in model.layers:
        f = kind.feed_forward
        if f is None:
            continue
        matrices = (3 if f.gated else 2) * model.hidden * count
        dense += matrices * (f.shared_width if f.is_moe else f.width)
        experts += matrices * f.width * f.experts
    return dense, experts


def _bytes_per_parameter(workload: Workload, copies: I64, zero: int, offload_frac: float) -> F64:
    weight = workload.weight_bytes / (copies if zero >= 3 else 1)
    grad = workload.grad_bytes / (copies if zero >= 2 else 1)
    return weight + grad + workload.optimizer_bytes * (1 - offload_frac) / copies

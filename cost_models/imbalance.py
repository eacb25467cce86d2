"""How uneven the load of expert ranks is: many experts on a card even out, many cards and skewed data do not."""

from __future__ import annotations

import numpy as np

from cost_models.inputs import Workload
from cost_models.strategies import F64, I64

# The profile's figure is of 16 cards with 4 experts each (facts: routing traces of trained models, max/mean over cards).
REFERENCE_CARDS, REFERENCE_EXPERTS = 16.0, 4.0


def rank_imbalance(workload: Workload, experts: float, ep: F64 | I64) -> F64:
    """Largest over mean load of the ``ep`` expert ranks, [U].

    Forced routing is balanced; padding to a capacity gives every card that much. A stated figure holds for every EP. The
    profile's is scaled as the largest of ``ep`` means of ``experts / ep`` loads: excess proportional to
    sqrt(2 ln ep) / sqrt(experts / ep). On the routing traces of 64 experts, where 16 cards of 4 experts have an excess of
    0.23, that gives 0.14 for 8 cards of 8 experts; measured is 0.13.
    """
    ep = np.asarray(ep, dtype=np.float64)
    if workload.stack.moe_capacity_factor:
        return np.full_like(ep, workload.stack.moe_capacity_factor)
    if workload.stack.forced_balance:
        return np.ones_like(ep)
    if not workload.imbalance_by_ep:
        return np.full_like(ep, workload.expert_imbalance)
    reference = np.sqrt(2 * np.log(REFERENCE_CARDS) / REFERENCE_EXPERTS)
    spread = np.sqrt(2 * np.log(np.maximum(ep, 1.0)) * ep / experts)
    return 1.0 + (workload.expert_imbalance - 1.0) * spread / reference

"""How uneven the load of expert ranks is: many experts on a card even out, many cards and skewed data do not."""

from __future__ import annotations

import numpy as np

from cost_models.inputs import Workload
from cost_models.strategies import F64, I64

# The profile's figure is of 16 cards with 4 experts each (facts: routing traces of trained models, max/mean over cards).
REFERENCE_CARDS, REFERENCE_EXPERTS = 16.0, 4.0


def rank_imbalance(workload: Workload, experts: float, ep: F64 | I64) -> F64:
    """Largest over mean load of the ``ep`` expert ranks, [U].

    Forced routing is balanced; padded to a capacity, every card works on that much. Without padding a capacity drops what
    overloaded experts get above it, and leaves the others alone. A stated figure holds for every EP. The
    profile's is scaled as the largest of ``ep`` means of ``experts / ep`` loads: excess proportional to
    sqrt(2 ln ep) / sqrt(experts / ep). On the routing traces of 64 experts, where 16 cards of 4 experts have an excess of
    0.23, that gives 0.14 for 8 cards of 8 experts; measured is 0.13.
    """
    ep = np.asarray(ep, dtype=np.float64)
    capacity = workload.stack.moe_capacity_factor
    if workload.stack.forced_balance:
        return np.full_like(ep, capacity or 1.0)
    load = np.full_like(ep, workload.expert_imbalance)
    if workload.imbalance_by_ep:
        reference = np.sqrt(2 * np.log(REFERENCE_CARDS) / REFERENCE_EXPERTS)
        spread = np.sqrt(2 * np.log(np.maximum(ep, 1.0)) * ep / experts)
        load = 1.0 + (workload.expert_imbalance - 1.0) * spread / reference
    return np.minimum(load, capacity) if capacity else load

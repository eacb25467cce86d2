"""Closed-form pipeline time and in-flight chunks: first version, equal to the textbook formulas for equal stages."""

from __future__ import annotations

import numpy as np

from cost_models.strategies import F64, I64, Bool


def closed_form_step_s(
    schedule: str, forward_s: F64, backward_input_s: F64, backward_weight_s: F64, p2p_s: F64, pp: int, vpp: int,
    micro_batches: I64, group: I64,
) -> F64:  # fmt: skip
    """[N, S] stage seconds -> [N] seconds from the first forward to the last backward."""
    total = forward_s + backward_input_s + backward_weight_s
    ranks = total.reshape(len(total), vpp, pp).sum(axis=1)
    slowest = ranks.max(axis=1)
    return micro_batches * slowest + (ranks.sum(axis=1) - slowest) / vpp + 2 * p2p_s * (pp - 1)


def in_flight_chunks(schedule: str, pp: int, vpp: int, micro_batches: I64, group: I64, ep_overlap: Bool) -> F64:
    """Chunks whose activations a rank holds at its peak, [N, P]."""
    rank = np.arange(pp)[None, :]
    m = micro_batches[:, None]
    if vpp == 1:
        return np.minimum(m, pp - rank).astype(float)
    extra = ep_overlap.astype(int)[:, None]
    return np.minimum(m * vpp, 2 * (pp - rank - 1) + (vpp - 1) * group[:, None] + 1 + extra).astype(float)

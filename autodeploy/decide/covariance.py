"""How the residuals of two strategies hang together.

Axes: N, M strategies, A axes, C causes, K mechanisms.
"""

from __future__ import annotations

import numpy as np

from autodeploy.decide.rows import SIZES, Rows
from cost_models.strategies import F64

NEAR_STEPS = 2.0  # axis steps (doublings, changed kinds) over which what no factor explains decorrelates by a factor e
NOT_A_STEP = ("dp",)  # follows from the others


def axis_kernels(first: F64, second: F64) -> F64:
    """Covariance of the axis effects at unit variance, [A, N, M].

    A size is a random walk over doublings from 1: min of the two log2. A kind has one effect for each value but the
    default. So what two rows share cancels in their difference, and the default strategy carries no axis effect.
    """
    a, b = first.T[:, :, None], second.T[:, None, :]
    sizes = np.minimum(a[: len(SIZES)], b[: len(SIZES)])
    kinds = (a[len(SIZES) :] == b[len(SIZES) :]) & (a[len(SIZES) :] != 0)
    return np.concatenate([sizes, kinds.astype(float)])


def near_kernel(first: F64, second: F64) -> F64:
    """exp(-steps / NEAR_STEPS), [N, M]: near twins share what no factor explains (an exponential kernel on city blocks)."""
    walked = [i for i, name in enumerate(SIZES) if name not in NOT_A_STEP]
    steps = np.abs(first[:, None, walked] - second[None, :, walked]).sum(axis=2)
    steps = steps + (first[:, None, len(SIZES) :] != second[None, :, len(SIZES) :]).sum(axis=2)
    return np.exp(-steps / NEAR_STEPS)


def cause_kernel(first: Rows, second: Rows, variances: F64) -> F64:
    """Covariance of shares . theta, [N, M]; ``variances`` [C]."""
    return (first.shares * variances) @ second.shares.T


def mechanism_kernel(first: Rows, second: Rows, variances: F64) -> F64:
    """Two rows that run the same unmeasured mechanism share its error, [N, M]; ``variances`` [K]."""
    return (first.mechanisms * variances) @ second.mechanisms.T.astype(float)

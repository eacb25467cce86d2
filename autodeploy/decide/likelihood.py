"""Restricted likelihood of the error model's variances: random effects with an offset per problem that is projected out.

Within a problem log(measured / predicted) = offset + shares . theta + axis effects + near + noise, all drawn anew for each
problem and scaled by the problem's own scale (a multivariate t with ``degrees``): some stacks the twin knows better than
others. Harville, JASA 72, 1977: likelihood of the contrasts, which the offset does not enter; Lange, Little and Taylor,
JASA 84, 1989: the t instead of the normal.

Axes: N rows of a problem, V variances (causes, axes, near, noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.decide.covariance import axis_kernels, near_kernel
from autodeploy.decide.rows import Rows
from cost_models.strategies import F64


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """One problem without its offset: ``residual`` [N-1]; ``kernels`` [active, (N-1)^2] of the variances that ``active`` lists;
    ``spread`` [V]: root mean square of each kernel."""

    residual: F64
    active: NDArray[np.intp]
    kernels: F64
    spread: F64


def contrasts_of(rows: Rows, log_ratio: F64) -> Contrasts:
    """Helmert contrasts: orthonormal, and orthogonal to a constant."""
    n = len(rows)
    basis = helmert(n)
    shares = basis @ rows.shares
    causes = shares.T[:, :, None] * shares.T[:, None, :]
    others = np.concatenate([axis_kernels(rows.levels, rows.levels), near_kernel(rows.levels, rows.levels)[None]])
    kernels = np.concatenate([causes, basis @ others @ basis.T, np.eye(n - 1)[None]])
    spread = np.sqrt(np.maximum(np.trace(kernels, axis1=1, axis2=2), 0.0) / (n - 1))
    active = np.flatnonzero(spread > 1e-6)
    return Contrasts(basis @ log_ratio, active, kernels[active].reshape(len(active), -1), spread)


def helmert(n: int) -> F64:
    """Orthonormal rows that sum to nothing, [n-1, n]."""
    basis = np.zeros((n - 1, n))
    for i in range(1, n):
        basis[i - 1, :i] = 1.0 / np.sqrt(i * (i + 1))
        basis[i - 1, i] = -i / np.sqrt(i * (i + 1))
    return basis


def minus_log_likelihood(log_sd: F64, log_degrees: float, problems: Sequence[Contrasts]) -> tuple[float, F64, float]:
    """Value, gradient by log sd [V], gradient by log degrees."""
    from scipy.special import digamma, gammaln

    variances, nu = np.exp(2 * log_sd), float(np.exp(log_degrees))
    value, by_sd, by_degrees = 0.0, np.zeros_like(log_sd), 0.0
    for one in problems:
        n = len(one.residual)
        covariance = (variances[one.active] @ one.kernels).reshape(n, n)
        inverse = np.linalg.inv(covariance)
        solved = inverse @ one.residual
        distance = float(one.residual @ solved)
        value += 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * (nu + n) * np.log1p(distance / nu)
        value += float(gammaln(nu / 2) - gammaln((nu + n) / 2)) + 0.5 * n * np.log(nu)
        weight = (nu + n) / (nu + distance)
        slope = inverse - weight * np.outer(solved, solved)  # d value / d covariance, twice
        by_sd[one.active] += (one.kernels @ slope.ravel()) * variances[one.active]
        by_nu = np.log1p(distance / nu) - (nu + n) * distance / (nu * (nu + distance)) + n / nu
        by_degrees += 0.5 * nu * (by_nu + float(digamma(nu / 2) - digamma((nu + n) / 2)))
    return value, by_sd, by_degrees


def informed_by(problems: Sequence[Contrasts], least_spread: F64) -> F64:
    """How many problems inform each variance: those whose rows differ in it by ``least_spread`` [V] and more, [V]."""
    return np.sum([one.spread >= least_spread for one in problems], axis=0)

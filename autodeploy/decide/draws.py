"""Draws of step times from a belief: a draw prices a step as the sum over causes of t exp(theta), not linearly.

Axes: D draws, N rows, C causes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from autodeploy.decide.belief import Belief, t_scales
from cost_models.strategies import F64

DRAWS = 2000


def draw_step_s(belief: Belief, seed: int = 0, draws: int = DRAWS) -> F64:
    """Seconds of a step, [D, N]. Antithetic in pairs, stratified in the scale; the median of a row is its expected time."""
    causes = len(belief.rows.causes)
    half = draws // 2
    normal = _normals(seed, half, len(belief.mean)) @ _root(belief.scale * belief.covariance).T
    normal = normal * np.resize(t_scales(belief.degrees), half)[:, None]
    latent = belief.mean + np.concatenate([normal, -normal])
    seconds = (np.exp(latent[:, :causes]) @ belief.rows.time_s.T) * np.exp(latent[:, causes:])
    return np.asarray(seconds * (belief.expected_s / _median(seconds)))


@lru_cache(maxsize=4)
def _normals(seed: int, draws: int, values: int) -> F64:
    """Standard normals [draws, values], the same for every belief of that size; not to be written to."""
    return np.random.default_rng(seed).standard_normal((draws, values))


def _median(seconds: F64) -> F64:
    """Of an even number of draws, [D, N] -> [N]. numpy's own, and its quantile, import masked arrays, which takes longer
    than the draws."""
    half = len(seconds) // 2
    low, high = np.partition(seconds, (half - 1, half), axis=0)[half - 1 : half + 1]
    return np.asarray((low + high) / 2.0)


def quantile(draws_s: F64, share: float) -> F64:
    """The ``share`` quantile of each row's draws, [D, N] -> [N], interpolated as np.quantile does."""
    place = share * (len(draws_s) - 1)
    below = int(place)
    rest = place - below
    low, high = np.partition(draws_s, (below, below + 1), axis=0)[below : below + 2]
    return np.asarray(low + (high - low) * rest if rest < 0.5 else high - (high - low) * (1.0 - rest))


def _root(covariance: F64) -> F64:
    """A square root that bears semi-definite matrices."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def faster_probability(draws_s: F64) -> F64:
    """P(row i is faster than row j), [N, N]; a half on the diagonal."""
    n = draws_s.shape[1]
    found = np.empty((n, n))
    columns = np.ascontiguousarray(draws_s.T)
    for i in range(n):
        found[i] = (columns[i] < columns).mean(axis=1)
    return np.where(np.eye(n, dtype=bool), 0.5, found)


def best_probability(draws_s: F64, fits: F64) -> F64:
    """P(row i is the fastest of those that fit), [N]; ``fits`` [D, N] is 1 where the row fits in that draw."""
    seconds = np.where(fits > 0, draws_s, np.inf)
    any_fits = np.isfinite(seconds).any(axis=1)
    first = np.argmin(seconds[any_fits], axis=1)
    return np.bincount(first, minlength=draws_s.shape[1]) / len(draws_s)

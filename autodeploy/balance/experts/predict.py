"""Predict expert loads with constant state per expert: several filters run side by side, the best kept per layer.

Axes: H horizons, F filters, L layers, E experts. Loads are kept relative to the layer's mean expert (1 = mean).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Bool

# name: (weight of the newest step in the level, weight of its surprise in the slope); Holt's linear method in
# error-correction form (Gardner, J. Forecasting 4, 1985). Level weight 1, slope 0 is naive persistence.
FILTERS: dict[str, tuple[float, float]] = {
    "naive": (1.0, 0.0),
    "exponential_2": (0.5, 0.0),
    "exponential_8": (0.125, 0.0),
    "exponential_32": (0.03125, 0.0),
    "trend_2": (0.5, 0.1),
    "trend_8": (0.125, 0.05),
}
_STEADY = 0.999  # known share of the signal from which loads count as constant: plans need no confirmation
_MEMORY = 0.8  # what a block of evidence still counts when the next one is in
_STATE = (
    *("steps", "surprises", "_level", "_slope", "_total", "_told", "_came", "_error", "_covariance", "_variance"),
    *("_square", "_evidence", "_last", "_step_change"),
)
_RESIDUALS = 8  # latest one-step surprises kept, to tell how much of a saving noise will eat


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Mean loads expected over the next ``horizon`` steps."""

    horizon: int
    loads: F64  # [L, E] tokens, drawn to the mean by ``trust``
    trust: F64  # [L] in 0..1: the regression of what came on what was foretold; 0 without evidence
    steady: Bool  # [L] as good as constant
    filter_index: I64  # [L] index in FILTERS
    error_frac: F64  # [L] mean absolute error over the mean load, decayed mean over past blocks; nan without evidence
    naive_error_frac: F64  # [L] the same of naive persistence


@dataclass(frozen=True, slots=True)
class _Shrunk:
    relative: F64  # [L, E]
    trust: F64  # [L]
    chosen: I64  # [L] filter
    steady: Bool  # [L]


class Predictor:
    """Feed ``observe`` one step at a time; ask ``forecast`` for any of ``horizons`` (steps)."""

    def __init__(self, layers: int, experts: int, horizons: Sequence[int]) -> None:
        shape = (len(FILTERS), layers, experts)
        weights = np.array(list(FILTERS.values()))
        self.horizons = tuple(horizons)
        self.steps = 0
        self._level_weight = weights[:, 0, None, None]
        self._slope_weight = weights[:, 1, None, None]
        self._level = np.ones(shape)
        self._slope = np.zeros(shape)
        self._total = np.zeros(layers)  # tokens of a layer, smoothed
        count = len(self.horizons)
        self._told = np.ones((count, *shape))
        self._came = np.zeros((count, layers, experts))
        self._error = np.zeros((count, len(FILTERS), layers))
        self._covariance = np.zeros((count, len(FILTERS), layers))
        self._variance = np.zeros((count, len(FILTERS), layers))
        self._square = np.zeros((count, len(FILTERS), layers))  # mean squared error of the blocks
        self._evidence = np.zeros(count)
        self._last = np.ones((layers, experts))
        self._step_change = np.zeros(layers)  # mean squared change from step to step
        self.surprises = np.zeros((_RESIDUALS, layers, experts))  # relative loads

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays."""
        return {name.lstrip("_"): np.array(getattr(self, name)) for name in _STATE}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what ``state`` gave."""
        for name in _STATE:
            setattr(self, name, np.array(state[name.lstrip("_")]))
        self.steps = int(self.steps)

    def observe(self, loads: F64) -> None:
        """Take in one step's loads [L, E]. A layer without tokens is taken as balanced."""
        total = loads.sum(axis=1)
        idle = total <= 0
        relative = np.where(idle[:, None], 1.0, loads * loads.shape[1] / np.where(idle, 1.0, total)[:, None])
        if self.steps:
            change = ((relative - self._last) ** 2).mean(axis=1)
            self._step_change += (change - self._step_change) / self.steps
            self._compare(relative)
        self._last = relative
        self._filter(relative)
        self._total += (total - self._total) * max(0.25, 1 / (self.steps + 1))
        self.steps += 1
        for h, horizon in enumerate(self.horizons):
            if self.steps == 1 or (self.steps - 1) % horizon == 0:
                self._told[h], self._came[h] = self._ahead(horizon), 0.0

    def _filter(self, relative: F64) -> None:
        weight = np.maximum(self._level_weight, 1 / (self.steps + 1))  # a plain mean at first
        foretold = self._level + self._slope
        surprise = relative - foretold
        self._level = foretold + weight * surprise
        if self.steps:
            self._slope += weight * self._slope_weight * surprise

    def _compare(self, relative: F64) -> None:
        """Score each filter at each horizon whose block of steps has just ended."""
        kept = self.steps % _RESIDUALS
        self.surprises[kept] = relative - self._shrunk(0).relative
        for h, horizon in enumerate(self.horizons):
            self._came[h] += relative
            if self.steps % horizon:
                continue
            came, told = self._came[h] / horizon, self._told[h]
            self._evidence[h] = self._evidence[h] * _MEMORY + 1
            for sums, value in (
                (self._error, np.abs(told - came).mean(axis=2)),
                (self._covariance, ((told - 1) * (came - 1)).mean(axis=2)),
                (self._variance, ((told - 1) ** 2).mean(axis=2)),
                (self._square, ((told - came) ** 2).mean(axis=2)),
            ):
                sums[h] = sums[h] * _MEMORY + value

    def _ahead(self, horizon: int) -> F64:
        """Mean relative load over the next ``horizon`` steps by each filter [F, L, E]."""
        return _mean_ahead(self._level, self._slope, horizon)

    def _shrunk(self, h: int) -> _Shrunk:
        """The forecast at horizon index ``h``."""
        layer = np.arange(self._error.shape[2])
        chosen = self._error[h].argmin(axis=0)
        ahead = _mean_ahead(self._level[chosen, layer], self._slope[chosen, layer], self.horizons[h])
        variance = self._variance[h, chosen, layer]
        slope = self._covariance[h, chosen, layer] / np.where(variance > 0, variance, 1.0)
        evidence = self._evidence[h]
        doubt = np.clip(self._square[h, chosen, layer] / np.where(variance > 0, variance, 1.0), 0.0, 1.0)
        trust = np.clip(slope, 0.0, 1.0) * evidence**2 / np.maximum(evidence**2 + doubt, 1e-300)
        seen, now = variance / max(evidence, 1.0), ((ahead - 1) ** 2).mean(axis=1)
        trust *= np.minimum(1.0, seen / np.where(now > 0, now, 1.0))  # a burst is larger than what was vouched for
        steady = self._steady(now, self.horizons[h])
        trust = np.where(steady, 1.0, trust)
        return _Shrunk(1 + trust[:, None] * (ahead - 1), trust, chosen, steady)

    def _steady(self, signal: F64, horizon: int) -> Bool:
        """Layers [L] as good as constant over ``horizon`` steps: nothing changes from step to step.

        Were every change to last and none to return (a random walk), the loads of the horizon would be off by at most
        ``horizon`` x the mean square of a step's change; that against ``signal``, the mean square of loads about 1.
        """
        if self.steps < 2:
            return np.zeros(len(signal), dtype=bool)
        return signal >= _STEADY * (signal + horizon * self._step_change)

    def forecast(self, horizon: int) -> Forecast:
        """Loads over the next ``horizon`` steps (one of ``horizons``)."""
        h = self.horizons.index(horizon)
        shrunk = self._shrunk(h)
        relative, trust, chosen = shrunk.relative, shrunk.trust, shrunk.chosen
        evidence = self._evidence[h] if self._evidence[h] else np.nan
        layer = np.arange(len(trust))
        return Forecast(
            horizon=horizon,
            loads=relative * (self._total / relative.shape[1])[:, None],
            trust=trust,
            steady=shrunk.steady,
            filter_index=chosen,
            error_frac=self._error[h, chosen, layer] / evidence,
            naive_error_frac=self._error[h, list(FILTERS).index("naive")] / evidence,
        )

    def scenarios(self, forecast: Forecast) -> F64:
        """The forecast with each of the latest surprises laid on it [K, L, E] tokens."""
        experts = forecast.loads.shape[1]
        return np.maximum(forecast.loads + self.surprises * (self._total / experts)[:, None], 0.0)


def _mean_ahead(level: F64, slope: F64, horizon: int) -> F64:
    """Mean relative load over the next ``horizon`` steps [..., E]: >= 0, mean 1."""
    ahead = np.maximum(level + slope * (horizon + 1) / 2, 0.0)
    mean = ahead.mean(axis=-1, keepdims=True)
    return np.where(mean > 0, ahead / np.where(mean > 0, mean, 1.0), 1.0)

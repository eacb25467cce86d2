"""One fit for every curve: least squares on log ratios, robust to outliers, with its error and a held-out error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autodeploy.calibrate.measurements import F64

HELD_OUT_MIN_ROWS = 60  # below, halving the rows tells more about luck than about the form
# A constant that no row determines (the memory term of a table whose every product is bound by computing) would end wherever
# the solver stops, another place on every machine: this pull towards its start, worth one row that is off by at most 1%,
# decides it and nothing else.
PRIOR_WEIGHT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """Absolute relative error of a fit over its rows. Held out: fitted to half of them, the error on the other half."""

    rows: int
    median_ape_frac: float
    p90_ape_frac: float
    held_out_median_ape_frac: float | None = None
    held_out_p90_ape_frac: float | None = None
    at_bound: tuple[str, ...] = ()  # parameters that ended on a bound: the rows do not determine them


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One constant to fit: where to start, and where it may go."""

    name: str
    start: float
    low: float
    high: float


Model = Callable[[F64, np.ndarray], F64]  # (parameter values, row indices) -> seconds of those rows


def fit(
    model: Model,
    parameters: Sequence[Parameter],
    seconds: F64,
    starts: Sequence[dict[str, float]] = (),
    weights: F64 | None = None,
) -> tuple[dict[str, float], FitError]:
    """Constants that bring ``model`` nearest to ``seconds``, and the error. ``starts`` are further starting points.

    ``weights`` multiply the residuals; the error counts every row alike.
    """
    rows, weights = np.arange(seconds.size), np.ones_like(seconds) if weights is None else weights
    values = _solve(model, parameters, seconds, rows, starts, weights)
    error = apes(model(values, rows), seconds)
    held_out = None
    if seconds.size >= HELD_OUT_MIN_ROWS:  # on odd rows, of a fit to even rows: the order runs over shapes
        half = _solve(model, parameters, seconds, rows[::2], starts[:1], weights)
        held_out = apes(model(half, rows[1::2]), seconds[1::2])
    return (
        {parameter.name: float(value) for parameter, value in zip(parameters, values, strict=True)},
        FitError(
            rows=seconds.size,
            median_ape_frac=float(np.median(error)),
            p90_ape_frac=float(np.quantile(error, 0.9)),
            held_out_median_ape_frac=None if held_out is None else float(np.median(held_out)),
            held_out_p90_ape_frac=None if held_out is None else float(np.quantile(held_out, 0.9)),
            at_bound=_at_bound(parameters, values),
        ),
    )


def apes(predicted_s: F64, measured_s: F64) -> F64:
    """|predicted - measured| / measured."""
    return np.abs(predicted_s - measured_s) / measured_s


def _solve(
    model: Model,
    parameters: Sequence[Parameter],
    seconds: F64,
    rows: np.ndarray,
    starts: Sequence[dict[str, float]],
    weights: F64,
) -> F64:
    from scipy.optimize import least_squares

    low = np.array([parameter.low for parameter in parameters])
    high = np.array([parameter.high for parameter in parameters])
    target = np.log(seconds[rows])
    expected = np.array([parameter.start for parameter in parameters])

    def residuals(values: F64) -> F64:
        prior = PRIOR_WEIGHT * (values - expected) / (high - low)
        return np.concatenate([weights[rows] * (np.log(model(values, rows)) - target), prior])

    best = None
    for start in ({}, *starts):
        origin = np.array([start.get(parameter.name, parameter.start) for parameter in parameters])
        solution = least_squares(
            residuals, np.clip(origin, low + 1e-9 * (high - low), high - 1e-9 * (high - low)),
            bounds=(low, high), loss="soft_l1", f_scale=0.05, x_scale=high - low, diff_step=1e-4, max_nfev=120,
        )  # fmt: skip
        if best is None or solution.cost < best.cost:
            best = solution
    assert best is not None
    return best.x


def _at_bound(parameters: Sequence[Parameter], values: F64) -> tuple[str, ...]:
    span = [parameter.high - parameter.low for parameter in parameters]
    return tuple(
        parameter.name
        for parameter, value, width in zip(parameters, values, span, strict=True)
        if min(value - parameter.low, parameter.high - value) < 1e-3 * width
    )

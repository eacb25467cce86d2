"""What whole training runs say of a machine beyond its operator tables: sustained clocks, memory rate, network, host.

A few constants per profile, fitted to the published runs with a prior on each, so that what the runs do not determine
stays where physics puts it. Families held out of every fit (``accuracy.held_out_families``) are never seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autodeploy.accuracy.cases import RunCase
from autodeploy.accuracy.predict import predict
from cost_models.inputs import HardwareProfile

NOISE_FRAC = 0.05  # a residual of this size weighs as one standard deviation
GROUP_ROWS = 15  # a group of published rows weighs at most as this many: rows of one table are not independent
STEP = 0.02  # of the logarithm, for the numerical derivative


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One fitted constant: where it lives, where physics puts it, and how sure that is (standard deviation of its log)."""

    name: str
    section: str  # "device" or "overheads"
    prior: float
    spread: float
    why: str
    most: float = np.inf


CONSTANTS: tuple[Constant, ...] = (
    Constant(name="sustained_frac", section="device", prior=0.85, spread=0.10, most=1.0,
             why="clock under sustained power against the short benchmark"),
    Constant(name="memory_bound_frac", section="device", prior=0.65, spread=0.20, most=1.0,
             why="element-wise kernels of a framework against a bandwidth benchmark"),
    Constant(name="grouped_frac", section="device", prior=0.80, spread=0.25, most=1.3,
             why="grouped expert products in training against inference kernels"),
    Constant(name="network_frac", section="overheads", prior=0.85, spread=0.15, most=1.1,
             why="links between nodes shared with other traffic against an idle benchmark"),
    Constant(name="overlap_slowdown_frac", section="overheads", prior=0.10, spread=0.40,
             why="computing beside a collective (Hetu-Galvatron measured 0.126)"),
    Constant(name="tp_overlap_hidden_frac", section="overheads", prior=0.70, spread=0.15, most=0.95,
             why="tensor-parallel communication behind chunked GEMMs"),
    Constant(name="host_kernel_s", section="overheads", prior=1.0e-5, spread=0.40,
             why="host time to issue a kernel"),
)  # fmt: skip


def with_constants(profile: HardwareProfile, values: Mapping[str, float]) -> HardwareProfile:
    """The profile with the fitted constants in place."""
    sections = {constant.name: constant.section for constant in CONSTANTS}
    device: dict[str, Any] = {name: value for name, value in values.items() if sections[name] == "device"}
    overheads: dict[str, Any] = {name: value for name, value in values.items() if sections[name] == "overheads"}
    return dataclasses.replace(
        profile,
        device=dataclasses.replace(profile.device, **device),
        overheads=dataclasses.replace(profile.overheads, **overheads),
    )


def ratios(cases: Sequence[RunCase], values: Mapping[str, float]) -> np.ndarray:
    """Predicted over measured step time of every case; 1 where a case cannot be priced."""
    machines: dict[int, HardwareProfile] = {}
    for case in cases:
        if id(case.hardware) not in machines:
            machines[id(case.hardware)] = with_constants(case.hardware, values)
    moved = [dataclasses.replace(case, hardware=machines[id(case.hardware)]) for case in cases]
    predictions, _ = predict(moved)
    return np.array([
        predictions[c.run.id].step_s / c.run.step_time_s if c.run.id in predictions and c.run.step_time_s else 1.0
        for c in moved
    ])  # fmt: skip


def fit_constants(cases: Sequence[RunCase], evaluations: int = 12) -> dict[str, float]:
    """Maximum a posteriori constants: robust log residuals of the runs, Gaussian log priors."""
    from scipy.optimize import least_squares

    prior = np.log([c.prior for c in CONSTANTS])
    spread = np.array([c.spread for c in CONSTANTS])
    weights = _weights(cases)

    def residuals(x: np.ndarray) -> np.ndarray:
        errors = np.log(ratios(cases, _values(x))) / NOISE_FRAC
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([weights * robust, (x - prior) / spread])

    high = np.log([c.most for c in CONSTANTS])
    found = least_squares(residuals, np.minimum(prior, high - 1e-3), bounds=(-np.inf, high), max_nfev=evaluations,
                          diff_step=STEP, x_scale=spread)  # fmt: skip
    return _values(found.x)


def _values(x: np.ndarray) -> dict[str, float]:
    return {c.name: float(np.exp(value)) for c, value in zip(CONSTANTS, x, strict=True)}


def _weights(cases: Sequence[RunCase]) -> np.ndarray:
    groups = [case.run.report_group for case in cases]
    counts = {name: groups.count(name) for name in set(groups)}
    return np.array([min(1.0, np.sqrt(GROUP_ROWS / counts[name])) for name in groups])


def error_text(cases: Sequence[RunCase], values: Mapping[str, float], held_out: frozenset[str]) -> str:
    """Mean absolute error on the families of the fit and on those held out, with the sources."""
    errors = np.abs(ratios(cases, values) - 1.0)
    out = np.array([case.run.family in held_out for case in cases])
    groups = sorted({case.run.report_group for case in cases})
    parts = [f"{(~out).sum()} rows fitted, mean error {errors[~out].mean():.1%}"]
    if out.any():
        parts.append(f"{out.sum()} rows held out, {errors[out].mean():.1%}")
    return f"{'; '.join(parts)} ({', '.join(groups)})"


def training_section(values: Mapping[str, float], data: str) -> dict[str, Any]:
    """The ``training`` section of a profile, in the units of its keys."""
    section: dict[str, Any] = {}
    for name, value in values.items():
        key, shown = (name.removesuffix("_s") + "_us", value * 1e6) if name.endswith("_s") else (name, value)
        section[key] = float(f"{shown:.3g}")
    return {**section, "data": data}

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
    own: float = 0.0  # spread of a profile's value around its die's; 0: the die's for all


CONSTANTS: tuple[Constant, ...] = (
    Constant(name="sustained_frac", section="device", prior=0.85, spread=0.10, most=1.0, own=0.05,
             why="clock under sustained power against the short benchmark"),
    Constant(name="memory_bound_frac", section="device", prior=0.65, spread=0.20, most=1.0, own=0.05,
             why="element-wise kernels of a framework against a bandwidth benchmark"),
    Constant(name="grouped_frac", section="device", prior=0.80, spread=0.25, most=1.3, own=0.05,
             why="grouped expert products in training against inference kernels"),
    Constant(name="fp8_frac", section="device", prior=0.97, spread=0.10, most=1.3, own=0.05,
             why="8-bit products with one scale per tensor, beside their casts"),
    Constant(name="block_scaled_frac", section="device", prior=0.97, spread=0.10, most=1.3, own=0.05,
             why="8-bit products with scales per block, beside their casts and padding"),
    Constant(name="fp4_frac", section="device", prior=0.97, spread=0.15, most=1.5, own=0.05,
             why="4-bit products: their curve is the fp8 one over the fp4 peak"),
    Constant(name="network_frac", section="overheads", prior=0.85, spread=0.15, most=1.1, own=0.15,
             why="links between nodes shared with other traffic against an idle benchmark"),
    Constant(name="overlap_slowdown_frac", section="overheads", prior=0.10, spread=0.40,
             why="computing beside a collective (Hetu-Galvatron measured 0.126)"),
    Constant(name="tp_overlap_hidden_frac", section="overheads", prior=0.70, spread=0.15, most=0.95,
             why="tensor-parallel communication behind chunked GEMMs"),
    Constant(name="host_kernel_s", section="overheads", prior=1.0e-5, spread=0.20,
             why="host time to issue a kernel"),
    Constant(name="step_s", section="overheads", prior=1.2e-2, spread=0.40,
             why="host time of a step: launch of the optimizer, gradient norm, logging, next batch (the intercepts of SimuMax's "
             "steps over micro-batches leave 10 to 15 ms)"),
)  # fmt: skip
OWN = tuple(i for i, constant in enumerate(CONSTANTS) if constant.own)  # those that a profile has beside its die's


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


def fit_die(cases: Mapping[str, Sequence[RunCase]], evaluations: int = 8) -> dict[str, dict[str, float]]:
    """Maximum a posteriori constants of the profiles of one die, by profile: robust log residuals of the runs, Gaussian log
    priors on the die's constants, and on what sets a profile apart from its die (partial pooling): the same silicon under
    another power limit, or beside another host."""
    from scipy.optimize import least_squares

    names, pooled = list(cases), len(CONSTANTS)
    prior, spread = np.log([c.prior for c in CONSTANTS]), np.array([c.spread for c in CONSTANTS])
    own = np.array([CONSTANTS[i].own for i in OWN]) if len(names) > 1 else np.zeros(0)
    high = np.log([c.most for c in CONSTANTS])

    def logs(x: np.ndarray, at: int) -> np.ndarray:
        """Log constants of the profile at this place."""
        shifted = x[:pooled].copy()
        if own.size:
            shifted[list(OWN)] += own * x[pooled + at * own.size : pooled + (at + 1) * own.size]
        return np.minimum(shifted, high)

    def errors(x: np.ndarray, at: int) -> np.ndarray:
        found = np.log(ratios(cases[names[at]], _values(logs(x, at)))) / NOISE_FRAC
        return _weights(cases[names[at]]) * np.sign(found) * np.sqrt(2 * (np.sqrt(1 + found**2) - 1))

    def residuals(x: np.ndarray) -> np.ndarray:
        runs = [errors(x, at) for at in range(len(names))]
        return np.concatenate([*runs, (x[:pooled] - prior) / spread, x[pooled:]])

    def jacobian(x: np.ndarray) -> np.ndarray:
        """A profile's own constants move its own rows alone."""
        base = [errors(x, at) for at in range(len(names))]
        starts = np.cumsum([0, *(len(rows) for rows in base)])
        table = np.zeros((starts[-1] + len(x), len(x)))
        for j in range(len(x)):
            step = STEP if j < pooled else STEP / own[(j - pooled) % own.size]
            moved = x.copy()
            moved[j] += step
            for at in range(len(names)) if j < pooled else [(j - pooled) // own.size]:
                table[starts[at] : starts[at + 1], j] = (errors(moved, at) - base[at]) / step
        table[starts[-1] :] = np.diag(np.concatenate([1 / spread, np.ones(len(x) - pooled)]))
        return table

    begin = np.concatenate([np.minimum(prior, high - 1e-3), np.zeros(own.size * len(names))])
    found = least_squares(residuals, begin, jac=jacobian, max_nfev=evaluations, x_scale="jac")
    return {name: _values(logs(found.x, at)) for at, name in enumerate(names)}


def _values(x: np.ndarray) -> dict[str, float]:
    return {c.name: float(np.exp(value)) for c, value in zip(CONSTANTS, x, strict=True)}


def _weights(cases: Sequence[RunCase]) -> np.ndarray:
    groups = [case.run.report_group for case in cases]
    counts = {name: groups.count(name) for name in set(groups)}
    return np.array([min(1.0, np.sqrt(GROUP_ROWS / counts[name])) for name in groups])


def error_text(cases: Sequence[RunCase], values: Mapping[str, float], held_out: frozenset[str]) -> str:
    """Mean absolute error on the families of the fit and on those held out, with the sources."""
    if not cases:
        return "no rows of its own: its die's constants"
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
        key, shown = _shown(name, value)
        section[key] = float(f"{shown:.3g}")
    return {**section, "data": data}


def _shown(name: str, value: float) -> tuple[str, float]:
    if name == "step_s":
        return "step_ms", value * 1e3
    return (name.removesuffix("_s") + "_us", value * 1e6) if name.endswith("_s") else (name, value)

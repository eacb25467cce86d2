"""What whole training runs determine: one factor on computing, and with enough runs one on the network.

Operator tables say how fast each operator is alone. A run says how fast they all are together: clocks under sustained
power, memory shared with communication, a program's own gaps. With few runs only the product of all this is known, so
only one or two factors are fitted, on top of the tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autodeploy.calibrate.entries import entry
from autodeploy.calibrate.fitting import FitError, Parameter, fit
from cost_models.inputs import HardwareProfile

NETWORK_MIN_RUNS = 4  # fewer runs cannot tell the network's share from computing's

Predict = Callable[[HardwareProfile], np.ndarray]  # seconds of every run on a profile
Placed = tuple[tuple[str, ...], dict[str, Any], FitError]  # path in `fits`, entry, error


def scaled(profile: HardwareProfile, compute: float, network: float) -> HardwareProfile:
    """The profile with every compute rate times ``compute`` and every link efficiency times ``network``."""
    device = profile.device
    device = dataclasses.replace(
        device,
        gemm={key: _times(curve, compute, "efficiency_max_frac") for key, curve in device.gemm.items()},
        grouped_gemm={key: _times(curve, compute, "efficiency_max_frac") for key, curve in device.grouped_gemm.items()},
        attention={
            key: _times(curve, compute, "forward_efficiency_frac", "backward_efficiency_frac")
            for key, curve in device.attention.items()
        },
    )
    tiers = tuple(
        dataclasses.replace(
            tier,
            curves={
                op: _times(curve, network, "efficiency_frac", "in_network_efficiency_frac")
                for op, curve in tier.curves.items()
            },
        )
        for tier in profile.tiers
    )
    return dataclasses.replace(profile, device=device, tiers=tiers)


def _times(curve: Any, factor: float, *names: str) -> Any:
    return dataclasses.replace(curve, **{name: getattr(curve, name) * factor for name in names})


def fit_runs(predict: Predict, measured_s: np.ndarray, base: HardwareProfile) -> tuple[float, float, FitError]:
    """(compute factor, network factor, error of the scaled profile over the runs)."""
    both = measured_s.size >= NETWORK_MIN_RUNS
    parameters = [Parameter(name="compute", start=1.0, low=0.4, high=1.3)]
    if both:
        parameters.append(Parameter(name="network", start=1.0, low=0.3, high=1.3))

    def seconds(values, rows):
        network = float(values[1]) if both else 1.0
        return predict(scaled(base, float(values[0]), network))[rows]

    values, error = fit(seconds, parameters, measured_s)
    return values["compute"], values.get("network", 1.0), error


def scaled_entries(base: HardwareProfile, compute: float, network: float, error: FitError, data: str) -> list[Placed]:
    """The curves of the scaled profile as entries of ``fits``, each with the error over the runs."""
    profile = scaled(base, compute, network)
    rule = f"the base curve times {compute:.3f}, fitted to whole runs"
    placed: list[Placed] = []
    for section in ("gemm", "grouped_gemm", "attention"):
        curves = getattr(profile.device, section)
        for key in _own_keys(getattr(base.device, section)):
            placed.append(((section, key), entry(curves[key], error, data, derived=rule), error))
    if network != 1.0:
        rule = f"the base curve times {network:.3f}, fitted to whole runs"
        for tier in profile.tiers:
            placed += [
                (("collectives", tier.name, op), entry(curve, error, data, derived=rule), error)
                for op, curve in tier.curves.items()
            ]
    return placed


def _own_keys(curves: Mapping[str, Any]) -> list[str]:
    """Keys with a curve of their own: the loader lends the same object to the others (fp16 runs on bf16's)."""
    first: dict[int, str] = {}
    for key, curve in curves.items():
        first.setdefault(id(curve), key)
    return list(first.values())


def known_device(base: HardwareProfile) -> str:
    """A name that resolves: cases are built on it before the profile under fit takes its place."""
    from autodeploy.hardware import hardware_aliases, hardware_names

    return base.name if base.name in hardware_names() or base.name in hardware_aliases() else hardware_names()[0]


def run_predictor(
    runs: Sequence[Any], models: dict[str, Any], base: HardwareProfile
) -> tuple[Predict, np.ndarray, list[tuple[str, str]]]:
    """(predictor, measured seconds, skipped) of measured runs (``autodeploy.accuracy.Run``) and their model shapes."""
    from autodeploy.accuracy.cases import build_cases
    from autodeploy.accuracy.loader import RunSet
    from autodeploy.accuracy.predict import predict as price

    timed = [dataclasses.replace(run, device=known_device(base)) for run in runs if run.step_time_s]
    cases = build_cases(RunSet(runs=tuple(timed), models=models))
    skipped = list(cases.skipped.items())
    measured = np.array([case.run.step_time_s for case in cases.cases], dtype=float)

    def predict(profile: HardwareProfile) -> np.ndarray:
        predictions, failed = price([dataclasses.replace(case, hardware=profile) for case in cases.cases])
        return np.array([
            np.inf if case.run.id in failed else predictions[case.run.id].step_s for case in cases.cases
        ])  # fmt: skip

    return predict, measured, skipped

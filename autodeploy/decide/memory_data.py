"""Measured peaks and verdicts (ran, died) as the memory model takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from autodeploy.decide.memory import MemoryData, MemoryModel, fit_memory
from autodeploy.decide.problems import Judged
from autodeploy.report.likeness import device_family

RESERVED_KINDS = ("reserved", "nvidia-smi")  # readings that include context, buffers and fragmentation
ENOUGH_PEAKS = 20  # measured peaks (or deaths) of one source that give it a shift and a deviation of its own
GIB = 2.0**30


def by_source(judged: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Complete runs that tell something of memory."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        run = one.case.run
        if run.complete and (run.peak_memory_gib is not None or died(one) is not None):
            found.setdefault(run.group, []).append(one)
    return found


def died(one: Judged) -> bool | None:
    """A run with a step time has fitted; an empty verdict without one says nothing."""
    run = one.case.run
    return True if run.oom else (False if run.step_time_s is not None else None)


def usage(one: Judged) -> float:
    """Predicted peak over usable memory."""
    return one.prediction.reserved_bytes / one.case.hardware.usable_bytes


def peak_log_ratio(one: Judged) -> float | None:
    """log(measured peak / predicted), of the reading that the source states; None where none was measured."""
    run, prediction = one.case.run, one.prediction
    if run.peak_memory_gib is None or run.oom:
        return None
    reserved = (run.memory_kind or "reserved").startswith(RESERVED_KINDS)
    predicted = prediction.reserved_bytes if reserved else prediction.allocated_bytes
    return float(np.log(run.peak_memory_gib * GIB / predicted))


def data_of(judged: Sequence[Judged]) -> MemoryData:
    """A run whose peak was measured tells its peak; any other its verdict."""
    peaks, usages, verdicts = [], [], []
    for one in judged:
        peak = peak_log_ratio(one)
        if peak is not None:
            peaks.append(peak)
        elif died(one) is not None:
            usages.append(np.log(usage(one)))
            verdicts.append(float(bool(died(one))))
    return MemoryData(np.array(peaks), np.array(usages), np.array(verdicts))


def fit_memory_models(judged: Iterable[Judged]) -> dict[str, MemoryModel]:
    """One model for each source, and for each family of cards, with peaks or deaths enough; and ``pooled`` over all."""
    judged = list(judged)
    groups = by_source(judged)
    models = {"pooled": fit_memory([data_of(group) for group in groups.values()], "pooled")}
    families: dict[str, list[Judged]] = {}
    for one in judged:
        if one.case.run.complete:
            families.setdefault(device_family(one.case.hardware), []).append(one)
    for name, group in (groups | families).items():
        data = data_of(group)
        if len(data.log_ratio) >= ENOUGH_PEAKS or data.died.sum() >= ENOUGH_PEAKS:
            models[name] = fit_memory([data], name)
    return models


def memory_of(models: Mapping[str, MemoryModel], source: str | None) -> MemoryModel:
    """The source's own, else the pooled one."""
    return models.get(source or "", models["pooled"])

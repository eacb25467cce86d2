"""The errors of the shipped runs as typed, by family and likeness: the table behind every error band."""

from __future__ import annotations

from collections.abc import Iterable

from autodeploy.accuracy.compare import RunResult
from autodeploy.accuracy.held_out import SOURCES
from autodeploy.report.error_band import Family
from autodeploy.report.likeness import Likeness

DIGITS = 4


def families_of(results: Iterable[RunResult]) -> list[Family]:
    """Complete rows without a suspect mark, but for the sources that are put aside whole; sorted, so that a file of them
    changes only where an error does."""
    time: dict[tuple[str, Likeness], list[float]] = {}
    memory: dict[tuple[str, Likeness], list[float]] = {}
    for result in results:
        if not result.run.gated or result.typed is None or result.run.group in SOURCES:
            continue
        key = (result.run.family, result.typed.like)
        for errors, (predicted, measured) in ((time, times_of(result)), (memory, memory_of(result))):
            if predicted is not None and measured is not None:
                errors.setdefault(key, []).append(round(distance(predicted, measured), DIGITS))
    keys = sorted({*time, *memory}, key=lambda key: (key[0], tuple(key[1].at(-1))))
    return [Family(name, like, tuple(sorted(time.get((name, like), ()))), tuple(sorted(memory.get((name, like), ()))))
            for name, like in keys]  # fmt: skip


def times_of(result: RunResult) -> tuple[float | None, float | None]:
    return (result.typed.step_s if result.typed else None), result.run.step_time_s


def memory_of(result: RunResult) -> tuple[float | None, float | None]:
    return result.as_typed_memory_gib, result.run.peak_memory_gib


def distance(predicted: float, measured: float) -> float:
    """What a band must reach to hold both: the measurement around the prediction, and the prediction around it."""
    return abs(predicted - measured) / min(predicted, measured)

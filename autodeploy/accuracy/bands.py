"""The errors of the shipped runs as typed, by family and likeness: the table behind every error band, and how bands hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autodeploy.accuracy.compare import RunResult
from autodeploy.accuracy.held_out import SOURCES
from autodeploy.report.error_band import Family, band_of
from autodeploy.report.likeness import Likeness

DIGITS = 4
CAP = 40  # rows of a source that count in the capped mean: one source has half of all rows

Pairs = list[tuple[float, float]]  # (error, band)


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


# ------------------------------------------------------------------------------------------------- how the bands hold


@dataclass(frozen=True, slots=True)
class Coverage:
    """``by_group``: own family left out ("all", "families that no fit has seen", every report group). ``by_source``: the
    whole source left out, as a user's own cluster is. ``aside``: the sources put aside, which no table holds."""

    by_group: dict[str, Pairs] = field(default_factory=dict)
    by_source: dict[str, Pairs] = field(default_factory=dict)
    aside: dict[str, Pairs] = field(default_factory=dict)


def coverage(results: Iterable[RunResult], table: Sequence[Family], quantity: str) -> Coverage:
    """``quantity``: "time" or "memory". Rows that ``families_of`` takes; of the sources put aside, all rows."""
    found = Coverage()
    for result in results:
        run, aside = result.run, result.run.group in SOURCES
        predicted, measured = (times_of if quantity == "time" else memory_of)(result)
        if result.typed is None or predicted is None or measured is None or not (run.gated or aside):
            continue
        error, like = distance(predicted, measured), result.typed.like
        pair = (error, band_of(like, quantity, without=run.group, table=table).frac)
        (found.aside if aside else found.by_source).setdefault(run.group, []).append(pair)
        if not aside:
            names = ["all", "families that no fit has seen"] if not result.fitted_on else ["all"]
            own = (error, band_of(like, quantity, without=run.family, table=table).frac)
            for name in (*names, run.report_group):
                found.by_group.setdefault(name, []).append(own)
    return found


def inside(pairs: Pairs) -> float:
    return float(np.mean([error <= band for error, band in pairs]))


def of_sources(by_source: Mapping[str, Pairs]) -> tuple[float, float]:
    """Share inside with ``CAP`` rows of a source at most, and as mean over sources."""
    shares = [inside(pairs) for pairs in by_source.values()]
    return float(np.average(shares, weights=[min(len(p), CAP) for p in by_source.values()])), float(np.mean(shares))

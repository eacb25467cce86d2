"""Counting the measured runs by what they run."""

from __future__ import annotations

from collections.abc import Iterable

from autodeploy.decide.coverage import Covered, names_of
from autodeploy.decide.model import card_family
from autodeploy.decide.problems import Judged, row_of


def coverage_of(judged: Iterable[Judged]) -> tuple[Covered, ...]:
    """The complete timed runs, counted."""
    counts: dict[tuple[str, str, str, tuple[str, ...]], int] = {}
    for one in judged:
        run = one.case.run
        if run.complete and run.step_time_s is not None:
            key = (run.group, card_family(run.device), run.kind, names_of(row_of(one).mechanisms[0]))
            counts[key] = counts.get(key, 0) + 1
    return tuple(Covered(source=s, card=c, kind=k, mechanisms=m, runs=n) for (s, c, k, m), n in sorted(counts.items()))

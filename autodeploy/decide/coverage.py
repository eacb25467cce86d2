"""Which mechanisms measured runs cover, and how many stand behind a strategy on a card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.decide.model import ErrorModel, card_family
from autodeploy.decide.problems import Judged, row_of
from autodeploy.decide.rows import MECHANISMS, Rows
from cost_models.strategies import I64, Bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Timed runs that are alike: card family, dense or MoE, the set of mechanisms they run."""

    card: str
    kind: str
    mechanisms: tuple[str, ...]
    runs: int


def coverage_of(judged: Iterable[Judged]) -> tuple[Covered, ...]:
    """The complete timed runs, counted."""
    counts: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for one in judged:
        run = one.case.run
        if run.complete and run.step_time_s is not None:
            key = (card_family(run.device), run.kind, _names(row_of(one).mechanisms[0]))
            counts[key] = counts.get(key, 0) + 1
    return tuple(Covered(card=c, kind=k, mechanisms=m, runs=n) for (c, k, m), n in sorted(counts.items()))


def mechanism_runs(covered: Iterable[Covered]) -> dict[str, int]:
    """Runs of each mechanism, on any card."""
    covered = list(covered)
    return {name: sum(one.runs for one in covered if name in one.mechanisms) for name in MECHANISMS}


def runs_behind(covered: Sequence[Covered], rows: Rows, card: str, kind: str) -> I64:
    """Timed runs on that card, dense or MoE as asked, that run every mechanism of the row, [N]."""
    alike = [one for one in covered if one.card == card_family(card) and one.kind == kind]
    return np.array([sum(one.runs for one in alike if set(_names(row)) <= set(one.mechanisms)) for row in rows.mechanisms],
                    dtype=np.int64)  # fmt: skip


def evidence_texts(model: ErrorModel, rows: Rows, runs: I64, card: str, kind: str) -> list[str]:
    """What stands behind each row, for people: the unmeasured mechanisms first."""
    found = []
    for row, count in zip(rows.mechanisms, runs, strict=True):
        unmeasured = [name for name in _names(row) if model.unmeasured(name)]
        never = [name for name in unmeasured if model.mechanism_runs.get(name, 0) == 0]
        few = [f"{name} ({model.mechanism_runs[name]} runs)" for name in unmeasured if name not in never]
        parts = [f"no measured run: {', '.join(never)}"] if never else []
        parts += [f"hardly measured: {', '.join(few)}"] if few else []
        if not parts and not count:
            parts = [f"no measured {kind} run of its kind on {card_family(card)}"]
        found.append("; ".join(parts) if parts else f"{count} measured {kind} runs of its kind on {card_family(card)}")
    return found


def _names(row: Bool) -> tuple[str, ...]:
    return tuple(name for name, runs in zip(MECHANISMS, row, strict=True) if runs)


def coverage_document(covered: Sequence[Covered]) -> list[list[Any]]:
    return [[one.card, one.kind, list(one.mechanisms), one.runs] for one in covered]


def coverage_from(document: Sequence[Sequence[Any]]) -> tuple[Covered, ...]:
    return tuple(Covered(card=c, kind=k, mechanisms=tuple(m), runs=n) for c, k, m, n in document)


def totals(covered: Sequence[Covered], kind: str) -> Mapping[str, int]:
    """Timed runs by card."""
    found: dict[str, int] = {}
    for one in covered:
        if one.kind == kind:
            found[one.card] = found.get(one.card, 0) + one.runs
    return found

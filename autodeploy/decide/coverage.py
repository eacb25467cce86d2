"""Which mechanisms measured runs cover, and how many stand behind a strategy on a card."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autodeploy.decide.model import ErrorModel, card_family
from autodeploy.decide.rows import MECHANISMS, Rows
from cost_models.records import record
from cost_models.strategies import I64, Bool


@record
class Covered:
    """Timed runs that are alike: source, card family, dense or MoE, the set of mechanisms they run."""

    source: str
    card: str
    kind: str
    mechanisms: tuple[str, ...]
    runs: int


def with_coverage(model: ErrorModel, covered: Iterable[Covered]) -> ErrorModel:
    """The model, told how many runs of how many sources run each mechanism, on any card."""
    covered = list(covered)
    runs = {name: sum(one.runs for one in covered if name in one.mechanisms) for name in MECHANISMS}
    sources = {name: len({one.source for one in covered if name in one.mechanisms}) for name in MECHANISMS}
    return replace(model, mechanism_runs=runs, mechanism_sources=sources)


def runs_behind(covered: Sequence[Covered], rows: Rows, card: str, kind: str) -> I64:
    """Timed runs on that card, dense or MoE as asked, that run every mechanism of the row, [N]."""
    alike = [one for one in covered if one.card == card_family(card) and one.kind == kind]
    return np.array([sum(one.runs for one in alike if set(names_of(row)) <= set(one.mechanisms)) for row in rows.mechanisms],
                    dtype=np.int64)  # fmt: skip


def evidence_texts(model: ErrorModel, rows: Rows, runs: I64, card: str, kind: str) -> list[str]:
    """What stands behind each row, for people: the unmeasured mechanisms first."""
    found = []
    for row, count in zip(rows.mechanisms, runs, strict=True):
        unmeasured = [name for name in names_of(row) if model.unmeasured(name)]
        never = [name for name in unmeasured if model.mechanism_runs.get(name, 0) == 0]
        few = [f"{name} ({model.mechanism_runs[name]} runs)" for name in unmeasured if name not in never]
        parts = [f"no measured run: {', '.join(never)}"] if never else []
        parts += [f"hardly measured: {', '.join(few)}"] if few else []
        if not parts and not count:
            parts = [f"no measured {kind} run of its kind on {card_family(card)}"]
        found.append("; ".join(parts) if parts else f"{count} measured {kind} runs of its kind on {card_family(card)}")
    return found


def names_of(row: Bool) -> tuple[str, ...]:
    return tuple(name for name, runs in zip(MECHANISMS, row, strict=True) if runs)


def coverage_document(covered: Sequence[Covered]) -> list[list[Any]]:
    return [[one.source, one.card, one.kind, list(one.mechanisms), one.runs] for one in covered]


def coverage_from(document: Sequence[Sequence[Any]]) -> tuple[Covered, ...]:
    return tuple(Covered(source=s, card=c, kind=k, mechanisms=tuple(m), runs=n) for s, c, k, m, n in document)

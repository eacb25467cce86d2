"""What a strategy must beat to matter: the best of its own group, or the front of time and memory.

Axes: N strategies, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autodeploy.search.candidates import Candidates, group_key
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import pareto_front
from cost_models.strategies import F64, I64, Bool, StrategyBatch


class Contest(Protocol):
    """``open``: whether strategies of these scores (or lower bounds of them), seconds and bytes could still win, [N]."""

    def open(self, group: I64, score: F64, step_s: F64, memory_bytes: F64) -> Bool: ...

    def learn(self, group: I64, priced: Candidates) -> None: ...


def contest_of(request: SearchRequest, pool: Candidates, batch: StrategyBatch, places: int) -> tuple[Contest, I64]:
    """What is to beat in the pool, and the groups of ``batch`` [N]. ``places``: groups that are shown or replayed."""
    if request.objective == "pareto":
        return Front(request.hardware.usable_bytes, pareto_front(pool)), np.arange(len(batch))
    keys = np.concatenate([np.stack(group_key(each), axis=1) for each in (pool.batch, batch)])
    if request.all_variants:  # every strategy is shown
        keys = np.stack([np.arange(len(keys)), np.zeros(len(keys), dtype=np.int64)], axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    caps = np.array([request.hardware.usable_bytes, request.safe_bytes])
    limits = np.full((len(caps), int(group.max(initial=-1)) + 1), np.inf)
    contest = Groups(caps, limits)
    contest.learn(group[: len(pool)], pool)
    last = np.sort(limits, axis=1)[:, places - 1 : places]
    np.minimum(limits, last if last.size else np.inf, out=limits)
    return contest, group[len(pool) :]


@dataclass(frozen=True, slots=True)
class Groups:
    """``limits`` [2, G]: the score to beat in each group, of what fits and of what is likely enough to fit."""

    caps: F64  # [2]
    limits: F64

    def open(self, group: I64, score: F64, step_s: F64, memory_bytes: F64) -> Bool:
        fits = memory_bytes <= self.caps[:, None]
        return np.asarray((fits & (score < self.limits[:, group])).any(axis=0))

    def learn(self, group: I64, priced: Candidates) -> None:
        for cap, limits in zip(self.caps, self.limits, strict=True):
            fits = priced.feasible & (priced.reserved_bytes <= cap)
            np.minimum.at(limits, group[fits], priced.score[fits])


@dataclass(slots=True)
class Front:
    """``known``: no strategy of it is beaten in both step time and memory by another."""

    cap_bytes: float
    known: Candidates

    def open(self, group: I64, score: F64, step_s: F64, memory_bytes: F64) -> Bool:
        order = np.argsort(self.known.reserved_bytes, kind="stable")
        fastest = np.minimum.accumulate(self.known.step_s[order])
        smaller = np.searchsorted(self.known.reserved_bytes[order], memory_bytes, side="right")
        return np.asarray((memory_bytes <= self.cap_bytes) & (step_s < np.concatenate([[np.inf], fastest])[smaller]))

    def learn(self, group: I64, priced: Candidates) -> None:
        self.known = pareto_front(Candidates.concatenate([self.known, priced.take(priced.feasible)]))

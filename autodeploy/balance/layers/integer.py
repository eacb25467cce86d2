"""The placement as an integer program, solved with HiGHS through scipy: exact where it ends in time.

Runs of equal layers are counted, not named. Variables: n[k, s, o] layers of run k on stage s under option o;
f[k, s] = 1 only if run k is complete by the end of stage s; z[s, o] = 1 if the MTP modules sit there; u[s, o] = 1 if
stage s takes option o; T the largest rank sum, C the largest chunk. Seconds are divided by the mean rank sum.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autodeploy.balance.layers.bound import order_free_bound_s
from autodeploy.balance.layers.local_search import shorten_chunks
from autodeploy.balance.layers.problem import TIE_FRAC, LayerProblem, Placement, equal_runs, largest

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

RANK_SHARE = 0.7  # of the time limit: for the rank sums, the rest for the chunks
Terms = list[tuple[int, float]]  # (variable, coefficient)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The best placement and proven lower bounds, in seconds; equal to the placement's own where exact."""

    placement: Placement | None
    rank_bound_s: float
    chunk_bound_s: float  # given the best largest rank sum


def solve_exactly(problem: LayerProblem, start: Placement | None, time_limit_s: float) -> Solved:
    """Improve ``start`` until proven best: first the largest rank sum, then the largest chunk."""
    begin = time.monotonic()
    model = _Model(problem)
    best, rank_bound = _improve(problem, model, start, "rank", np.inf, begin + RANK_SHARE * time_limit_s)
    rank_s = _score(problem, best, "rank")
    if best is None or not np.isfinite(rank_s):
        return Solved(placement=None, rank_bound_s=rank_bound, chunk_bound_s=0.0)
    if best != start:
        best = shorten_chunks(problem, best, (1 - RANK_SHARE) / 3 * time_limit_s)
    best, chunk_bound = _improve(problem, model, best, "chunk", rank_s, begin + time_limit_s)
    assert best is not None  # it started from one
    return Solved(placement=best, rank_bound_s=min(rank_bound, rank_s), chunk_bound_s=chunk_bound)


def _improve(
    problem: LayerProblem, model: _Model, best: Placement | None, goal: str, rank_s: float, deadline: float
) -> tuple[Placement | None, float]:
    """(best placement, lower bound on its ``goal``): ask for something strictly better than ``best``."""
    score = _score(problem, best, goal)
    bound = _simple_bound(problem, goal)
    if goal == "rank":
        bound = max(bound, order_free_bound_s(problem, score))
    if score <= bound * (1 + TIE_FRAC):
        return best, score
    left = deadline - time.monotonic()
    if left <= 0:
        return best, bound
    status, found, dual = model.solve(goal, score * (1 - 2 * TIE_FRAC), rank_s * (1 + TIE_FRAC), left)
    if status == "none":  # nothing is better (or, where nothing was found before, nothing fits)
        return best, score
    if found is not None and _score(problem, found, goal) < score and _rank_kept(problem, found, rank_s):
        best, score = found, _score(problem, found, goal)
    return best, score if status == "optimal" else max(bound, min(dual, score))


def _score(problem: LayerProblem, placement: Placement | None, goal: str) -> float:
    """Seconds of the goal; infinite where the placement does not fit."""
    if placement is None:
        return np.inf
    excess, rank, chunk = largest(problem, placement)
    return np.inf if excess > 0 else rank if goal == "rank" else chunk


def _rank_kept(problem: LayerProblem, placement: Placement, rank_s: float) -> bool:
    return largest(problem, placement)[1] <= rank_s * (1 + 3 * TIE_FRAC)


def _simple_bound(problem: LayerProblem, goal: str) -> float:
    fastest = problem.items.seconds.min(axis=0)
    mtp = float(fastest[problem.items.mtp].sum())
    single = max(float(fastest.max()), mtp)
    return max(problem.mean_rank_s, single) if goal == "rank" else max(single, fastest.sum() / problem.stages)


class _Model:
    """The constraints that do not depend on what is asked; ``solve`` adds the bound to beat and its cuts."""

    def __init__(self, problem: LayerProblem) -> None:
        self.problem = problem
        self.scale = problem.mean_rank_s
        self.runs = equal_runs(problem)
        runs, stages, options = len(self.runs), problem.stages, len(problem.items.options)
        self.n = np.arange(runs * stages * options).reshape(runs, stages, options)
        self.f = self.n.size + np.arange(runs * stages).reshape(runs, stages)
        self.z = int(self.f.max()) + 1 + np.arange(stages * options).reshape(stages, options)
        self.u = int(self.z.max()) + 1 + np.arange(stages * options).reshape(stages, options)
        self.rank_max, self.chunk_max = int(self.u.max()) + 1, int(self.u.max()) + 2
        self.size = self.chunk_max + 1
        self.rows: list[tuple[Terms, float, float]] = []
        self._order()
        self._choices()
        self._times()
        self._memory()

    def _add(self, terms: Terms, low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def _order(self) -> None:
        """Every layer placed once, run after run, the MTP modules after the last."""
        for k, run in enumerate(self.runs):
            length = run.stop - run.start
            self._add([(int(v), 1.0) for v in self.n[k].ravel()], length, length)
            for s in range(self.problem.stages):
                until = [(int(v), 1.0) for v in self.n[k, : s + 1].ravel()]
                self._add([*until, (int(self.f[k, s]), -float(length))], 0, np.inf)
                if k + 1 < len(self.runs):
                    after = self.runs[k + 1].stop - self.runs[k + 1].start
                    here = [(int(v), 1.0) for v in self.n[k + 1, s]]
                    self._add([*here, (int(self.f[k, s]), -float(after))], -np.inf, 0)
        for s in self.problem.mtp_stages:
            self._add([*[(int(v), 1.0) for v in self.z[s]], (int(self.f[-1, s]), -1.0)], -np.inf, 0)
        if self.problem.mtp_stages:
            self._add([(int(v), 1.0) for s in self.problem.mtp_stages for v in self.z[s]], 1, 1)

    def _choices(self) -> None:
        """One option a stage."""
        for s in range(self.problem.stages):
            self._add([(int(v), 1.0) for v in self.u[s]], 1, 1)
            if len(self.problem.items.options) == 1:
                continue
            for o in range(len(self.problem.items.options)):
                for k, run in enumerate(self.runs):
                    length = float(run.stop - run.start)
                    self._add([(int(self.n[k, s, o]), 1.0), (int(self.u[s, o]), -length)], -np.inf, 0)
                self._add([(int(self.z[s, o]), 1.0), (int(self.u[s, o]), -1.0)], -np.inf, 0)

    def _stage_terms(self, stage: int, per_item: np.ndarray, scale: float) -> Terms:
        """Sum over a stage of ``per_item`` [O, I], divided by ``scale``."""
        items, terms = self.problem.items, []
        for o, row in enumerate(per_item / scale):
            terms += [(int(self.n[k, stage, o]), float(row[run.start])) for k, run in enumerate(self.runs)]
            if stage in self.problem.mtp_stages:
                terms.append((int(self.z[stage, o]), float(row[items.mtp].sum())))
            ends = float(row[0]) * (stage == 0) + float(row[-1]) * (stage == self.problem.stages - 1)
            if ends:
                terms.append((int(self.u[stage, o]), ends))
        return terms

    def _times(self) -> None:
        for rank in range(self.problem.pp):
            rank_terms: Terms = []
            for stage in range(rank, self.problem.stages, self.problem.pp):
                terms = self._stage_terms(stage, self.problem.items.seconds, self.scale)
                self._add([*terms, (self.chunk_max, -1.0)], -np.inf, 0)
                rank_terms += terms
            self._add([*rank_terms, (self.rank_max, -1.0)], -np.inf, 0)

    def _memory(self) -> None:
        """Static and in-flight bytes of every rank at each of its worst moments, in parts of its cap."""
        problem, items = self.problem, self.problem.items
        static = np.broadcast_to(items.static_bytes, items.activation_bytes.shape)
        for rank in range(problem.pp):
            cap = float(problem.memory_cap_bytes[rank])
            if not np.isfinite(cap):
                continue
            for row in problem.in_flight.rows[rank]:
                terms: Terms = []
                for chunk, held in enumerate(row):
                    stage = chunk * problem.pp + rank
                    terms += self._stage_terms(stage, static + held * items.activation_bytes, cap)
                    if stage in problem.mtp_stages and stage != problem.stages - 1:
                        terms += [(int(v), items.mtp_apart_bytes / cap) for v in self.z[stage]]
                self._add(terms, -np.inf, 1.0)

    def _cuts(self, stages: list[int], limit_s: float) -> list[tuple[Terms, float, float]]:
        """Layers that take at least c seconds: at most floor(limit / c) fit (Chvatal-Gomory), fewer beside MTP."""
        items = self.problem.items
        fastest = items.seconds.min(axis=0)
        last = self.problem.stages - 1
        left = limit_s - fastest[0] * (0 in stages) - fastest[-1] * (last in stages)
        mtp_stages = [s for s in stages if s in self.problem.mtp_stages]
        mtp_s = float(fastest[items.mtp].sum())
        cuts = []
        costs = [float(fastest[run.start]) for run in self.runs]
        for c in sorted({cost for cost in costs if cost > 0}):
            room = float(np.floor(left / c + 1e-9))
            beside = float(np.floor((left - mtp_s) / c + 1e-9))
            terms = [(int(v), 1.0) for k, cost in enumerate(costs) if cost >= c for v in self.n[k, stages].ravel()]
            terms += [(int(v), room - beside) for s in mtp_stages for v in self.z[s]]
            cuts.append((terms, -np.inf, room))
        return cuts

    def solve(
        self, goal: str, limit_s: float, rank_limit_s: float, time_limit_s: float
    ) -> tuple[str, Placement | None, float]:
        """(``optimal`` | ``none`` | ``time``, placement, dual bound in seconds) of the least ``goal`` <= limit."""
        problem, pp = self.problem, self.problem.pp
        rows = list(self.rows)
        rank_limit = limit_s if goal == "rank" else rank_limit_s
        if np.isfinite(rank_limit):
            for rank in range(pp):
                rows += self._cuts(list(range(rank, problem.stages, pp)), rank_limit)
        if goal == "chunk":
            for stage in range(problem.stages):
                rows += self._cuts([stage], limit_s)
        objective = np.zeros(self.size)
        objective[self.rank_max if goal == "rank" else self.chunk_max] = 1.0
        high = self._upper_bounds(rank_limit, limit_s if goal == "chunk" else np.inf)
        if (high < 0).any():
            return "none", None, limit_s
        integrality = np.ones(self.size)
        integrality[[self.rank_max, self.chunk_max]] = 0
        from scipy.optimize import Bounds, milp  # here: 0.2 s that most commands do not need

        result = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(np.zeros(self.size), high),
            constraints=_constraint(rows, self.size),
            options={"time_limit": time_limit_s, "mip_rel_gap": 1e-7},
        )
        dual = getattr(result, "mip_dual_bound", None)
        bound = float(dual) * self.scale if dual is not None and np.isfinite(dual) else 0.0
        if result.status == 2:
            return "none", None, bound
        placement = None if result.x is None else self._placement(result.x)
        return ("optimal" if result.status == 0 else "time"), placement, bound

    def _upper_bounds(self, rank_limit_s: float, chunk_limit_s: float) -> np.ndarray:
        high = np.ones(self.size)
        for k, run in enumerate(self.runs):
            high[self.n[k].ravel()] = run.stop - run.start
        closed = [s for s in range(self.problem.stages) if s not in self.problem.mtp_stages]
        high[self.z[closed].ravel()] = 0
        high[self.rank_max] = rank_limit_s / self.scale
        high[self.chunk_max] = chunk_limit_s / self.scale
        return high

    def _placement(self, values: np.ndarray) -> Placement:
        counts = values[self.n].sum(axis=(0, 2)).round().astype(int)
        mtp = values[self.z].sum(axis=1)
        options = values[self.u].argmax(axis=1)
        mtp_stage = int(mtp.argmax()) if self.problem.mtp_stages else -1
        return Placement(
            counts=tuple(int(c) for c in counts), mtp_stage=mtp_stage, options=tuple(int(o) for o in options)
        )


def _constraint(rows: list[tuple[Terms, float, float]], size: int) -> LinearConstraint:
    indices = [v for terms, _, _ in rows for v, _ in terms]
    values = [c for terms, _, _ in rows for _, c in terms]
    starts = np.cumsum([0, *(len(terms) for terms, _, _ in rows)])
    from scipy.optimize import LinearConstraint
    from scipy.sparse import csr_array

    matrix = csr_array((values, indices, starts), shape=(len(rows), size))
    matrix.sum_duplicates()
    return LinearConstraint(matrix, [low for _, low, _ in rows], [high for _, _, high in rows])

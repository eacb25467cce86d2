"""A strong start for VPP > 1: one layer from stage a to stage b, the stages between shifting along."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from autodeploy.balance.layers.problem import (
    LayerProblem,
    Placement,
    Priced,
    equal_runs,
    largest,
    option_combinations,
    price,
)

Found = tuple[tuple[float, float, float], Placement]  # (excess bytes, largest rank sum, largest chunk) of it
Keys = Callable[[Priced, float], np.ndarray]

MAX_MOVES = 400
MTP_STAGES_TRIED = 4
RESTARTS = 60  # for models of many different layers, where the integer program seldom ends in time
FEW_RUNS = 6  # up to so many runs of equal layers the integer program needs no help
MAX_WORK = 500_000  # option combinations x moves x stages of one step; above, fewer moves are tried
LIGHT_RANKS = 4
SHAKES = 4  # random moves before each restart


def search_locally(
    problem: LayerProblem, time_limit_s: float = np.inf, seed: int = 0, restarts: int = RESTARTS
) -> Placement:
    """The best placement found from even starts, for the likeliest MTP stages; may not fit (excess > 0).

    The time limit only stops what is still improving: usual cases end in a tenth of a second.
    """
    deadline = time.monotonic() + time_limit_s
    mtp_stages = problem.mtp_stages[:MTP_STAGES_TRIED] or (-1,)
    found = [_descend(problem, _even(problem, stage), stage, deadline) for stage in mtp_stages]
    best = min(found, key=lambda item: item[0])
    if len(equal_runs(problem)) > FEW_RUNS:
        best = _restart(problem, best, np.random.default_rng(seed), restarts, deadline)
    return best[1]


def shorten_chunks(problem: LayerProblem, placement: Placement, time_limit_s: float) -> Placement:
    """A smaller largest chunk by single moves, the largest rank sum kept."""
    rank_s = largest(problem, placement)[1]
    deadline = time.monotonic() + time_limit_s
    counts, _ = _walk(problem, np.array(placement.counts), placement.mtp_stage, _chunk_keys, rank_s, deadline)
    priced = price(problem, counts[None], placement.mtp_stage, rank_limit_s=rank_s)
    options = tuple(int(o) for o in priced.options[0])
    found = Placement(counts=tuple(int(c) for c in counts), mtp_stage=placement.mtp_stage, options=options)
    return min(placement, found, key=lambda one: largest(problem, one))


def _even(problem: LayerProblem, mtp_stage: int) -> np.ndarray:
    counts = np.zeros(problem.stages, dtype=np.int64)
    edges = np.linspace(0, problem.items.num_layers, _open_stages(problem, mtp_stage) + 1).round().astype(np.int64)
    counts[: len(edges) - 1] = np.diff(edges)
    return counts


def _open_stages(problem: LayerProblem, mtp_stage: int) -> int:
    return problem.stages if mtp_stage < 0 else mtp_stage + 1  # no layer may follow the MTP modules


def _restart(problem: LayerProblem, best: Found, rng: np.random.Generator, restarts: int, deadline: float) -> Found:
    """Descend again from the best placement shaken by a few random moves."""
    for _ in range(restarts):
        if time.monotonic() > deadline:
            break
        counts = np.array(best[1].counts)
        for _ in range(SHAKES):
            open_stages = _open_stages(problem, best[1].mtp_stage)
            moves = _neighbours(counts, ~np.eye(open_stages, dtype=bool))
            counts = moves[rng.integers(len(moves))] if len(moves) else counts
        best = min(best, _descend(problem, counts, best[1].mtp_stage, deadline), key=lambda item: item[0])
    return best


def _descend(problem: LayerProblem, counts: np.ndarray, mtp_stage: int, deadline: float) -> Found:
    """Steepest descent: first the largest rank sum, then, that kept, the largest chunk."""
    limit = -np.inf
    for keys in (_rank_keys, _chunk_keys):
        counts, limit = _walk(problem, counts, mtp_stage, keys, limit, deadline)
    priced = price(problem, counts[None], mtp_stage, rank_limit_s=limit)
    key = (float(priced.excess_bytes[0]), float(priced.rank_s.max()), float(priced.chunk_s.max()))
    options = tuple(int(o) for o in priced.options[0])
    return key, Placement(counts=tuple(int(c) for c in counts), mtp_stage=mtp_stage, options=options)


def _walk(
    problem: LayerProblem, counts: np.ndarray, mtp_stage: int, keys: Keys, limit: float, deadline: float
) -> tuple[np.ndarray, float]:
    """(counts where no move helps, its largest rank sum)."""
    open_stages = _open_stages(problem, mtp_stage)
    now = price(problem, counts[None], mtp_stage, rank_limit_s=limit)
    for _ in range(MAX_MOVES):
        moves = _neighbours(counts, _givers_and_takers(problem, now, open_stages))
        if not len(moves) or time.monotonic() > deadline:
            break
        table = keys(price(problem, moves, mtp_stage, rank_limit_s=limit), limit)
        first = np.lexsort(table[::-1])[0]
        if not _less(table[:, first], keys(now, limit)[:, 0]):
            break
        counts = moves[first]
        now = price(problem, counts[None], mtp_stage, rank_limit_s=limit)
    return counts, float(price(problem, counts[None], mtp_stage).rank_s.max())


def _givers_and_takers(problem: LayerProblem, now: Priced, open_stages: int) -> np.ndarray:
    """Pairs of stages tried, bool [open, open]: all, or where that is much work from ranks in the way to light ones."""
    pairs = ~np.eye(open_stages, dtype=bool)
    if len(option_combinations(len(problem.items.options), problem.vpp)) * open_stages**3 <= MAX_WORK:
        return pairs
    over = np.maximum(0, now.rank_bytes[0] - problem.memory_cap_bytes)
    heaviest = np.lexsort([-now.rank_s[0], -over])
    rank = np.arange(open_stages) % problem.pp
    giving = np.isin(rank, [heaviest[0], now.rank_s[0].argmax()])
    giving |= now.chunk_s[0, :open_stages] >= now.chunk_s[0].max() * (1 - 1e-9)
    return pairs & giving[:, None] & np.isin(rank, heaviest[-LIGHT_RANKS:])


def _neighbours(counts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Every placement one layer away by ``pairs`` (from, to), [M, S]."""
    giving, taking = np.nonzero(pairs & (counts[: len(pairs), None] > 0))
    moves = np.repeat(counts[None], giving.size, axis=0)
    rows = np.arange(giving.size)
    moves[rows, giving] -= 1
    moves[rows, taking] += 1
    return moves


def _rank_keys(priced: Priced, limit: float) -> np.ndarray:
    rank = priced.rank_s
    return np.stack([priced.excess_bytes, rank.max(axis=1), (rank**2).sum(axis=1), priced.chunk_s.max(axis=1)])


def _chunk_keys(priced: Priced, limit: float) -> np.ndarray:
    above = np.maximum(priced.rank_s.max(axis=1), limit)
    chunk = priced.chunk_s
    return np.stack([priced.excess_bytes, above, chunk.max(axis=1), (chunk**2).sum(axis=1)])


def _less(left: np.ndarray, right: np.ndarray) -> bool:
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        if abs(a - b) > 1e-9 * max(abs(a), abs(b)):
            return a < b
    return False

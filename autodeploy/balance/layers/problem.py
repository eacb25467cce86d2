"""The placement problem and how a placement is priced, many placements at a time.

Axes: M placements, S stages, O options, P ranks, V chunks, Q option combinations of a rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from autodeploy.balance.layers.items import LayerItems
from autodeploy.balance.layers.memory import InFlight
from autodeploy.errors import InputError

MAX_COMBINATIONS = 16  # of a rank's options tried by the local search; with more, one switch along its chunks
TIE_FRAC = 1e-6  # two times closer than this part of the mean rank sum count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProblem:
    items: LayerItems
    pp: int
    vpp: int
    in_flight: InFlight
    memory_cap_bytes: np.ndarray  # [P]
    mtp_apart: bool = True  # the MTP modules may sit on another stage than the head

    def __post_init__(self) -> None:
        if self.in_flight.ranks != self.pp or self.in_flight.chunks != self.vpp:
            shape = (self.in_flight.ranks, self.in_flight.chunks)
            raise InputError("in_flight", shape, f"of {self.pp} ranks and {self.vpp} chunks")

    @property
    def stages(self) -> int:
        return self.pp * self.vpp

    @property
    def mtp_stages(self) -> tuple[int, ...]:
        """Stages the MTP modules may take, the head's first. Empty without MTP."""
        if not self.items.mtp_modules:
            return ()
        last = self.stages - 1
        if not self.mtp_apart or self.pp == 1:
            return (last,)
        return tuple(range(last, self.stages - self.pp, -1))  # the last chunk of every rank but 0

    @property
    def mean_rank_s(self) -> float:
        """Seconds of a rank if all items, each under its fastest option, spread evenly."""
        return float(self.items.seconds.min(axis=0).sum() / self.pp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Decoder layers of each stage, the MTP stage (-1: none), the recompute option of each stage."""

    counts: tuple[int, ...]  # [S]
    mtp_stage: int
    options: tuple[int, ...]  # [S]

    def symbols(self, mtp_modules: int) -> tuple[str, ...]:
        """The layout, one string a stage: E, t, m and L."""
        last = len(self.counts) - 1
        return tuple(
            "E" * (s == 0) + "t" * count + "m" * (mtp_modules * (s == self.mtp_stage)) + "L" * (s == last)
            for s, count in enumerate(self.counts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """M placements with the best option of every rank. ``excess_bytes`` > 0 does not fit."""

    chunk_s: np.ndarray  # [M, S]
    rank_s: np.ndarray  # [M, P]
    rank_bytes: np.ndarray  # [M, P]
    excess_bytes: np.ndarray  # [M], summed over ranks
    options: np.ndarray  # [M, S]


def price(
    problem: LayerProblem,
    counts: np.ndarray,
    mtp_stage: int,
    options: np.ndarray | None = None,
    rank_limit_s: float = -np.inf,
) -> Priced:
    """Price ``counts`` [M, S]. Each rank takes the fastest options that fit (or ``options`` [S], as given).

    Between combinations of a rank (all, or those that switch once where there are many): the least excess of
    memory, then the least seconds above ``rank_limit_s``, then the shortest largest chunk, then the least seconds.
    """
    seconds, static, activation = _stage_tables(problem, counts, mtp_stage)
    size, pp, vpp = len(counts), problem.pp, problem.vpp
    by_rank_s = seconds.reshape(-1, size, vpp, pp)  # stage = chunk * P + rank
    by_rank_activation = activation.reshape(-1, size, vpp, pp)
    if options is None:
        combos = option_combinations(len(problem.items.options), vpp)[:, :, None].repeat(pp, axis=2)
    else:
        combos = np.asarray(options).reshape(1, vpp, pp)
    chunk, held = (_under(table, combos) for table in (by_rank_s, by_rank_activation))  # [Q, M, P, V]
    peak = np.stack([(held[:, :, r] @ problem.in_flight.rows[r].T).max(axis=-1) for r in range(pp)], axis=-1)
    peak += static.reshape(size, vpp, pp).sum(axis=1)  # [Q, M, P]
    best = _choose(problem, chunk, peak, rank_limit_s)
    m, p = np.ogrid[:size, :pp]
    chunk, peak = chunk[best, m, p], peak[best, m, p]
    excess = np.maximum(0, peak - problem.memory_cap_bytes)
    chosen = combos[best, :, p]  # [M, P, V]
    return Priced(
        chunk_s=chunk.transpose(0, 2, 1).reshape(size, -1),
        rank_s=chunk.sum(axis=-1),
        rank_bytes=peak,
        excess_bytes=excess.sum(axis=1),
        options=chosen.transpose(0, 2, 1).reshape(size, -1),
    )


def _under(table: np.ndarray, combos: np.ndarray) -> np.ndarray:
    """``table`` [O, M, V, P] under each combination [Q, V, P] of options: [Q, M, P, V]."""
    v, p = np.ogrid[: combos.shape[1], : combos.shape[2]]
    return np.stack([table[combo, :, v, p].transpose(2, 1, 0) for combo in combos])


def option_combinations(options: int, vpp: int) -> np.ndarray:
    """Options of a rank's chunks, [Q, V]: all of them, or, where that is many, those that switch once."""
    if options**vpp <= MAX_COMBINATIONS:
        return np.array(list(product(range(options), repeat=vpp)))
    once = {(a,) * k + (b,) * (vpp - k) for a, b in product(range(options), repeat=2) for k in range(vpp)}
    return np.array(sorted(once))


def _choose(problem: LayerProblem, chunk: np.ndarray, peak: np.ndarray, rank_limit_s: float) -> np.ndarray:
    """Combination of each placement and rank, [M, P], by lexicographic order over axis 0."""
    if len(chunk) == 1:
        return np.zeros(chunk.shape[1:3], dtype=np.int64)
    total = chunk.sum(axis=-1)
    keys = [np.maximum(0, peak - problem.memory_cap_bytes), np.maximum(total, rank_limit_s), chunk.max(axis=-1), total]
    alive = np.ones(total.shape, dtype=bool)
    for key in keys:
        best = np.where(alive, key, np.inf).min(axis=0)
        alive &= key <= best * (1 + 1e-12)
    return alive.argmax(axis=0)


def _stage_tables(
    problem: LayerProblem, counts: np.ndarray, mtp_stage: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds [O, M, S], static bytes [M, S], activation bytes [O, M, S] of every stage."""
    items, last = problem.items, problem.stages - 1
    ends = np.cumsum(counts, axis=1)
    starts = ends - counts

    def stage_sums(per_item: np.ndarray) -> np.ndarray:
        prefix = np.concatenate([[0.0], np.cumsum(per_item[items.decoder])])
        sums = prefix[ends] - prefix[starts]
        sums[:, 0] += per_item[0]
        sums[:, last] += per_item[-1]
        if mtp_stage >= 0:
            sums[:, mtp_stage] += per_item[items.mtp].sum()
        return sums

    static = stage_sums(items.static_bytes)
    if 0 <= mtp_stage < last:
        static[:, mtp_stage] += items.mtp_apart_bytes
    seconds = np.stack([stage_sums(row) for row in items.seconds])
    return seconds, static, np.stack([stage_sums(row) for row in items.activation_bytes])


def largest(problem: LayerProblem, placement: Placement) -> tuple[float, float, float]:
    """(excess bytes, largest rank sum, largest chunk) of one placement."""
    priced = price(problem, np.array([placement.counts]), placement.mtp_stage, np.array(placement.options))
    return float(priced.excess_bytes[0]), float(priced.rank_s.max()), float(priced.chunk_s.max())


def equal_runs(problem: LayerProblem) -> list[slice]:
    """Runs of decoder layers equal in every figure, as slices of the items."""
    items = problem.items
    table = np.concatenate([items.seconds, items.static_bytes[None], items.activation_bytes])[:, items.decoder]
    edges = [0, *(np.nonzero((np.diff(table, axis=1) != 0).any(axis=0))[0] + 1).tolist(), table.shape[1]]
    return [slice(1 + a, 1 + b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

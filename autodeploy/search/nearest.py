"""Nothing fits: what comes closest, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autodeploy.search.candidates import Candidates
from autodeploy.search.request import SearchRequest
from autodeploy.search.shortlist import rank_within_group
from autodeploy.search.space import WalkCounts, chunks, plans
from autodeploy.search.twin import Twin
from cost_models.strategies import RECOMPUTE_BIT, StrategyBatch

GIB = 2**30
SHOWN = 5
DOUBLINGS = 5  # how far more cards are tried: up to 32 times as many


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    strategy: StrategyBatch  # of length 1
    short_by_bytes: float
    fix: str


@dataclass(frozen=True, slots=True)
class Remedy:
    words: str
    apply: Callable[[StrategyBatch], StrategyBatch]


def _recompute(batch: StrategyBatch) -> StrategyBatch:
    return replace(
        batch,
        recompute=np.full_like(batch.recompute, RECOMPUTE_BIT["full"]),
        recompute_layers=np.zeros_like(batch.recompute_layers),
    )


def _offload(batch: StrategyBatch) -> StrategyBatch:
    return replace(batch, offload_frac=np.ones_like(batch.offload_frac))


def _micro_batch_of_one(batch: StrategyBatch) -> StrategyBatch:
    return replace(batch, micro_batch=np.ones_like(batch.micro_batch))


# Cheapest first; the first that makes it fit is the one named.
REMEDIES = (
    Remedy("micro-batch 1", _micro_batch_of_one),
    Remedy("full recompute", _recompute),
    Remedy("optimizer state offloaded to the host (offload 1.0)", _offload),
    Remedy("full recompute, and optimizer state offloaded to the host", lambda batch: _recompute(_offload(batch))),
)


def nearest(request: SearchRequest, misses: Candidates, twin: Twin) -> list[NearMiss]:
    """The closest strategies, each with the first remedy that makes it fit, or else how many cards would."""
    best = misses.take(rank_within_group(misses) == 0).take(slice(0, SHOWN))
    if not len(best):
        return []
    fixes = _remedies(request, best.batch, twin)
    more_cards = fewest_cards(request, twin)
    cap = request.hardware.usable_bytes
    return [
        NearMiss(
            strategy=best.batch.take(slice(i, i + 1)),
            short_by_bytes=float(best.reserved_bytes[i] - cap),
            fix="; or ".join(part for part in (fixes[i], more_cards) if part)
            or f"needs more than {2**DOUBLINGS} times the cards, or cards with more memory",
        )
        for i in range(len(best))
    ]


def _remedies(request: SearchRequest, batch: StrategyBatch, twin: Twin) -> list[str]:
    words = [""] * len(batch)
    for remedy in REMEDIES:
        cost = twin.evaluate(request.case, remedy.apply(batch))
        for i in range(len(batch)):
            if cost.feasible[i] and not words[i]:
                words[i] = remedy.words
    return words


def fewest_cards(request: SearchRequest, twin: Twin) -> str:
    """The smallest power-of-two multiple of the cards at which some strategy fits, in words; "" if none does."""
    largest = max(request.devices)
    for doubling in range(1, DOUBLINGS + 1):
        devices = largest * 2**doubling
        found = _any_feasible(replace(request, devices=(devices,)), twin)
        if found is not None:
            return f"{devices} cards (TP{found.tp[0]}/PP{found.pp[0]}/EP{found.ep[0]} fits)"
    return ""


def _any_feasible(request: SearchRequest, twin: Twin) -> StrategyBatch | None:
    """The fastest (of bounds, where there are any) of the first strategies in which some fits."""
    if twin.bounds is None or twin.laddered is None:
        return _any_feasible_priced(request, twin)
    cap = request.hardware.usable_bytes
    for _, plan in plans(twin.laddered(request), request, WalkCounts()):
        for space, _ in map(plan.part, range(len(plan))):
            found = twin.bounded(request, space.bases, space.ladder)
            fits = space.allowed & (found.peak_reserved_bytes <= cap)
            if fits.any():
                least = np.argmin(np.where(fits, found.least_step_s, np.inf))
                base, rung = np.unravel_index([least], fits.shape)
                return space.batch(base, rung)
    return None


def _any_feasible_priced(request: SearchRequest, twin: Twin) -> StrategyBatch | None:
    for batch in chunks(twin.space, request, WalkCounts()):
        cost = twin.evaluate(request.case, batch)
        if cost.feasible.any():
            least = int(np.argmin(np.where(cost.feasible, cost.step_s, np.inf)))
            return batch.take(slice(least, least + 1))
    return None

"""The two ways in which a study serves a search: around what the screen found, or alone over the whole space."""

from __future__ import annotations

import time

from autodeploy.search.candidates import Candidates, best_first
from autodeploy.search.moves import free_moves, landscape_around
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.shortlist import Shortlist
from autodeploy.search.space import Space, SpaceCounts, chunks
from autodeploy.search.twin import Twin
from autodeploy.study.landscape import Catalogue, Landscape
from autodeploy.study.loop import Refined, refine
from cost_models.strategies import StrategyBatch

ORIGINS = 48  # best strategies that the study moves around
FASTER_ORIGINS = 24  # strategies that would be faster still and almost fit
NOTHING = Refined(None, 0, 0.0, False)


def refine_around(
    request: SearchRequest,
    shortlist: Shortlist,
    pool: Candidates,
    twin: Twin,
    deadline: float | None,
    progress: Progress | None,
) -> Refined:
    """What a study finds around the best of the pool, its front, and what almost fits, in closed-form prices."""
    began = time.monotonic()
    if request.trials == 0:
        return NOTHING
    best = pool.take(best_first(pool)[:ORIGINS])
    faster = shortlist.almost.take(shortlist.almost.score < best.score[-1])
    started = Candidates.concatenate([best, faster.take(best_first(faster)[:FASTER_ORIGINS])])
    catalogue = Candidates.concatenate([started, shortlist.front])
    landscape = landscape_around(
        catalogue.batch,
        len(started),
        request.workload.global_batch,
        lambda batch: twin.valid(request, batch),
        free_moves(request.axes),
    )
    found = refine(request, landscape, lambda batch: twin.refined(request, batch), deadline=deadline, progress=progress)
    return _screened(request, twin, found, time.monotonic() - began)


def study_space(
    request: SearchRequest, twin: Twin, counts: SpaceCounts, deadline: float | None, progress: Progress | None
) -> Refined:
    """What a study alone finds in the whole space, in closed-form prices."""
    landscape = landscape_of_space(request, twin.space, counts)
    if landscape is None or request.trials == 0:
        return NOTHING
    found = refine(request, landscape, lambda batch: twin.refined(request, batch), deadline=deadline, progress=progress)
    return _screened(request, twin, found, found.seconds)


def landscape_of_space(request: SearchRequest, space: Space, counts: SpaceCounts) -> Landscape | None:
    """None where the space is empty. Walks the space once; prices nothing."""
    parts = list(chunks(space, request, counts))
    if not parts:
        return None
    catalogue = Catalogue(StrategyBatch.concatenate(parts))
    return Landscape(choices=catalogue.choices, decode=catalogue.decode)


def _screened(request: SearchRequest, twin: Twin, found: Refined, seconds: float) -> Refined:
    candidates = None if found.candidates is None else twin.screened(request, found.candidates.batch)
    return Refined(candidates, found.trials, seconds, found.timed_out, found.interrupted, found.settled)

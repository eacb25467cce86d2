"""The two ways in which a study serves a search: around what the screen found, or alone over the whole space."""

from __future__ import annotations

import time

from autodeploy.search.candidates import Candidates, best_first
from autodeploy.search.catalogue import landscape_of_space
from autodeploy.search.moves import free_moves, landscape_around
from autodeploy.search.refine import Refined, refine
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.shortlist import Shortlist
from autodeploy.search.space import SpaceCounts
from autodeploy.search.twin import Twin

ORIGINS = 48  # best strategies that the study moves around
FASTER_ORIGINS = 24  # strategies that would be faster still and almost fit


def refine_around(
    request: SearchRequest,
    shortlist: Shortlist,
    pool: Candidates,
    twin: Twin,
    deadline: float | None,
    progress: Progress | None,
) -> Refined:
    """What a study finds around the best of the pool and around what almost fits, in closed-form prices."""
    began = time.monotonic()
    if request.trials == 0:
        return Refined(None, 0, 0.0, False)
    best = pool.take(best_first(pool)[:ORIGINS])
    faster = shortlist.almost.take(shortlist.almost.score < best.score[-1])
    origins = Candidates.concatenate([best, faster.take(best_first(faster)[:FASTER_ORIGINS])])
    landscape = landscape_around(
        origins.batch, request.workload.global_batch, lambda batch: twin.valid(request, batch), free_moves(request.axes)
    )
    found = refine(request, landscape, lambda batch: twin.refined(request, batch), deadline=deadline, progress=progress)
    candidates = None if found.candidates is None else twin.screened(request, found.candidates.batch)
    return Refined(candidates, found.trials, time.monotonic() - began, found.timed_out)


def study_space(
    request: SearchRequest, twin: Twin, counts: SpaceCounts, deadline: float | None, progress: Progress | None
) -> Refined:
    """What a study alone finds in the whole space, in closed-form prices."""
    landscape = landscape_of_space(request, twin.space, counts)
    if landscape is None or request.trials == 0:
        return Refined(None, 0, 0.0, False)
    found = refine(request, landscape, lambda batch: twin.refined(request, batch), deadline=deadline, progress=progress)
    assert found.candidates is not None, "a study of at least one trial has tried something"
    candidates = twin.screened(request, found.candidates.batch)
    return Refined(candidates, found.trials, found.seconds, found.timed_out)

"""The two ways in which a study serves a search: around what the screen found, or alone over the whole space."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from autodeploy.search.bound import UNAVOIDABLE, least_step_s
from autodeploy.search.candidates import Candidates, objective
from autodeploy.search.moves import free_moves, landscape_around
from autodeploy.search.pooled import study_prices
from autodeploy.search.refined import NOTHING, Refined
from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.space import Space, WalkCounts, chunks
from autodeploy.search.twin import Twin
from autodeploy.study.landscape import Catalogue, Landscape
from autodeploy.study.loop import refine
from cost_models.strategies import StrategyBatch


def refine_around(
    request: SearchRequest, origins: Candidates, front: Candidates, twin: Twin, deadline: float | None,
    progress: Progress | None,
) -> Refined:  # fmt: skip
    """What a study finds around the origins, tried first, and the front."""
    began = time.monotonic()
    if not request.runs_study:
        return NOTHING
    catalogue = Candidates.concatenate([origins, front])
    landscape = landscape_around(
        catalogue.batch,
        len(origins),
        request.workload.global_batch,
        lambda batch: twin.valid(request, batch),
        free_moves(request.axes),
    )
    enough = nothing_better(request, twin, catalogue)
    with study_prices(request, twin) as price:
        found = refine(request, landscape, price, deadline=deadline, progress=progress, enough=enough)
    return _screened(request, twin, found, time.monotonic() - began)


def nothing_better(request: SearchRequest, twin: Twin, catalogue: Candidates) -> Callable[[float], bool] | None:
    """Whether no strategy of the catalogue, moved or not, can score less than what was found: by its lower bound. None
    where there is no bound: for memory, and for an evaluation that does not tell causes."""
    if request.objective in ("memory", "pareto"):
        return None
    time_s = twin.evaluate(request.case, catalogue.batch).time_s
    if not set(UNAVOIDABLE) <= set(time_s):
        return None
    bound = objective(request.objective, catalogue.batch, least_step_s(time_s), catalogue.reserved_bytes)
    least = float(np.min(bound))
    return lambda best: best <= least


def study_space(
    request: SearchRequest, twin: Twin, counts: WalkCounts, deadline: float | None, progress: Progress | None
) -> Refined:
    """What a study alone finds in the whole space, in closed-form prices."""
    landscape = landscape_of_space(request, twin.space, counts)
    if landscape is None or not request.runs_study:
        return NOTHING
    with study_prices(request, twin) as price:
        found = refine(request, landscape, price, deadline=deadline, progress=progress)
    return _screened(request, twin, found, found.seconds)


def landscape_of_space(request: SearchRequest, space: Space, counts: WalkCounts) -> Landscape | None:
    """None where the space is empty. Walks the space once; prices nothing."""
    parts = list(chunks(space, request, counts))
    if not parts:
        return None
    catalogue = Catalogue(StrategyBatch.concatenate(parts))
    return Landscape(choices=catalogue.choices, decode=catalogue.decode)


def _screened(request: SearchRequest, twin: Twin, found: Refined, seconds: float) -> Refined:
    """In prices of this run: what a storage holds may have been told by another."""
    candidates = None if found.candidates is None else twin.screened(request, found.candidates.batch)
    return replace(found, candidates=candidates, seconds=seconds)

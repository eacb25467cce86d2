"""The sweep finds what trying every combination of its moves finds, whatever bound it is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.search.candidates import Candidates, group_key
from autodeploy.search.moves import (
    EIGHTHS,
    base_variants,
    free_moves,
    group_sizes,
    ladder_of,
    most_layers,
    spared_layers,
)
from autodeploy.search.request import SearchRequest
from autodeploy.search.run import Twin
from autodeploy.search.screen import screen
from autodeploy.search.shortlist import pareto_front
from autodeploy.search.sweep import origins_around, sweep_around
from autodeploy.strategy.axes import Axes
from cost_models.case import Case
from cost_models.step import Bounds
from cost_models.strategies import RECOMPUTE_BIT, Ladder, StrategyBatch, single
from tests.search import fakes

FULL = RECOMPUTE_BIT["full"]


def twin_with(bound_frac: float = 1.0) -> Twin:
    """Its lower bound of the time is this part of the step."""

    def bounds(case: Case, bases: StrategyBatch, ladder: Ladder, most_bytes: float = np.inf) -> Bounds:
        cost = fakes.evaluate(case, ladder.expand(bases))
        shape = (len(bases), len(ladder))
        return Bounds(
            least_step_s=np.where(cost.peak_reserved_bytes <= most_bytes, bound_frac * cost.step_s, 0.0).reshape(shape),
            peak_reserved_bytes=cost.peak_reserved_bytes.reshape(shape),
        )

    return Twin(evaluate=fakes.evaluate, space=fakes.space, valid=fakes.valid, bounds=bounds)


def small_cards(gib: float, **changes: object) -> SearchRequest:
    device = replace(fakes.HARDWARE.device, usable_bytes=gib * fakes.GIB)
    return fakes.request(method="auto", hardware=replace(fakes.HARDWARE, device=device), **changes)


def screened(request: SearchRequest, twin: Twin) -> tuple[Candidates, Candidates]:
    """The pool, and what is moved around."""
    shortlist = screen(request, twin).shortlist
    assert shortlist is not None
    pool = Candidates.concatenate([shortlist.groups, shortlist.overall, shortlist.front])
    return pool, Candidates.concatenate([origins_around(pool, shortlist.almost), shortlist.front])


def every_move(request: SearchRequest, origins: StrategyBatch, twin: Twin) -> Candidates:
    bases = base_variants(origins, request.workload.global_batch, free_moves(request.axes))
    parts = []
    for layers in np.unique(most_layers(bases)):
        covered = sorted(set(spared_layers(np.array([layers]))[0].tolist()))
        ladder = ladder_of([(0, 0), *((FULL, count) for count in covered)], EIGHTHS, EIGHTHS)
        parts.append(ladder.expand(bases.take(most_layers(bases) == layers)))
    return twin.screened(request, StrategyBatch.concatenate(parts))


def best_of_groups(candidates: Candidates) -> dict[tuple[int, int], float]:
    fitting = candidates.take(candidates.feasible)
    found: dict[tuple[int, int], float] = {}
    for first, second, score in zip(*group_key(fitting.batch), fitting.score, strict=True):
        key = (int(first), int(second))
        found[key] = min(found.get(key, np.inf), float(score))
    return found


@pytest.mark.parametrize("gib", [2.0, 3.0, 5.0, 8.0, 12.0])
@pytest.mark.parametrize("bound_frac", [0.6, 0.97, 1.0])
@pytest.mark.parametrize("objective", ["time", "memory", "cost"])
def test_the_best_of_every_group_is_that_of_all_moves(gib: float, bound_frac: float, objective: str) -> None:
    request, twin = small_cards(gib, objective=objective), twin_with(bound_frac)
    pool, origins = screened(request, twin)
    if not len(pool):
        return
    found = sweep_around(request, origins, pool, twin, 1000)
    parts = [pool] if found.candidates is None else [pool, found.candidates]
    swept = best_of_groups(Candidates.concatenate(parts))
    exhaustive = best_of_groups(Candidates.concatenate([pool, every_move(request, origins.batch, twin)]))
    assert swept == pytest.approx(exhaustive)


@pytest.mark.parametrize("gib", [2.0, 3.0, 5.0, 8.0, 12.0])
@pytest.mark.parametrize("bound_frac", [0.6, 0.97, 1.0])
def test_the_front_is_that_of_all_moves(gib: float, bound_frac: float) -> None:
    request, twin = small_cards(gib, objective="pareto"), twin_with(bound_frac)
    pool, origins = screened(request, twin)
    if not len(pool):
        return
    found = sweep_around(request, origins, pool, twin, 1000)
    parts = [pool] if found.candidates is None else [pool, found.candidates]
    moved = every_move(request, origins.batch, twin)
    swept = pareto_front(Candidates.concatenate(parts))
    exhaustive = pareto_front(Candidates.concatenate([pool, moved.take(moved.feasible)]))
    assert swept.step_s == pytest.approx(exhaustive.step_s)
    assert swept.reserved_bytes == pytest.approx(exhaustive.reserved_bytes)


def test_an_axis_of_the_users_is_not_moved() -> None:
    axes = Axes(swap=(0.0,), offload=(0.0,))
    request, twin = small_cards(5.0, axes=axes), twin_with()
    pool, origins = screened(request, twin)
    found = sweep_around(request, origins, pool, twin, 1000).candidates
    assert found is None or not (found.batch.swap_frac.any() or found.batch.offload_frac.any())


def test_what_needs_no_relief_is_weighed_once() -> None:
    """Cards so large that everything fits: the micro-batch groups alone are left, and cost memory for nothing."""
    request, twin = small_cards(1000.0), twin_with()
    pool, origins = screened(request, twin)
    found = sweep_around(request, origins, pool, twin, 1000)
    bases = base_variants(origins.batch, request.workload.global_batch, free_moves(request.axes))
    assert found.candidates is None and found.trials == len(bases)


def test_bases_are_without_relief_and_once() -> None:
    one = single(layout=fakes.layout(2, 2), pp=2, vpp=2, dp=2, schedule="interleaved", swap_frac=0.5)
    other = replace(one, recompute=np.array([FULL]), micro_batch_group=np.array([2]))  # 2 is PP: the same group
    bases = base_variants(StrategyBatch.concatenate([one, other]), 32, dict.fromkeys(free_moves(Axes()), True))
    assert bases.micro_batch_group.tolist() == [0, *group_sizes(2, 8)[1:4]]
    assert not (bases.recompute.any() or bases.swap_frac.any() or bases.offload_frac.any())


def test_spared_layers_by_hand() -> None:
    """Eighths of 4 spare 0, 0, 1, 1, 2, 2, 3, 3 layers; of 1 none."""
    assert spared_layers(np.array([4, 1])).tolist() == [[0, 0, 3, 0, 2, 0, 1, 0], [0] * 8]

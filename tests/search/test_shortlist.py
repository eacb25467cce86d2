from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.search.candidates import Candidates, best_first, compact_layouts, group_key, objective, price
from autodeploy.search.rank import identities, rank
from autodeploy.search.shortlist import (
    Keeping,
    best_of_groups,
    nearest_misses,
    pareto_front,
    rank_within_group,
    shorten,
)
from autodeploy.search.space import WalkCounts, chunks
from cost_models.strategies import StrategyBatch
from tests.search import fakes

CAP = fakes.HARDWARE.usable_bytes
KEEPING = Keeping(top=8, groups=5, cap_bytes=CAP, safe_bytes=0.9 * CAP, misses=True)


def everything() -> Candidates:
    request = fakes.request()
    batch = StrategyBatch.concatenate(list(chunks(fakes.space, request, WalkCounts())))
    return price(request, batch, fakes.evaluate)


def test_layouts_become_one_each() -> None:
    batch = everything().batch
    compact = compact_layouts(batch)
    assert len(compact.layouts) == 5 < len(batch.layouts)  # (1,1) (2,1) (2,2) (4,1) (4,2)
    for i in range(len(batch)):
        before, after = batch.layouts[batch.layout[i]], compact.layouts[compact.layout[i]]
        assert (before.pp, before.vpp) == (after.pp, after.vpp)


def test_groups_keep_their_best() -> None:
    candidates = everything()
    groups = best_of_groups(candidates, variants=1, groups=len(candidates))
    first, second = group_key(candidates.batch)
    best = {}
    for key, score in zip(zip(first.tolist(), second.tolist(), strict=True), candidates.score, strict=True):
        best[key] = min(score, best.get(key, np.inf))
    assert sorted(groups.score) == pytest.approx(sorted(best.values()))
    assert list(groups.score) == sorted(groups.score)


def test_group_key_tells_every_axis_apart() -> None:
    one = everything().batch.take(slice(0, 1))
    keys = set()
    for name in ("tp", "pp", "vpp", "ep", "etp", "cp", "dp"):
        for value in (3, 4, 1024):
            changed = dataclasses.replace(one, **{name: np.array([value])})
            keys.add(tuple(int(k[0]) for k in group_key(changed)))
    assert len(keys) == 21


def test_pareto_front_against_brute_force() -> None:
    candidates = everything()
    front = pareto_front(candidates)
    points = list(zip(candidates.step_s, candidates.reserved_bytes, strict=True))
    wanted = {p for p in points if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)}
    assert set(zip(front.step_s, front.reserved_bytes, strict=True)) == wanted


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_merging_parts_is_shortening_the_whole(cuts: list[int]) -> None:
    candidates = everything()
    whole = shorten(candidates, KEEPING)
    edges = sorted({0, len(candidates), *(cut % len(candidates) for cut in cuts)})
    merged = None
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        part = shorten(candidates.take(slice(low, high)), KEEPING)
        merged = part if merged is None else merged.merge(part, KEEPING)
    assert merged is not None
    assert (merged.screened, merged.feasible) == (whole.screened, whole.feasible)
    for name in ("groups", "overall", "front", "almost", "sizes", "safe", "plain", "misses"):
        assert identities(getattr(merged, name)) == identities(getattr(whole, name))


def test_misses_are_of_different_groups() -> None:
    candidates = everything()
    misses = nearest_misses(candidates.take(~candidates.feasible))
    assert set(rank_within_group(misses).tolist()) == {0}
    assert misses.reserved_bytes[0] == candidates.reserved_bytes[~candidates.feasible].min()


def test_equal_scores_put_less_memory_and_plainer_first() -> None:
    candidates = everything()
    tied = dataclasses.replace(candidates, score=np.ones(len(candidates)), reserved_bytes=np.ones(len(candidates)))
    first = int(best_first(tied)[0])
    assert candidates.batch.recompute[first] == 0 and candidates.batch.micro_batch[first] == 1


def test_objectives() -> None:
    candidates = everything()
    batch, step, memory = candidates.batch, candidates.step_s, candidates.reserved_bytes
    assert list(objective("time", batch, step, memory)) == list(step)
    assert list(objective("memory", batch, step, memory)) == list(memory)
    assert list(objective("cost", batch, step, memory)) == list(step * 16)


def test_rank_shows_a_strategy_once() -> None:
    candidates = everything()
    doubled = Candidates.concatenate([candidates, candidates])
    ranking = rank(fakes.request(all_variants=True, top=1000), doubled, doubled.step_s, doubled.step_s)
    assert len(ranking.candidates) == int(candidates.feasible.sum())
    assert list(ranking.candidates.step_s) == sorted(ranking.candidates.step_s)

"""Bounds before prices: the shortlist is that of the space priced in full, whatever the bounds, the windows, the workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.search import bounded, workers
from autodeploy.search.bounded import BoundedScreen
from autodeploy.search.candidates import price
from autodeploy.search.rank import identities
from autodeploy.search.real_parts import rules_allow, standard_laddered, standard_space
from autodeploy.search.request import OBJECTIVES, SearchRequest
from autodeploy.search.screen import Screened, keeping_of, screen
from autodeploy.search.shortlist import Keeping, Shortlist, shorten
from autodeploy.search.space import PART, WalkCounts, coarse_to_fine, plans
from autodeploy.search.twin import Twin
from autodeploy.search.workers import workers_for
from autodeploy.strategy.laddered import Laddered
from autodeploy.strategy.plan import SpaceCounts
from cost_models.case import Case
from cost_models.inputs import Workload
from cost_models.step import Bounds, StepPrice, bounds, evaluate
from cost_models.step import price as step_price
from cost_models.strategies import RECOMPUTE_BIT, Ladder, StrategyBatch, single
from tests.search import fakes

LISTS = ("groups", "overall", "front", "almost", "sizes", "safe", "plain", "misses")
REAL = Twin(
    evaluate=evaluate,
    price=step_price,
    space=standard_space,
    valid=rules_allow,
    laddered=standard_laddered,
    bounds=bounds,
)
CASES = {
    # model: profile, cards, sequence length, global batch, back end
    "llama-3-8b": ("h100-sxm", (16,), 4096, 64, "megatron"),
    "deepseek-v2-lite": ("atlas-800t-a2", (16, 64), 4096, 256, "mindspeed"),
    "mixtral-8x7b": ("a100-80g-sxm", (32,), 4096, 128, "any"),
    "gpt-oss-20b": ("mi300x", (8, 16, 24), 4096, 96, "torchtitan"),
}


def asked(name: str, **more: object) -> SearchRequest:
    profile, devices, sequence, batch, backend = CASES[name]
    hardware = load_hardware(profile)
    workload = Workload(seq_length=sequence, global_batch=batch, stack=hardware.stack)
    case = Case(model=load_model(name), hardware=hardware, workload=workload)
    given = {"case": case, "devices": devices, "backend": backend, "safe_usage": 0.9}
    return SearchRequest(**{**given, **more})  # type: ignore[arg-type]


def agree(left: Screened, right: Screened) -> None:
    assert left.shortlist is not None and right.shortlist is not None
    same(left.shortlist, right.shortlist)
    assert left.counts == right.counts


def same(left: Shortlist, right: Shortlist) -> None:
    assert (left.screened, left.feasible) == (right.screened, right.feasible)
    for name in LISTS:
        one, other = getattr(left, name), getattr(right, name)
        assert identities(one) == identities(other), name
        assert np.allclose(one.step_s, other.step_s, rtol=1e-12, atol=0), name
        assert np.allclose(one.reserved_bytes, other.reserved_bytes, rtol=1e-12, atol=0), name


# ------------------------------------------------------------------------------------------- real models


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_shortlist_is_that_of_the_space_priced_in_full(name: str, objective: str) -> None:
    request = asked(name, objective=objective, top=5)
    agree(screen(request, REAL), screen(request, replace(REAL, bounds=None)))


def test_the_nearest_misses_are_those_of_the_space_priced_in_full() -> None:
    request = asked("deepseek-v2-lite", keep_oversized=True)
    device = replace(request.hardware.device, usable_bytes=1.5 * 2**30)
    case = replace(request.case, hardware=replace(request.hardware, device=device))
    found = screen(replace(request, case=case), REAL)
    agree(found, screen(replace(request, case=case), replace(REAL, bounds=None)))
    assert found.shortlist is not None and not found.shortlist.feasible and len(found.shortlist.misses) > 5


def test_few_are_priced() -> None:
    priced: list[int] = []

    def counting(case: Case, batch: StrategyBatch) -> StepPrice:
        priced.append(len(batch))
        return step_price(case, batch)

    found = screen(asked("mixtral-8x7b", top=5), replace(REAL, price=counting)).shortlist
    assert found is not None and 0 < sum(priced) < found.screened / 2


def test_workers_do_not_change_what_is_found() -> None:
    request = asked("gpt-oss-20b")
    agree(screen(replace(request, workers=3), REAL), screen(replace(request, workers=1), REAL))


def test_windows_do_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked("deepseek-v2-lite")
    whole = screen(request, REAL)
    monkeypatch.setattr(bounded, "WINDOW", 100)
    agree(screen(request, REAL), whole)


# --------------------------------------------------------------------------------------- synthetic prices


LADDER = Ladder(
    recompute=np.array([0, RECOMPUTE_BIT["layernorm"], RECOMPUTE_BIT["full"]]), recompute_layers=np.zeros(3, dtype=np.int64),
    swap_frac=np.array([0.0, 1.0, 0.0]), offload_frac=np.zeros(3),
)  # fmt: skip


def random_space(random: np.random.Generator, count: int) -> Laddered:
    """Different bases: 80 groups by TP, CP, EP and cards; the micro-batch tells their members apart."""
    numbers = random.choice(4000, count, replace=False)
    one = single(layout=fakes.layout(1, 1)).take(np.zeros(count, dtype=np.intp))
    sizes = {
        "tp": 1 + numbers % 5,
        "cp": 1 + numbers // 5 % 4,
        "ep": 1 + numbers // 20 % 2,
        "dp": 1 + numbers // 40 % 2,
    }
    sizes["micro_batch"] = 1 + numbers // 80
    bases = replace(one, **sizes, zero_stage=random.integers(0, 3, count))
    return Laddered(bases=bases, ladder=LADDER, allowed=random.random((count, 3)) < 0.8)


def synthetic(space: Laddered, random: np.random.Generator, tightness: float) -> tuple[Callable, Callable]:  # type: ignore[type-arg]
    """Prices with many ties, and bounds below them, by how many recompute and what their bases are."""
    shape = (len(space.bases), len(space.ladder))
    step_s = np.round(random.uniform(1.0, 3.0, shape), 1 + int(random.integers(0, 3)))
    memory = np.round(random.uniform(0.2, 1.6, shape), 1 + int(random.integers(0, 3))) * fakes.HARDWARE.usable_bytes
    least = step_s * np.where(random.random(shape) < 0.3, 1.0, random.uniform(tightness, 1.0, shape)) * (1 + 1e-13)
    place = {row: i for i, row in enumerate(zip(*_keys(space.bases), strict=True))}

    def at(batch: StrategyBatch) -> tuple[np.ndarray, np.ndarray]:
        rung = np.array([0, 1, 2])[np.searchsorted(np.sort(LADDER.recompute), batch.recompute)]
        return np.array([place[row] for row in zip(*_keys(batch), strict=True)], dtype=np.intp), rung

    def priced(case: Case, batch: StrategyBatch) -> StepPrice:
        rows = at(batch)
        return StepPrice(
            step_s=step_s[rows], peak_reserved_bytes=memory[rows], feasible=memory[rows] <= case.hardware.usable_bytes
        )

    def bounded_by(case: Case, bases: StrategyBatch, ladder: Ladder, most_bytes: float) -> Bounds:
        rows = at(bases)[0]
        least_step_s = np.where(memory[rows] > most_bytes, 0.0, least[rows])
        return Bounds(least_step_s=least_step_s, peak_reserved_bytes=memory[rows])

    return priced, bounded_by


def _keys(batch: StrategyBatch) -> list[list[int]]:
    return [getattr(batch, name).tolist() for name in ("tp", "cp", "ep", "dp", "micro_batch")]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), count=st.integers(1, 300), tightness=st.sampled_from((0.5, 0.9, 0.99)),
    objective=st.sampled_from(OBJECTIVES), top=st.sampled_from((1, 3, 10)),
    groups=st.sampled_from((1, 5, 30)), cuts=st.integers(1, 5),
    batch=st.sampled_from((1, 7, 64)),
)  # fmt: skip
def test_whatever_the_bounds(
    seed: int, count: int, tightness: float, objective: str, top: int, groups: int, cuts: int, batch: int
) -> None:
    random = np.random.default_rng(seed)
    space = random_space(random, count)
    priced, bounded_by = synthetic(space, random, tightness)
    request = fakes.request(objective=objective, safe_usage=0.8)
    keeping = replace(keeping_of(request), top=top, groups=groups, misses=True)
    twin = Twin(evaluate=priced, space=fakes.space, valid=fakes.valid, bounds=bounded_by)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "FIRST_BATCH", batch)
        run = BoundedScreen(request, twin, keeping, lambda: False)
        merged: Shortlist | None = None
        for rows in np.array_split(np.arange(count), cuts):
            run.add(space.take(rows))
            if random.random() < 0.5:
                merged = joined(merged, run.flush(), keeping)
        merged = joined(merged, run.flush(), keeping)
    assert merged is not None or not len(space)
    if merged is not None:
        same(merged, shorten(price(request, space.expand(), priced), keeping))


def joined(left: Shortlist | None, right: Shortlist | None, keeping: Keeping) -> Shortlist | None:
    if left is None or right is None:
        return right if left is None else left
    return left.merge(right, keeping)


# ------------------------------------------------------------------------------- sizes, workers, the clock


@dataclass
class Counted:
    """Plans of which only the number of strategies is known: ``per_size`` for each number of cards."""

    per_size: int
    asked: list[tuple[int, ...]]

    def plan(self, sizes: tuple[int, ...], chunk: int) -> SimpleNamespace:
        self.asked.append(tuple(sizes))
        return SimpleNamespace(counts=SpaceCounts(core=len(sizes)), most=self.per_size * len(sizes))


def test_small_sizes_share_a_plan_coarse_to_fine_and_large_ones_stand_alone() -> None:
    request = fakes.request(devices=tuple(range(8, 808, 8)))
    small, large, counts = Counted(100, []), Counted(10 * PART, []), WalkCounts()
    for space in (small, large):
        counts = WalkCounts()
        assert len(list(plans(space, request, counts))) == len(space.asked)  # type: ignore[arg-type]
        assert [size for sizes in space.asked for size in sizes] == coarse_to_fine(request.devices)
        assert counts.sizes == counts.core == 100
    assert len(small.asked) == 7 and max(map(len, small.asked)) == 37  # 1, 2, 4, 8, 16, 32, what is left
    assert set(map(len, large.asked)) == {1}


def test_workers_are_those_asked_for_or_what_the_space_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_cores", lambda: 4)

    def started(most: int, **asked: object) -> int:
        request = fakes.request(**asked)
        return workers_for(request, request.devices[:1], Counted(most, []).plan((16,), 0))  # type: ignore[arg-type]

    assert [started(most) for most in (0, 10**5, 10**6, 10**8)] == [1, 1, 2, 4]
    assert started(10**5, devices=tuple(range(8, 96, 8))) == 2  # eleven sizes like the first
    assert started(10, workers=3) == 3 and started(10**8, workers=1) == 1


def test_a_search_out_of_time_has_looked_at_something_and_priced_it() -> None:
    found = screen(asked("gpt-oss-20b", devices=(8, 16, 24)), REAL, deadline=0.0)
    assert found.timed_out and found.counts.sizes < 3
    assert found.shortlist is not None and found.shortlist.screened and len(found.shortlist.overall)
    together = screen(asked("gpt-oss-20b", workers=2), REAL, deadline=0.0)
    assert together.timed_out and together.shortlist is not None and len(together.shortlist.overall)


def test_ctrl_c_keeps_what_was_found() -> None:
    calls = [0]

    def interrupted(case: Case, bases: StrategyBatch, ladder: Ladder, most_bytes: float) -> Bounds:
        calls[0] += 1
        if calls[0] > 1:
            raise KeyboardInterrupt
        return bounds(case, bases, ladder, most_bytes)

    request = replace(asked("deepseek-v2-lite"), devices=(64, 128, 256))
    found = screen(request, replace(REAL, bounds=interrupted))
    assert found.interrupted and found.shortlist is not None and len(found.shortlist.overall) == 64
    with pytest.raises(KeyboardInterrupt):
        screen(request, replace(REAL, bounds=interrupted))  # at once: there is nothing to rank

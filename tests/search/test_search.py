from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.search.rank import identities
from autodeploy.search.request import METHODS, OBJECTIVES
from autodeploy.search.run import SearchResult, Twin, search
from autodeploy.search.space import coarse_to_fine
from autodeploy.strategy.axes import Axes
from cost_models.strategies import StrategyBatch
from tests.search import fakes


def run(**changes: object) -> SearchResult:
    parts = {name: changes.pop(name) for name in ("refiner",) if name in changes}
    request = fakes.request(**changes)
    return search(request, Twin(evaluate=fakes.evaluate, space=fakes.space, valid=fakes.valid, **parts))  # type: ignore[arg-type]


def best(result: SearchResult) -> float:
    assert result.ranking is not None
    return float(result.ranking.candidates.step_s[0])


def test_exhaustive_finds_the_best_of_the_space() -> None:
    result = run()
    assert result.ranking is not None
    assert result.enumerated == result.counts.core and 0 < result.feasible < result.enumerated
    everything = run(all_variants=True, top=10**6)
    assert everything.ranking is not None
    assert len(everything.ranking.candidates) == result.feasible
    assert best(result) == best(everything) == everything.ranking.candidates.step_s.min()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_returns_what_fits_in_order(method: str) -> None:
    result = run(method=method, trials=64)
    assert result.ranking is not None and result.ranking.candidates.feasible.all()
    assert list(result.ranking.candidates.score) == sorted(result.ranking.candidates.score)
    assert result.refined == (0 if method == "exhaustive" else 64)
    assert best(result) <= 1.2 * best(run())


def test_auto_is_never_worse_than_the_screen_and_finds_the_finer_moves() -> None:
    swapping = run(method="auto", trials=200)
    assert best(swapping) <= best(run())
    assert swapping.ranking is not None
    assert swapping.ranking.candidates.batch.offload_frac.max() > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_answer(method: str) -> None:
    first, second = (run(method=method, trials=64, seed=7) for _ in range(2))
    assert first.ranking is not None and second.ranking is not None
    assert identities(first.ranking.candidates) == identities(second.ranking.candidates)


def test_workers_do_not_change_the_answer() -> None:
    alone, pool = run(), run(workers=2)
    assert alone.ranking is not None and pool.ranking is not None
    assert identities(alone.ranking.candidates) == identities(pool.ranking.candidates)
    assert (alone.enumerated, alone.feasible) == (pool.enumerated, pool.feasible)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_rank_by_what_they_say(name: str) -> None:
    result = run(objective=name)
    assert result.ranking is not None
    candidates = result.ranking.candidates
    if name == "memory":
        assert list(candidates.reserved_bytes) == sorted(candidates.reserved_bytes)
    else:
        assert list(candidates.step_s) == sorted(candidates.step_s)
    if name == "pareto":
        assert list(candidates.reserved_bytes) == sorted(candidates.reserved_bytes, reverse=True)


def test_several_numbers_of_cards_are_groups_of_their_own() -> None:
    result = run(devices=(8, 16), objective="cost")
    assert result.ranking is not None
    assert set(result.ranking.candidates.batch.devices.tolist()) == {8, 16}


def test_the_simulator_decides_where_it_answers() -> None:
    def backwards(case: object, batch: object) -> np.ndarray:
        return 10.0 - fakes.evaluate(case, batch).step_s  # type: ignore[arg-type]

    result = run(method="auto", trials=32, refiner=backwards)
    assert result.ranking is not None
    assert list(result.ranking.simulated_s) == sorted(result.ranking.simulated_s)
    assert np.allclose(result.ranking.simulated_s, 10.0 - result.ranking.screened_s)


def test_a_simulator_may_decline() -> None:
    result = run(method="auto", trials=32, refiner=lambda *case: None)
    assert result.ranking is not None and np.isnan(result.ranking.simulated_s).all()


def test_nothing_fits_names_the_nearest_and_a_remedy() -> None:
    small = dataclasses.replace(fakes.HARDWARE.device, usable_bytes=1.5 * fakes.GIB)
    result = run(hardware=dataclasses.replace(fakes.HARDWARE, device=small))
    assert result.ranking is None and result.feasible == 0
    assert result.misses and result.misses[0].short_by_bytes > 0
    assert "offloaded" in result.misses[0].fix
    short = [miss.short_by_bytes for miss in result.misses]
    assert short == sorted(short)


def test_an_empty_space_is_an_answer() -> None:
    result = run(axes=Axes(tp=(64,)))
    assert result.ranking is None and not result.misses and result.counts.rejected["cards-divide"] == 9


def test_a_timeout_ranks_what_was_found() -> None:
    result = run(timeout_s=1e-9)
    assert result.timed_out and result.enumerated > 0


def test_a_study_in_a_storage_goes_on(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/study.sqlite"
    for expected in (40, 80):
        run(method="tpe", trials=40, storage=url, study="twin")
        import optuna

        assert len(optuna.load_study(study_name="twin", storage=url).trials) == expected


def test_a_storage_that_cannot_be_opened_is_bad_input() -> None:
    with pytest.raises(InputError, match="--storage"):
        run(method="tpe", storage="nonsense://nowhere", study="twin")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "magic"),
        ("objective", "beauty"),
        ("top", 0),
        ("trials", -1),
        ("workers", 0),
        ("timeout_s", 0.0),
        ("devices", ()),
    ],
)
def test_bad_requests_are_named(field: str, value: object) -> None:
    with pytest.raises(InputError, match="--"):
        fakes.request(**{field: value})


def interrupt_after(calls: int, do: object) -> object:
    left = [calls]

    def wrapped(*case: object, **more: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return do(*case, **more)  # type: ignore[operator]

    return wrapped


def test_ctrl_c_while_screening_ranks_what_was_found() -> None:
    twin = Twin(evaluate=interrupt_after(3, fakes.evaluate), space=fakes.space, valid=fakes.valid)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):  # at the second: the ranking itself is priced
        search(fakes.request(), twin)

    calls = [0]

    def evaluate(*case: object, **more: object) -> object:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return fakes.evaluate(*case, **more)  # type: ignore[arg-type]

    result = search(fakes.request(method="auto"), Twin(evaluate=evaluate, space=fakes.space, valid=fakes.valid))  # type: ignore[arg-type]
    assert result.interrupted and result.ranking is not None and 0 < result.enumerated < run().enumerated
    assert result.refined == 0


def test_ctrl_c_in_the_study_ranks_what_was_found() -> None:
    def refiner(*case: object) -> np.ndarray:
        raise KeyboardInterrupt

    result = run(method="auto", trials=64, refiner=refiner)
    assert result.interrupted and result.ranking is not None
    assert best(result) == best(run())


def test_sizes_are_seen_coarse_to_fine() -> None:
    assert coarse_to_fine([1, 2, 3, 4, 5, 6, 7, 8]) == [1, 8, 5, 3, 7, 2, 4, 6]
    assert coarse_to_fine([]) == [] and coarse_to_fine([9]) == [9]
    result = run(devices=(4, 8, 16, 32), method="exhaustive")
    assert result.counts.sizes == 4 and result.sizes is not None
    assert result.sizes.candidates.batch.devices.tolist() == [4, 8, 16, 32]
    assert result.sizes.candidates.step_s[2] == best(run(devices=(16,)))
    stopped = run(devices=(4, 8, 16, 32), timeout_s=1e-9)
    assert stopped.timed_out and stopped.counts.sizes < 4


@pytest.mark.parametrize("method", ["auto", "tpe"])
def test_what_the_study_found_fastest_is_ranked_though_the_closed_form_hides_it(method: str) -> None:
    """One strategy is far faster in the replay than in closed form: the study has tried it, so the ranking must know."""

    def refiner(case: object, batch: StrategyBatch) -> np.ndarray:
        step_s = fakes.evaluate(case, batch).step_s  # type: ignore[arg-type]
        return np.where(
            (batch.tp == 4) & (batch.pp == 1) & (batch.micro_batch == 1) & (batch.recompute == 0), 0.01, step_s
        )

    result = run(method=method, trials=200, refiner=refiner, top=1, rank_by="predicted")
    assert result.ranking is not None and result.ranking.simulated_s[0] == 0.01

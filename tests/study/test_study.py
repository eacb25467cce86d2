"""A study keeps what it finds, answers from what it holds, refuses another problem, and survives kills."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.search.candidates import Candidates
from autodeploy.search.rank import identities
from autodeploy.search.run import SearchResult, Twin, search
from autodeploy.search.space import WalkCounts
from autodeploy.search.study import landscape_of_space
from autodeploy.study.leases import Worker, is_gone
from autodeploy.study.loop import refine
from autodeploy.study.storage import cut_torn_line, default_storage, open_storage, without_password
from cost_models.strategies import StrategyBatch
from tests.search import fakes

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"journal:{tmp_path}/study.journal"


@pytest.fixture(params=["sqlite:///{}/study.sqlite", "journal:{}/study.journal"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def run(**changes: object) -> SearchResult:
    def refiner(case: object, batch: object) -> np.ndarray:
        return fakes.evaluate(case, batch).step_s  # type: ignore[arg-type]

    twin = Twin(evaluate=fakes.evaluate, space=fakes.space, valid=fakes.valid, refiner=refiner)
    return search(fakes.request(**changes), twin)


def held(url: str, name: str) -> list:
    import optuna

    return optuna.load_study(study_name=name, storage=open_storage(url)).get_trials(deepcopy=False)


def test_the_ranking_covers_all_that_the_study_holds(url: str) -> None:
    first = run(method="random", trials=48, storage=url, study="s", top=1000, all_variants=True)
    again = run(method="random", trials=1, storage=url, study="s", top=1000, all_variants=True)
    assert first.ranking is not None and again.ranking is not None
    assert set(identities(first.ranking.candidates)) <= set(identities(again.ranking.candidates))
    assert again.refined == 1


def test_what_is_complete_is_answered_from_the_study(url: str) -> None:
    asked = fakes.request(method="random", trials=48, storage=url, study="s", seed=1)
    twin = Twin(evaluate=fakes.evaluate, space=fakes.space, valid=fakes.valid)
    counted = []

    def price(batch: StrategyBatch) -> Candidates:
        counted.append(len(batch))
        return twin.screened(asked, batch)

    for _ in range(2):  # a study of the same problem prices only what is new
        landscape = landscape_of_space(asked, fakes.space, WalkCounts())
        assert landscape is not None
        refine(asked, landscape, price)
        assert sum(counted) == len({trial.user_attrs["strategy"] for trial in held(url, "s")})
    assert len(held(url, "s")) == 96 > sum(counted) > 8


def test_parameters_are_what_a_user_writes(url: str) -> None:
    run(method="auto", trials=8, storage=url, study="s")
    trial = held(url, "s")[0]
    assert trial.params["tp"] in (1, 2, 4) and trial.params["recompute"] in ("none", "full")
    assert trial.user_attrs["strategy"].startswith("16 x TP") and trial.user_attrs["priced"]["step_time_s"] > 0


def test_memory_is_a_constraint_and_not_a_penalty(url: str) -> None:
    run(method="random", trials=48, storage=url, study="s")
    over = [t for t in held(url, "s") if t.user_attrs["priced"]["excess"] > 0]
    assert over
    for trial in over:
        assert trial.value == pytest.approx(trial.user_attrs["priced"]["score"])
        assert [v for k, v in trial.system_attrs.items() if k.startswith("constraints:")] == [
            trial.user_attrs["priced"]["excess"]
        ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"workload": dataclasses.replace(fakes.WORKLOAD, global_batch=64)}, "global_batch: 32 there, 64 here"),
        ({"model": dataclasses.replace(fakes.MODEL, name="other")}, "model: tiny"),
        ({"method": "nsga2"}, "objective: time there, time and memory here"),
        ({"devices": (8,)}, "devices: 16 there, 8 here"),
    ],
)
def test_another_problem_is_refused_with_the_difference(url: str, change: dict[str, object], named: str) -> None:
    run(method="random", trials=4, storage=url, study="s")
    with pytest.raises(InputError, match=named):
        run(**{"method": "random", "trials": 4, "storage": url, "study": "s", **change})


def test_a_study_alone_has_a_journal_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run(method="random", trials=4, study="my study")
    assert default_storage("my study") == f"journal:{tmp_path}/autodeploy/studies/my_study.journal"
    assert len(held(default_storage("my study"), "my study")) == 4


def test_a_storage_alone_finds_its_study_again(either: str) -> None:
    url = either
    for expected in (4, 8):
        result = run(method="random", trials=4, storage=url)
        assert result.refined == 4
        import optuna

        storage = open_storage(url)
        (study,) = optuna.get_all_study_summaries(storage)
        assert study.n_trials == expected


@pytest.mark.parametrize("option", ["storage", "study"])
def test_exhaustive_has_no_study(option: str) -> None:
    with pytest.raises(InputError, match=f"--{option}"):
        fakes.request(method="exhaustive", **{option: "sqlite:///x"})


def test_passwords_are_blotted_out() -> None:
    url = "postgresql+psycopg://me:s3cret@nowhere.invalid/x"
    assert without_password(f"could not open {url}") == "could not open postgresql+psycopg://me:***@nowhere.invalid/x"
    with pytest.raises(InputError) as raised:
        run(method="random", storage=url, study="s")
    assert "s3cret" not in str(raised.value)


def test_a_torn_journal_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"journal:{tmp_path}/study.journal"
    run(method="random", trials=8, storage=url, study="s")
    path = tmp_path / "study.journal"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code":4,"wor')
    assert run(method="random", trials=1, storage=url, study="s").refined == 1
    assert "torn last line" in capsys.readouterr().err
    assert path.read_bytes().startswith(whole) and cut_torn_line(path) == 0


def test_leases() -> None:
    here, now = Worker.here(), time.time()
    assert not is_gone(here.lease(), now, here)
    assert is_gone({**here.lease(), "pid": 2**22 + 1}, now, here)  # no such process
    assert is_gone({**here.lease(), "started": "0"}, now, here)  # another process got its number
    elsewhere = {**here.lease(), "host": "elsewhere"}
    assert not is_gone(elsewhere, now, here) and is_gone({**elsewhere, "until": now - 1}, now, here)
    assert not is_gone(None, now, here) and is_gone(None, now - 1e6, here)


WORKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from tests.search import fakes
from autodeploy.search.run import Twin, search
def price(case, batch):
    print("at work", flush=True); time.sleep(0.05)
    return fakes.evaluate(case, batch)
twin = Twin(evaluate=fakes.evaluate, price=price, space=fakes.space, valid=fakes.valid)
asked = fakes.request(method="random", trials=int(sys.argv[3]), storage=sys.argv[2], study="s", seed=int(sys.argv[4]))
result = search(asked, twin)
print("done", result.refined, flush=True)
"""


def worker(url: str, trials: int, seed: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WORKER, str(ROOT), url, str(trials), str(seed)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_first_starts_and_a_kill_lose_nothing(either: str) -> None:
    """Two workers begin one new study at once; one is killed at work; the next run takes up what it held."""
    url = either
    victim, other = worker(url, 400, 1), worker(url, 24, 2)
    assert victim.stdout is not None
    for _ in range(2):
        assert "at work" in victim.stdout.readline()
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    out, err = other.communicate(timeout=120)
    assert "done 24" in out, err
    run(method="random", trials=16, storage=url, study="s")
    states: dict[str, list] = {}
    for trial in held(url, "s"):
        states.setdefault(trial.state.name, []).append(trial)
    assert "RUNNING" not in states
    failed = {trial.number for trial in states.get("FAIL", [])}
    again = [t.user_attrs["retry_of"] for t in held(url, "s") if "retry_of" in t.user_attrs]
    assert sorted(again) == sorted(failed)  # each taken up, once
    assert len(states["COMPLETE"]) >= 24 + 16


def test_a_worker_killed_while_taking_up_a_trial_loses_none(url: str) -> None:
    """A trial failed, and its worker gone before it could enqueue it again: the next worker does, and only once."""
    import optuna

    from autodeploy.study.leases import reclaim

    run(method="random", trials=2, storage=url, study="s")
    study = optuna.load_study(study_name="s", storage=open_storage(url))
    lost = study.ask({"tp": optuna.distributions.CategoricalDistribution((1, 2, 4))})
    lost.set_user_attr("lease", {**Worker.here().lease(), "pid": 2**22 + 1})
    study.tell(lost, state=optuna.trial.TrialState.FAIL)
    assert reclaim(study, Worker.here()) == 1 and reclaim(study, Worker.here()) == 0
    assert [t.user_attrs["retry_of"] for t in held(url, "s") if "retry_of" in t.user_attrs] == [lost.number]

"""Cells, shards, and what a sweep keeps when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.errors import InputError
from autodeploy.sweep import Matrix, ResultFile, Shard, read_matrix, run_sweep
from autodeploy.sweep.run import Engine

MATRIX = Matrix(
    models=("a", "b"),
    hardware=("h",),
    devices=(8, "16..32"),
    global_batch=(64,),
    options={"tp": "1,2", "swap": 0, "audit": True},
)


def fake(argv: list[str]) -> dict[str, Any]:
    return {"status": "ranked", "error": None, "ranked": [{"argv": argv}], "nearest": [], "space": {}}


def test_cells_by_hand():
    cells = MATRIX.cells()
    assert [cell.columns["devices"] for cell in cells] == [8, "16..32", 8, "16..32"]
    assert cells[1].argv == [
        "search", "a", "--hardware", "h", "--devices", "16..32", "--global-batch", "64", "--tp", "1,2", "--swap", "0", "--audit",
    ]  # fmt: skip


@given(st.integers(1, 9), st.integers(1, 30))
def test_shards_are_a_partition(count: int, models: int):
    matrix = Matrix(models=tuple(f"m{i}" for i in range(models)), hardware=("h",), devices=(8,))
    parts = [matrix.cells(Shard(index, count)) for index in range(1, count + 1)]
    assert sorted(cell.columns["model"] for part in parts for cell in part) == sorted(matrix.models)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_bad_shards(text: str):
    with pytest.raises(InputError, match="--shard"):
        Shard.of(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models: [a]\nhardware: h\n", "devices"),
        ("models: [a]\nhardware: h\ndevices: 8\nmodel: b\n", "model"),
        ("models: [a]\nhardware: h\ndevices: 8\noptions: {output: x}\n", "options.output"),
        ("models: [a]\nhardware: h\ndevices: 8\nglobal_batch: [1.5]\n", "global_batch"),
        ("a: &x [1]\nb: *x\n", "anchors"),
        ("[1, 2", "YAML"),
        ("- 1\n", "mapping"),
    ],
)
def test_bad_files_name_the_field(tmp_path: Path, text: str, named: str):
    file = tmp_path / "sweep.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=named):
        read_matrix(file).cells()


def test_what_is_done_is_not_run_again(tmp_path: Path):
    ran: list[list[str]] = []

    def runner(argv: list[str]) -> dict[str, Any]:
        ran.append(argv)
        return fake(argv)

    path = tmp_path / "out.jsonl"
    run_sweep(MATRIX.cells()[:3], ResultFile(path), runner, Engine())
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])  # a kill in the middle of a line
    again = run_sweep(MATRIX.cells(), ResultFile(path), runner, Engine())
    assert (again.skipped, len(ran)) == (2, 3 + 2)
    assert [json.loads(line)["cell"] for line in path.read_text().splitlines()] == [
        cell.columns for cell in MATRIX.cells()
    ]


def test_an_edited_model_is_a_new_question():
    cell = MATRIX.cells()[0]
    assert cell.fingerprint({"a": "1"}) != cell.fingerprint({"a": "2"})
    assert cell.fingerprint({"b": "1"}) == cell.fingerprint({"b": "2"})  # not its model


def test_a_file_of_something_else_is_left_alone(tmp_path: Path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    with pytest.raises(InputError, match="JSON lines of a sweep"):
        ResultFile(path)
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n'


KILLED = """
import sys, time
from autodeploy.sweep import Matrix, ResultFile, run_sweep
from autodeploy.sweep.run import Engine
from pathlib import Path
def runner(argv):
    print(argv[1], flush=True); time.sleep(0.01)
    return {"status": "ranked", "error": None, "ranked": [], "nearest": [], "space": {}}
matrix = Matrix(models=tuple(f"m{i}" for i in range(200)), hardware=("h",), devices=(8,))
run_sweep(matrix.cells(), ResultFile(Path(sys.argv[1])), runner, Engine())
"""


def test_a_killed_sweep_keeps_every_finished_cell(tmp_path: Path):
    path = tmp_path / "out.jsonl"
    started = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(20):
            started += bool(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    kept = ResultFile(path).records
    assert started - 3 <= len(kept) <= 200  # at most the cell in hand of each kill is missing
    assert {record["cell"]["model"] for record in kept.values()} == {f"m{i}" for i in range(len(kept))}


def test_the_command_ranks_goes_on_and_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from autodeploy.cli.app import main

    file, out, table = tmp_path / "sweep.yaml", tmp_path / "out.jsonl", tmp_path / "out.csv"
    file.write_text(
        "models: [llama-3.2-1b, no-such-model]\nhardware: h100-sxm\ndevices: [8]\nglobal_batch: 64\n"
        "options: {method: exhaustive, top: 2, tp: 1, pp: 1, recompute: none, swap: 0, offload: 0}\n"
    )
    assert main(["sweep", str(file), "--output", str(out), "--csv", str(table)]) == 2
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["status"] for record in records] == ["ranked", "bad-input"]
    assert "no-such-model" in records[1]["error"]
    assert records[0]["ranked"][0]["step_time_s"] > 0
    assert len(table.read_text().splitlines()) >= 3
    before = out.read_bytes()
    capsys.readouterr()
    assert main(["sweep", str(file), "--output", str(out)]) == 2
    assert out.read_bytes() == before
    assert "2 of 2 cells were done before" in capsys.readouterr().err


@pytest.mark.extra
def test_dask_gives_the_same_records_though_a_worker_is_killed():
    distributed = pytest.importorskip("dask.distributed")
    cells = Matrix(models=tuple(f"m{i}" for i in range(12)), hardware=("h",), devices=(8,)).cells()
    alone = run_sweep(cells, ResultFile(None), slow, Engine())
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        killed = []

        def progress(what: str, done: int, total: int | None) -> None:
            if done == 3 and not killed:
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)

        spread = run_sweep(
            cells, ResultFile(None), slow, Engine(name="dask", scheduler=cluster.scheduler_address), progress=progress
        )
    assert killed and spread.records == alone.records


def slow(argv: list[str]) -> dict[str, Any]:
    import time

    time.sleep(0.1)
    return {"status": "ranked", "error": None, "ranked": [{"model": argv[1]}], "nearest": [], "space": {}}


def test_scenarios_are_cut_in_pieces_and_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from autodeploy.cli.app import main
    from autodeploy.sweep import matrix
    from autodeploy.sweep.scenarios import added_up

    file = tmp_path / "scenarios.yaml"
    file.write_text(
        "models: llama-3.2-1b\nhardware: h100-sxm\ndevices: 8\nglobal_batch: 64\n"
        "scenarios: {draws: 100, strategies: [TP2/PP2, TP1/PP4], compute: [0.9, 1.1], inter_bandwidth: [0.5, 1.0]}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "PART", 40)
        assert main(["sweep", str(file), "--format", "json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["scenarios"]["draws"] for record in records] == [40, 40, 20]
    total = added_up(record["scenarios"] for record in records)
    assert sum(found["fastest_frac"] for found in total.values()) == pytest.approx(1.0)
    for found in total.values():
        assert found["draws"] == 100 and found["p5_s"] < found["p50_s"] < found["p95_s"]
        assert found["mean_s"] == pytest.approx(found["p50_s"], rel=0.05)


def test_a_scenario_of_ones_is_the_simulated_step():
    """And more bandwidth is never slower, more work never faster."""
    import dataclasses

    import numpy as np

    from autodeploy.cli.case import CaseOptions, load_case
    from autodeploy.replay import simulate_strategy
    from autodeploy.replay.scenarios import Factors, scenario_step_s
    from autodeploy.strategy.convert import strategy_to_batch
    from autodeploy.strategy.notation import parse_strategy

    options = {
        "model": "deepseek-v2-lite",
        "hardware": "h100-sxm",
        "seq_length": 4096,
        "global_batch": 64,
        "precision": "bf16",
    }
    blank = dict.fromkeys(field.name for field in dataclasses.fields(CaseOptions))
    loaded = load_case(CaseOptions(**{**blank, **options}))  # type: ignore[arg-type]
    batch = strategy_to_batch(parse_strategy("TP1/PP2/VPP2/EP8/ep-overlap"), loaded.model, 32, "any")
    one = scenario_step_s(loaded.case, batch, Factors.same(2))
    assert one == pytest.approx([simulate_strategy(loaded.case, batch, events=False).step_s] * 2)
    up = np.array([1.0, 1.2])
    for name, sign in (("compute", 1), ("imbalance", 1), ("intra_bandwidth", -1), ("inter_bandwidth", -1)):
        low, high = scenario_step_s(loaded.case, batch, dataclasses.replace(Factors.same(2), **{name: up}))
        assert sign * (high - low) >= -1e-12, name

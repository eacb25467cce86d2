"""--measured and trials on the command line, with reference runs replayed as if they were the user's own."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from autodeploy.accuracy import shipped_runs
from autodeploy.decide.measured import step_seconds
from tests.cli.runner import run

CONFIG = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 22016,
 "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 128000}"""
MINE = ("hagemann-65b-s2048-n64-trial131649", "hagemann-65b-s2048-n64-trial131654")


@pytest.fixture
def case(tmp_path: Path) -> list[str]:
    (tmp_path / "config.json").write_text(CONFIG)
    return [
        str(tmp_path / "config.json"), "--hardware", "a100-80g-sxm", "--devices", "64", "--seq-length", "2048",
        "--global-batch", "2048",
    ]  # fmt: skip


@pytest.fixture
def axes() -> list[str]:
    return ["--vpp", "1", "--cp", "1", "--recompute", "none", "--zero", "1", "--swap", "0", "--offload", "0", "--method",
            "exhaustive"]  # fmt: skip


def mine(folder: Path, **changes: str) -> Path:
    rows = [row for row in csv.DictReader((shipped_runs() / "hagemann.csv").open()) if row["id"] in MINE]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows([{**row, **changes} for row in rows])
    path = folder / "mine.csv"
    path.write_text(text.getvalue())
    return path


def test_a_run_of_the_case_moves_every_row(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: list[str], axes: list[str]
) -> None:
    before = run(capsys, "search", *case, *axes, "--format", "json").json["ranked"]
    slow = mine(tmp_path, step_time_s="300")
    ran = run(capsys, "search", *case, *axes, "--format", "json", "--measured", str(slow))
    assert "2 of this case" in ran.err
    known = {row["strategy"]: row for row in before}
    common = [row for row in ran.json["ranked"] if row["strategy"] in known]
    assert len(common) >= 5
    for row in common:
        assert row["step_time_s"] == pytest.approx(known[row["strategy"]]["step_time_s"])  # the prediction stays
        assert row["expected_step_time_s"] > 1.2 * known[row["strategy"]]["expected_step_time_s"]


def test_a_run_that_died_is_data_for_memory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, case: list[str]
) -> None:
    one = ["TP4/PP4/MBS2", "--format", "json"]
    before = run(capsys, "estimate", case[0], *one, *case[1:]).json["estimate"]
    died = mine(tmp_path, step_time_s="", oom="True")
    after = run(capsys, "estimate", case[0], *one, *case[1:], "--measured", str(died)).json["estimate"]
    assert after["fit_probability"] < before["fit_probability"]
    assert after["expected_step_time_s"] == pytest.approx(before["expected_step_time_s"])


def test_trials_pay_for_long_jobs_only(capsys: pytest.CaptureFixture[str], case: list[str], axes: list[str]) -> None:
    long = run(capsys, "trials", *case, *axes, "--tokens", "1T", "--format", "json").json
    assert long["schema"] == "autodeploy.trials/1" and long["worth"] and len(long["trials"]) == 3
    for one in long["trials"]:
        assert one["net_device_hours"] == pytest.approx(one["expected_gain_device_hours"] - one["cost_device_hours"])
    assert len({one["strategy"] for one in long["trials"]}) == 3
    short = run(capsys, "trials", *case, *axes, "--tokens", "10M", "--format", "json").json
    assert not short["worth"] and "No trial is worth its cost" in short["advice"]


def test_bad_files_are_refused_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, case: list[str]) -> None:
    bad = tmp_path / "bad.log"
    for text in ("hello", "id,model,num_devices\nx,unknown,8\n"):
        bad.write_text(text)
        ran = run(capsys, "search", *case, "--measured", str(bad))
        assert ran.code == 2 and len(ran.err.strip().splitlines()) == 1


def test_step_times_of_three_programs() -> None:
    megatron = "\n".join(f" iteration {i}/ 99 | elapsed time per iteration (ms): {1000 + i} |" for i in range(1, 21))
    assert np.median(step_seconds(megatron, 1, 1)) == pytest.approx(1.012)
    nemo = "\n".join(f"train_step_timing in s: {2 + i / 100}" for i in range(20))
    assert len(step_seconds(nemo, 1, 1)) == 17
    titan = "\n".join(f"step: {i}  loss: 1.0  memory: 1GiB  tps: 1,000  mfu: 1%" for i in range(4))
    assert step_seconds(titan, 8000, 4) == pytest.approx([2.0] * 4)

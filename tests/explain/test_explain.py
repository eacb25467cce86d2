"""``explain`` and ``compare``: figures are those of ``estimate``, causes sum, and every step not taken says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.runner import run

SHARED = ("--hardware", "h100-sxm", "--devices", "64", "--global-batch", "128", "--format", "json")
DATA = Path(__file__).parents[1] / "data" / "launch"


def step_s(capsys: pytest.CaptureFixture[str], model: str, strategy: str) -> float:
    return float(run(capsys, "estimate", model, strategy, *SHARED).json["estimate"]["step_time_s"])


def test_the_example_of_llama_70b(capsys: pytest.CaptureFixture[str]) -> None:
    """TP8/PP8/full wastes a quarter of the step on recompute that the memory does not ask for."""
    found = run(capsys, "explain", "llama-3-70b", "TP8/PP8/full", *SHARED).json
    assert found["schema"] == "autodeploy.explain/1" and found["binds"]["what"] == "recompute"
    assert "of the step" in found["binds"]["why"]
    assert found["largest_exposed"]["cause"] == "tp_comm"
    first = found["steps"][0]
    assert first["change"] == "recompute full -> none" and first["better"] and first["why_not"] is None
    assert found["advice"].startswith("recompute full -> none is") and first["strategy"] in found["advice"]


@pytest.mark.parametrize(
    ("model", "strategy"),
    [("llama-3-70b", "TP8/PP4/VPP2"), ("qwen3-30b-a3b", "TP1/PP2/EP8/MBS2"), ("llama-3-8b", "TP2")],
)
def test_steps_are_estimates_with_reasons(capsys: pytest.CaptureFixture[str], model: str, strategy: str) -> None:
    found = run(capsys, "explain", model, strategy, *SHARED).json
    now = found["estimate"]["step_time_s"]
    assert {row["axis"] for row in found["steps"]} >= {"tp", "pp", "micro_batch", "recompute"}
    for row in found["steps"]:
        assert row["better"] == (row["why_not"] is None)
        if row["refused"] is None:
            assert row["gain_s"] == pytest.approx(now - row["step_time_s"])
        else:
            assert row["refused"] in row["why_not"] and row["step_time_s"] is None
    priced = [row for row in found["steps"] if row["refused"] is None]
    for row in (priced[0], priced[-1]):
        assert step_s(capsys, model, row["strategy"]) == pytest.approx(row["step_time_s"], rel=1e-12)


def test_causes_end_in_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = "TP8/PP8/full", "TP4/PP4/VPP4"
    found = run(capsys, "compare", "llama-3-70b", a, b, *SHARED).json
    assert found["schema"] == "autodeploy.compare/1"
    assert found["difference_s"] == pytest.approx(step_s(capsys, "llama-3-70b", b) - step_s(capsys, "llama-3-70b", a))
    assert sum(row["difference_s"] for row in found["causes"]) == pytest.approx(found["difference_s"])
    gains = [row["gain_s"] for row in found["single_changes"] if row["gain_s"] is not None]
    assert gains == sorted(gains, reverse=True) and found["single_changes"][0]["axes"] == [
        "recompute",
        "recompute_layers",
    ]


def test_a_launch_file_is_either_side(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(DATA / "megatron_arrays.sh")
    options = ("--hardware", "h100-sxm", "--format", "json")
    found = run(capsys, "compare", file, "TP8/PP4/CP4", *options).json
    assert found["a"]["strategy"] == "TP8/PP4/VPP4/EP1/CP2/selective(core_attn)" and found["devices"] == 128
    other = run(capsys, "compare", "llama-3-70b", "TP8/PP4", file, *options, "--devices", "128")
    assert other.json["b"]["strategy"] == found["a"]["strategy"]
    assert "compared at seq length 4096, not at its 32768" in other.err
    ran = run(capsys, "compare", "llama-3-8b", "TP8", *SHARED)
    assert ran.code == 2 and "compare MODEL A B" in ran.err


def test_a_search_shows_where_the_users_own_setting_stands(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(DATA / "arguments.txt")
    axes = ("--tp", "2,4", "--pp", "1,2", "--micro-batch", "1,2", "--cp", "1")
    found = run(capsys, "search", file, "--hardware", "h100-sxm", *axes, "--format", "json").json
    own = found["own"]
    assert own["strategy"] == "TP4/PP1/VPP1/EP1/MBS2/ZeRO0" and own["fits"]
    assert own["place"] == 1 + sum(row["step_time_s"] < own["step_time_s"] for row in found["ranked"])
    assert "yours: TP4" in run(capsys, "search", file, "--hardware", "h100-sxm", *axes).out


def test_advise_is_one_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Now, single changes, decision, trials and their launch settings, each as the command of its own says."""
    file, options = str(DATA / "arguments.txt"), ("--hardware", "h100-sxm")
    found = run(capsys, "advise", file, *options, "--export-dir", str(tmp_path), "--format", "json").json
    assert found["schema"] == "autodeploy.advise/1" and found["now"]["strategy"] == "TP4/PP1/VPP1/EP1/MBS2/ZeRO0"
    steps = run(capsys, "explain", file, *options, "--format", "json").json["steps"]
    assert found["single_changes"] == [row for row in steps if row["better"]][:3]
    assert found["decision"]["advice"] and 1 <= len(found["trials"]) <= 3
    assert found["trials"][0]["rank"] == (found["decision"]["tied_rows"] or [1])[0]
    assert len(found["exported"]) == len(found["trials"])
    read = run(capsys, "estimate", found["exported"][0], *options, "--format", "json").json["estimate"]
    assert read["strategy"] == found["trials"][0]["strategy"]


# ---------------------------------------------------------------------------------------------------- diagnose


def test_a_log_is_held_against_its_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "diagnose", str(DATA / "training.log"), "--hardware", "h100-sxm", "--format", "json").json
    assert found["schema"] == "autodeploy.diagnose/1" and found["measured"]["steps"] == 12
    assert found["measured"]["peak_memory_gib"] == pytest.approx(55.0)
    assert found["measured"]["time_s"] == {"dp_comm": pytest.approx(0.4), "optimizer": pytest.approx(0.08)}
    assert found["gap_s"] == pytest.approx(found["measured"]["step_time_s"] - found["estimate"]["step_time_s"])
    for row in found["explanations"]:
        assert row["moves_s"] * found["gap_s"] > 0


@pytest.mark.parametrize(("field", "value"), [("fused_norm", "false"), ("launch_blocking", "true")])
def test_what_really_differs_explains_the_gap(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, field: str, value: str
) -> None:
    """A log whose steps are as long as the twin says of a program that differs in one thing: that thing comes first."""
    log = (DATA / "training.log").read_text()
    options = ("--hardware", "h100-sxm", "--format", "json")
    slow = run(capsys, "estimate", str(DATA / "training.log"), *options, "--set", f"{field}={value}").json
    step_ms = 1e3 * slow["estimate"]["step_time_s"]
    path = tmp_path / "run.log"
    path.write_text(re.sub(r"iteration \(ms\): [\d.]+", f"iteration (ms): {step_ms:.3f}", log))
    found = run(capsys, "diagnose", str(path), *options).json
    assert f"({field}={value})" in found["explanations"][0]["what"]
    assert found["explanations"][0]["explains_frac"] == pytest.approx(1.0, abs=1e-3)


def test_a_file_without_iterations_is_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "diagnose", str(DATA / "arguments.txt"), "--hardware", "h100-sxm")
    assert ran.code == 2 and "iteration" in ran.err

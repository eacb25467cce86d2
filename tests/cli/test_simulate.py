"""The contract of ``autodeploy simulate``, and of ``balance layers`` on MODEL STRATEGY."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import SMALL, Ran, run
from tests.cli.test_search import ROW_KEYS

MOE_CASE = ["qwen3-30b-a3b", "--hardware", "h100-sxm", "--devices", "32", "--seq-length", "4096"]
MOE_CASE += ["--global-batch", "128", "--backend", "any"]


def simulate(capsys: pytest.CaptureFixture[str], strategy: str, *options: str, case: list[str] = SMALL) -> Ran:
    return run(capsys, "simulate", case[0], strategy, *case[1:], *options)


def test_json_is_an_estimate_with_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    ran = simulate(capsys, "PP4/VPP3/EP8/adaptive-pipe/ep-overlap", "--format", "json", case=MOE_CASE)
    assert ran.code in (0, 3) and ran.json["schema"] == "autodeploy.simulate/1"
    entry = ran.json["estimate"]
    assert set(ROW_KEYS) <= set(entry)
    assert entry["simulated_step_time_s"] == entry["step_time_s"] and entry["screened_step_time_s"] > 0
    assert sum(entry["time_s"].values()) == pytest.approx(entry["step_time_s"])
    assert entry["ep_time_s"] > 0
    assert 0 < entry["ep_masked_frac"] <= 1 and 0 < entry["ep_masked_frac_steady"] <= 1
    assert entry["cut"] in ("chunk", "sub-layer", "pieces") and entry["lane_order"].startswith(entry["cut"])
    lanes = entry["per_rank"]["lanes"]
    assert set(lanes) == {"compute", "intra-node", "inter-node"}
    for lane in lanes.values():
        whole = [busy + idle for busy, idle in zip(lane["busy_s"], lane["idle_s"], strict=True)]
        assert whole == pytest.approx([entry["pipeline_time_s"]] * 4)


def test_dense_has_no_masked_share(capsys: pytest.CaptureFixture[str]) -> None:
    entry = simulate(capsys, "TP2/PP4", "--format", "json").json["estimate"]
    assert entry["ep_time_s"] == 0 and entry["ep_masked_frac"] is None and entry["ep_masked_frac_steady"] is None
    assert entry["per_rank"]["in_flight_chunks"] == [4, 3, 2, 1]


def complete(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X"]


def test_trace_file_is_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    ran = simulate(capsys, "TP2/PP4", "--trace", str(trace), "--format", "json")
    events = json.loads(trace.read_text())["traceEvents"]
    entry = ran.json["estimate"]
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in complete(events):
        threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for slices in threads.values():
        slices.sort(key=lambda event: event["ts"])
        for before, after in zip(slices, slices[1:], strict=False):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    starts = sorted(event["id"] for event in events if event["ph"] == "s")
    assert starts == sorted(event["id"] for event in events if event["ph"] == "f") and starts
    for rank in range(4):
        step = sum(event["dur"] for event in complete(events) if event["pid"] == rank and event["cat"] == "step")
        assert entry["pipeline_time_s"] * 1e6 <= step <= entry["step_time_s"] * 1e6 * (1 + 1e-9)


@pytest.mark.parametrize("name", ["step.svg", "step.html"])
def test_picture_shows_a_stated_window(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    picture = tmp_path / name
    ran = simulate(capsys, "TP2/PP4", "--picture", str(picture), "--window", "0.1:0.2")
    assert ran.code == 0 and "window 100.00 to 200.00 ms" in picture.read_text()


def test_table_draws_small_cases(capsys: pytest.CaptureFixture[str]) -> None:
    ran = simulate(capsys, "TP2/PP4")
    assert ran.code == 0 and "replayed as 1f1b" in ran.out and "blue F" in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 100


def test_csv_has_a_row_a_rank(capsys: pytest.CaptureFixture[str]) -> None:
    lines = simulate(capsys, "TP2/PP4", "--format", "csv").out.splitlines()
    assert len(lines) == 5 and lines[0].startswith("strategy,devices,step_time_s,rank,compute_busy_s")


def test_exit_codes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert simulate(capsys, "TP2/PP4", "--window", "2:1").code == 2
    assert simulate(capsys, "TP2/PP4", "--picture", str(tmp_path / "step.png")).code == 2
    assert simulate(capsys, "TP2/PP4", "--trace", str(tmp_path / "absent" / "t.json")).code == 2
    assert simulate(capsys, "TP3").code == 2
    ran = simulate(capsys, "TP1/PP2/MBS4", "--memory-cap", "20")
    assert ran.code == 3 and "DOES NOT FIT" in ran.out


def test_balance_layers_prices_a_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "balance", "layers", SMALL[0], "TP2/PP4/VPP2", *SMALL[1:], "--format", "json")
    assert ran.code == 0
    before, after, plan = (ran.json[key] for key in ("before", "after", "plan"))
    assert after["largest_rank_s"] < before["largest_rank_s"] and plan["pp"] == 4 and plan["vpp"] == 2
    assert plan["megatron"]["--pipeline-model-parallel-layout"].endswith("L")
    assert run(capsys, "balance", "layers", SMALL[0], "TP2/PP4", "--pp", "4", *SMALL[1:]).code == 2

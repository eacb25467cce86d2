"""The contract of ``autodeploy search``: keys, widths, exit codes, options that do what they say."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.runner import search

TOP_KEYS = [
    "schema",
    "tool_version",
    "seed",
    "profile_sha256",
    "model",
    "hardware",
    "backend",
    "precision",
    "devices",
    "seq_length",
    "global_batch",
    "memory_cap_gib",
    "space",
    "ranked",
    "nearest",
    "rejected",
]
SPACE_KEYS = ["core", "enumerated", "pruned", "valid", "feasible", "screen_s", "refined", "refine_s"]
ROW_KEYS = [
    "rank",
    "strategy",
    "label",
    "launchable",
    "tp",
    "pp",
    "vpp",
    "cp",
    "ep",
    "etp",
    "dp",
    "micro_batch",
    "micro_batches",
    "micro_batch_group",
    "sequence_parallel",
    "zero_stage",
    "recompute",
    "recompute_modules",
    "schedule",
    "dispatcher",
    "offload_frac",
    "layout",
    "step_time_s",
    "screened_step_time_s",
    "simulated_step_time_s",
    "step_time_error_frac",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "mfu",
    "flops_convention",
    "bubble_frac",
    "peak_memory_gib",
    "peak_allocated_gib",
    "memory_rank",
    "critical_rank",
    "binds",
    "time_s",
    "memory_gib",
]
FAST = ("--method", "exhaustive")


def test_json_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    ran = search(capsys, "--format", "json", "--trials", "32")
    assert ran.code == 0 and ran.err == ""
    document = ran.json
    assert set(TOP_KEYS) <= set(document) and set(SPACE_KEYS) <= set(document["space"])
    assert document["schema"] == "autodeploy.search/1" and set(document["model"]) >= {
        "name",
        "parameters",
        "active_parameters",
    }
    space = document["space"]
    assert space["valid"] == space["enumerated"] + space["pruned"] and 0 < space["feasible"] <= space["enumerated"]
    assert space["refined"] == 32
    for number, row in enumerate(document["ranked"], start=1):
        assert set(ROW_KEYS) <= set(row) and row["rank"] == number
        assert sum(row["time_s"].values()) == pytest.approx(row["step_time_s"])
        assert sum(row["memory_gib"].values()) == pytest.approx(row["peak_memory_gib"])
        assert row["peak_memory_gib"] <= document["memory_cap_gib"]
        assert row["tp"] * row["pp"] * row["cp"] * row["dp"] == document["devices"]
        assert row["dp"] * row["micro_batch"] * row["micro_batches"] == document["global_batch"]


def test_rows_are_groups_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = search(capsys, "--format", "json", "--rank-by", "predicted", *FAST).json["ranked"]
    keys = [tuple(row[k] for k in ("tp", "pp", "vpp", "ep", "etp", "cp")) for row in rows]
    assert len(set(keys)) == len(keys)
    assert [row["step_time_s"] for row in rows] == sorted(row["step_time_s"] for row in rows)
    assert [row["predicted_rank"] for row in rows] == [*range(1, len(rows) + 1)]
    ungrouped = search(capsys, "--format", "json", "--all-variants", "--rank-by", "predicted", *FAST).json["ranked"]
    assert ungrouped[0]["strategy"] == rows[0]["strategy"]
    assert ungrouped[-1]["step_time_s"] <= rows[-1]["step_time_s"]


def test_the_default_order_is_that_of_the_decision(capsys: pytest.CaptureFixture[str]) -> None:
    document = search(capsys, "--format", "json", *FAST).json
    rows, decision = document["ranked"], document["decision"]
    likely = [row["fit_probability"] >= 0.9 for row in rows]
    assert likely == sorted(likely, reverse=True)
    tied = [row["rank"] for row in rows if row["tie"]]
    assert tied == decision["tied_rows"] == [*range(1, len(tied) + 1)]
    away = [row["departures"] for row in rows if row["tie"]]
    assert away == sorted(away)
    expected = [row["expected_step_time_s"] for row in rows if row["fit_probability"] >= 0.9]
    assert expected[decision["fastest"] - 1] == min(expected)
    after = expected[len(tied) :]
    assert after == sorted(after)
    assert sum(row["best_probability"] for row in rows) <= 1 + 1e-9
    assert str(decision["tied_rows"][0]) in decision["advice"] and all(row["evidence"] for row in rows)


def test_rows_at_the_edge_of_memory_are_ranked_and_said_to_be_unlikely(capsys: pytest.CaptureFixture[str]) -> None:
    least = search(capsys, "--format", "json", "--objective", "memory", *FAST).json["ranked"][0]["peak_memory_gib"]
    tight = search(capsys, "--format", "json", "--memory-cap", str(1.01 * least), *FAST)
    assert tight.code == 0 and tight.json["ranked"]  # by point prediction they fit
    assert all(row["fit_probability"] < 0.9 and not row["tie"] for row in tight.json["ranked"])
    assert tight.json["decision"]["fastest"] is None and "No row fits" in tight.json["decision"]["advice"]


def test_the_printed_strategy_is_the_estimated_one(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.cli.runner import estimate

    for row in search(capsys, "--format", "json", "--top", "5", *FAST).json["ranked"]:
        entry = estimate(capsys, row["strategy"], "--format", "json").json["estimate"]
        assert entry["strategy"] == row["strategy"]
        assert entry["step_time_s"] == pytest.approx(row["step_time_s"])
        assert entry["peak_memory_gib"] == pytest.approx(row["peak_memory_gib"])


STORED = sorted((Path(__file__).parent.parent / "data" / "tables").glob("search-*.json"))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.stem)
@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_fits_the_screen(stored: Path, width: int) -> None:
    """Documents that `search` printed once, rendered anew: --method exhaustive --backend any --tokens 1T."""
    from autodeploy.report.table import search_table

    document = json.loads(stored.read_text())
    lines = search_table(document, width).splitlines()
    assert max(len(line) for line in lines) <= max(width, 100)
    for word in ("step s", "fits", "best", "GiB") if document["ranked"] else ("No plan",):
        assert word in "\n".join(lines)


def test_csv_has_one_row_a_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    ran = search(capsys, "--format", "csv", "--top", "4", *FAST)
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4"]
    assert rows[0]["model"] == "llama-3.1-8b" and float(rows[0]["time_s.bubble"]) >= 0


def test_output_goes_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = search(capsys, "--format", "json", "--output", str(tmp_path / "result.json"), *FAST)
    assert ran.code == 0 and ran.out == ""
    assert json.loads((tmp_path / "result.json").read_text())["ranked"]


def test_axes_narrow_the_space(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--tp", "2", "--pp", "1..2", "--micro-batch", "1,2", "--recompute", "none,full", "--zero", "1")
    rows = search(capsys, "--format", "json", "--all-variants", *options).json["ranked"]
    assert rows
    assert {row["tp"] for row in rows} == {2} and {row["pp"] for row in rows} <= {1, 2}
    assert {row["micro_batch"] for row in rows} <= {1, 2} and {row["zero_stage"] for row in rows} == {1}
    assert {row["recompute"] for row in rows} <= {"none", "full"}


def test_nothing_fits_is_exit_3_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--memory-cap", "4", "--format", "json", *FAST)
    ran = search(capsys, *options)
    assert ran.code == 3
    assert ran.json["ranked"] == [] and ran.json["nearest"]
    assert set(ran.json["nearest"][0]) == {"strategy", "short_by_gib", "fix"}
    assert ran.json["nearest"][0]["short_by_gib"] > 0
    table = search(capsys, *options[:2], *FAST)
    assert table.code == 3 and "No plan fits" in table.out and "would fit with" in table.out


def test_70b_on_16_cards_of_80_gb_needs_32_or_offload(capsys: pytest.CaptureFixture[str]) -> None:
    """User cases 15, 17, 18: Llama-3 70B with full AdamW does not fit 16 x 80 GB whatever the settings; 32 do."""
    case = [
        "llama-3.1-70b",
        "--hardware",
        "h100-sxm",
        "--devices",
        "16",
        "--seq-length",
        "8192",
        "--global-batch",
        "256",
    ]
    ran = search(capsys, "--offload", "0", "--format", "json", *FAST, case=case)
    assert ran.code == 3
    assert "32 cards" in ran.json["nearest"][0]["fix"] and "offload" in ran.json["nearest"][0]["fix"]


def test_never_more_ranks_than_cards(capsys: pytest.CaptureFixture[str]) -> None:
    """User cases 16, 105: EP64 on 32 cards."""
    case = ["qwen3-30b-a3b", "--hardware", "h100-sxm", "--devices", "32", "--global-batch", "64"]
    rows = search(capsys, "--format", "json", *FAST, case=case).json["ranked"]
    assert rows and max(row["etp"] * row["ep"] * row["pp"] for row in rows) <= 32


def test_tokens_and_price(capsys: pytest.CaptureFixture[str]) -> None:
    row = search(capsys, "--tokens", "1T", "--price-per-device-hour", "2", "--format", "json", *FAST).json["ranked"][0]
    assert row["days"] == pytest.approx(1e12 / row["tokens_per_s"] / 86400)
    assert row["device_hours"] == pytest.approx(row["days"] * 24 * 16)
    assert row["price"] == pytest.approx(2 * row["device_hours"])


def test_device_ranges_step_by_node(capsys: pytest.CaptureFixture[str]) -> None:
    case = ["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "16..32", "--global-batch", "96"]
    document = search(capsys, "--format", "json", "--objective", "cost", *FAST, case=case).json
    assert document["devices_range"] == [16, 24, 32]
    assert {row["devices"] for row in document["ranked"]} <= {16, 24, 32}


def test_rejected_csv_and_json_say_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--tp", "1,2", "--memory-cap", "30", *FAST)
    search(capsys, *options, "--rejected", str(tmp_path / "rejected.csv"))
    search(capsys, *options, "--rejected", str(tmp_path / "rejected.json"))
    with (tmp_path / "rejected.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows and {"does-not-fit"} < {row["reason"] for row in rows}
    assert all(float(row["short_by_gib"]) > 0 for row in rows if row["reason"] == "does-not-fit")
    assert len(json.loads((tmp_path / "rejected.json").read_text())) == len(rows)


@pytest.mark.parametrize("method", ["tpe", "nsga2", "random"])
def test_studies_alone(capsys: pytest.CaptureFixture[str], method: str) -> None:
    ran = search(capsys, "--method", method, "--trials", "64", "--format", "json")
    assert ran.code == 0 and 0 < ran.json["space"]["enumerated"] <= ran.json["space"]["refined"] == 64


def test_workers_give_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    alone = search(capsys, "--format", "json", *FAST).json["ranked"]
    assert search(capsys, "--format", "json", "--workers", "2", *FAST).json["ranked"] == alone


def test_audit_prices_what_pruning_skips_and_ranks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    for case in (
        ["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "64", "--global-batch", "256"],
        ["qwen3-30b-a3b", "--hardware", "atlas-800t-a2", "--devices", "64", "--global-batch", "256"],
    ):
        plain = search(capsys, "--format", "json", "--top", "20", *FAST, case=case).json
        audit = search(capsys, "--format", "json", "--top", "20", "--audit", *FAST, case=case).json
        assert audit["space"]["enumerated"] > plain["space"]["enumerated"]
        assert [row["strategy"] for row in audit["ranked"]] == [row["strategy"] for row in plain["ranked"]]


def test_timeout_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    ran = search(capsys, "--timeout", "0.000001", "--format", "json")
    assert ran.json["timed_out"] is True

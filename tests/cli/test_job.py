"""Several machines, a token budget with limits, and what bad input says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import run

SEARCH = ["search", "llama-3.2-1b", "--global-batch", "64", "--method", "exhaustive", "--tp", "1", "--pp", "1", "--recompute",
          "none", "--swap", "0", "--offload", "0", "--top", "4"]  # fmt: skip
Capture = pytest.CaptureFixture[str]
JOB = ["--tokens", "1T", "--price-per-device-hour", "h100-sxm=2.5,h200=3"]


def test_machines_and_sizes_in_one_plan(capsys: Capture, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    ran = run(
        capsys, *SEARCH, "--hardware", "h100-sxm,h200", "--devices", "8..32", *JOB, "--within", "300d", "--picture", str(picture),
        "--format", "json",
    )  # fmt: skip
    assert ran.code == 0
    document = ran.json
    assert document["hardware"] == "h100-sxm,h200" and [m["hardware"] for m in document["machines"]] == [
        "h100-sxm",
        "h200",
    ]
    assert [entry["rank"] for entry in document["ranked"]] == [1, 2, 3, 4]
    times = [entry["expected_step_time_s"] for entry in document["ranked"]]
    assert times == sorted(times) and {entry["hardware"] for entry in document["ranked"]} <= {"h100-sxm", "h200"}
    plan = document["plan"]
    assert plan["options"] == 6 and plan["cost_by"] == "price"
    for name in ("smallest", "cheapest", "fastest"):
        assert plan[name]["days_at_worst"] <= 300
    assert (
        plan["fastest"]["days"] <= plan["cheapest"]["days"]
        and plan["smallest"]["devices"] <= plan["fastest"]["devices"]
    )
    fronts = [(option["days"], option["price"]) for option in plan["front"]]
    assert fronts == sorted(fronts) and [p for _, p in fronts] == sorted((p for _, p in fronts), reverse=True)
    row = document["ranked"][0]
    assert row["days_with_failures"] == pytest.approx(row["training_days"] / row["goodput_frac"])
    assert row["days"] == pytest.approx(row["training_days"])
    assert picture.read_text().startswith("<svg") and "smallest" in picture.read_text()


def test_each_machine_alone_gives_the_same_figures(capsys: Capture) -> None:
    both = run(capsys, *SEARCH, "--hardware", "h100-sxm,h200", "--devices", "8", "--format", "json").json["ranked"]
    for name in ("h100-sxm", "h200"):
        alone = run(capsys, *SEARCH, "--hardware", name, "--devices", "8", "--format", "json").json["ranked"]
        told = {entry["strategy"]: entry["step_time_s"] for entry in alone}
        shared = [entry for entry in both if entry["hardware"] == name]
        assert shared and all(told[entry["strategy"]] == entry["step_time_s"] for entry in shared)


def test_a_limit_that_nothing_keeps_names_the_nearest(capsys: Capture) -> None:
    ran = run(
        capsys,
        *SEARCH,
        "--hardware",
        "h100-sxm",
        "--devices",
        "8,16",
        "--tokens",
        "1T",
        "--within",
        "1h",
        "--format",
        "json",
    )
    plan = ran.json["plan"]
    assert plan["meet"] == 0 and plan["smallest"] is None and plan["nearest"]["devices"] == 16
    ran = run(capsys, *SEARCH, "--hardware", "h100-sxm", "--devices", "8,16", "--tokens", "1T", "--within", "1h")
    assert "0 of 2 machines and sizes keep that" in ran.out and "nearest" in ran.out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--within", "60d"], "--within"),
        (["--max-cost", "1M"], "--max-cost"),
        (["--tokens", "1T", "--within", "soon"], "--within"),
        (["--tokens", "1T", "--price-per-device-hour", "h200=3"], "--price-per-device-hour"),
        (["--tokens", "1T", "--mtbf-hours", "0"], "--mtbf-hours"),
        (["--tokens", "1T", "--restart-s", "-1"], "--restart-s"),
    ],
)
def test_bad_limits(capsys: Capture, words: list[str], named: str) -> None:
    ran = run(capsys, *SEARCH, "--hardware", "h100-sxm", "--devices", "8", *words)
    assert ran.code == 2 and f"error: {named}" in ran.err and ran.err.count("\n") == 1


def test_several_machines_have_no_one_study(capsys: Capture) -> None:
    ran = run(capsys, *SEARCH[:4], "--hardware", "h100-sxm,h200", "--devices", "8", "--study", "s")
    assert ran.code == 2 and "--study" in ran.err


def test_phases_share_a_cluster_and_add_up(capsys: Capture) -> None:
    phases = ["--phase", "seq=2048,batch=64,tokens=1T", "--phase", "seq=4096,tokens=100B"]
    ran = run(capsys, *SEARCH, "--hardware", "h100-sxm", "--devices", "8,16", *phases, "--format", "json")
    document = ran.json
    assert ran.code == 0 and document["plan"]["tokens"] == 1.1e12
    assert [(p["seq_length"], p["global_batch"], p["tokens"]) for p in document["phases"]] == [
        (2048, 64, 1e12),
        (4096, 64, 1e11),
    ]
    for option in (document["plan"]["smallest"], document["plan"]["fastest"]):
        assert option["days"] == pytest.approx(sum(part["days"] for part in option["phases"]))
        assert option["device_hours"] == pytest.approx(sum(part["device_hours"] for part in option["phases"]))
    rows = document["ranked"]
    assert [row["phase"] for row in rows] == [1, 2] and len({row["devices"] for row in rows}) == 1
    alone = run(
        capsys,
        *SEARCH,
        "--hardware",
        "h100-sxm",
        "--devices",
        str(rows[1]["devices"]),
        "--tokens",
        "100B",
        "--format",
        "json",
    )
    assert alone.json["ranked"][0]["step_time_s"] == pytest.approx(rows[1]["screened_step_time_s"], rel=0.1)


@pytest.mark.parametrize("text", ["seq=1", "tokens=1T,tokens=2T", "seq=0,tokens=1T", "a=1,tokens=1T", "tokens"])
def test_bad_phases(capsys: Capture, text: str) -> None:
    ran = run(capsys, *SEARCH, "--hardware", "h100-sxm", "--devices", "8", "--phase", text)
    assert ran.code == 2 and "error: --phase" in ran.err and ran.err.count("\n") == 1

"""The command: formats, exit codes, messages. The real cost models on one small group."""

from __future__ import annotations

import csv
import io
import json

import pytest

from autodeploy.cli.app import main

GROUP = ["accuracy", "--group", "korthikanti"]


def test_table(capsys):
    assert main([*GROUP, "--worst", "2", "--by", "tp,recompute"]) == 0
    out = capsys.readouterr().out
    assert "korthikanti/bf16" in out and "Worst rows" in out and "9 runs" in out


def test_json_and_csv(capsys, tmp_path):
    assert main([*GROUP, "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 9
    file = tmp_path / "runs.csv"
    assert main([*GROUP, "--format", "csv", "--output", str(file)]) == 0
    assert capsys.readouterr().out == ""
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert len(rows) == 9 and rows[0]["group"] == "korthikanti/bf16"


def test_gate(capsys, tmp_path):
    file = tmp_path / "baseline.json"
    assert main([*GROUP, "--write-baseline", str(file)]) == 0
    assert "wrote" in capsys.readouterr().err
    assert main([*GROUP, "--baseline", str(file)]) == 0
    baseline = json.loads(file.read_text())
    baseline["groups"]["korthikanti/bf16"]["time_mape"] -= 0.006
    file.write_text(json.dumps(baseline))
    assert main([*GROUP, "--baseline", str(file)]) == 1
    assert "gate: korthikanti/bf16 time_mape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--group", "nobody"], "--group"),
        (["--group", "korthikanti", "--by", "colour"], "--by"),
        (["/no/such/folder"], "RUNS"),
        (["--group", "korthikanti", "--baseline", "/no/such/file"], "--baseline"),
        (["--group", "korthikanti", "--output", "/no/such/folder/file"], "--output"),
    ],
)
def test_bad_input(capsys, arguments, field):
    assert main(["accuracy", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("autodeploy: error: ") and field in error and "Traceback" not in error

"""Inputs that once broke the command line, found by ``scripts/fuzz.py`` and by hand: each is one line and exit code 2 now."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from autodeploy.cli.app import main

ESTIMATE = ["--hardware", "h100-sxm", "--devices", "8", "--global-batch", "16"]
SEARCH = ["search", "llama-3.1-8b", *ESTIMATE]
EXPERTS = ["balance", "experts", "--nodes", "1", "--cards-per-node", "2", "--input"]
HARDWARE = "name: own\nextends: h100-sxm\n"

LINES = {
    "digits of a count": ["estimate", "llama-3.1-8b", "MBS" + "9" * 30, *ESTIMATE],
    "layers of full": ["estimate", "llama-3.1-8b", f"full({'9' * 30})", *ESTIMATE],
    "a batch of 25 digits": ["estimate", "llama-3.1-8b", "TP2", *ESTIMATE[:-1], "9" * 25],
    "a sequence of 2^62": ["estimate", "llama-3.1-8b", "TP2", *ESTIMATE, "--seq-length", str(2**62)],
    "a billion numbers of cards": ["search", "llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "1..1000000000"],
    "a negative seed": [*SEARCH, "--seed", "-1"],
    "a hundred million workers": [*SEARCH, "--workers", "100000000"],
    "trials of 25 digits": [*SEARCH, "--trials", "9" * 25],
    "a batch of a million": ["simulate", "llama-3.1-8b", "PP2", *ESTIMATE[:-1], "4000000"],
    "a name longer than a file's": ["hardware", "a" * 300],
    "a device as a profile": ["hardware", "/dev/zero"],
    "a device as measurements": ["calibrate", "/dev/zero", "--base", "h100-sxm"],
    "an id of the hub, offline": ["models", "no-such-organisation/no-such-model"],
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_command_lines(case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    one_line(LINES[case], capsys)


FILES = {
    "an infinite figure of a fit": ("own.yaml", HARDWARE + "fits: {gemm: {bf16: {rows: .inf}}}\n", ["hardware"]),
    "a base that is null": ("own.yaml", "name: own\nextends: h100-sxm\ndevice: {hbm_gb: null, hbm_gib: null}\n", ["hardware"]),
    "aliases without end": ("own.yaml", "name: &a [*a]\n", ["hardware"]),
    "a number of 5000 digits": ("own.yaml", HARDWARE + f"cards_per_node: {'9' * 5000}\n", ["hardware"]),
    "an activation that is no word": ("config.json", '{"hidden_size": 64, "hidden_act": {}, "num_hidden_layers": 1}', ["models"]),
    "more blocks than layer words": (
        "config.json",
        '{"model_type": "hrm_text", "num_layers_per_stack": 2, "num_hidden_layers": 2, "layer_types": ["full", "full"]}',
        ["models"],
    ),
    "keys twice": ("config.json", '{"hidden_size": 64, "hidden_size": 128}', ["models"]),
    "a deep configuration": ("config.json", '{"a":' * 5000 + "1" + "}" * 5000, ["models"]),
    "an expert of 900 million": ("loads.csv", "step,layer,expert,tokens\n0,0,900000000,5\n", EXPERTS),
    "an empty archive": ("loads.npz", "", EXPERTS),
    "no archive": ("loads.npz", "PK", EXPERTS),
    "a JSON row of another kind": ("loads.jsonl", "[1, 2]\n", EXPERTS),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, argv = FILES[case]
    (tmp_path / name).write_text(text)
    one_line([*argv, str(tmp_path / name)], capsys)


def test_loads_that_overflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "loads.npz", loads=np.full((1, 1, 4), np.inf))
    one_line([*EXPERTS, str(tmp_path / "loads.npz")], capsys)


def one_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    told = capsys.readouterr()
    errors = [line for line in told.err.splitlines() if line.startswith("autodeploy: error")]
    assert len(errors) == 1 and "Traceback" not in told.err and not told.out


def test_a_bad_row_names_itself_and_the_others_go_on(tmp_path: Path) -> None:
    from autodeploy.accuracy.cases import build_cases
    from autodeploy.accuracy.loader import read_runs, shipped_runs
    from autodeploy.files import csv_rows

    rows = csv_rows((shipped_runs() / "simumax_b200.csv").read_text(), "x")[:3]
    rows[0] |= {"tp": "-1", "id": "bad-row"}
    with (tmp_path / "own.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "models.yaml").write_text((shipped_runs() / "models.yaml").read_text())
    read = read_runs(tmp_path)
    assert list(read.refused) == ["bad-row"] and "tp" in read.refused["bad-row"]
    cases = build_cases(read)
    assert len(cases.cases) == len(rows) - 1 and "greater than or equal to 1" in cases.skipped["bad-row"]


RANGES = [
    ("cp", "-1"), ("tp", "0"), ("vpp", "1e9"), ("step_time_s", "-1"), ("step_time_s", "inf"), ("step_time_s", "nan"),
    ("peak_memory_gib", "0"), ("zero_stage", "9"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value"), RANGES)
def test_columns_have_ranges(column: str, value: str) -> None:
    from autodeploy.accuracy.loader import parse_row
    from autodeploy.errors import InputError

    row = {
        "id": "x",
        "group": "g",
        "family": "f",
        "source": "s",
        "model": "m",
        "kind": "dense",
        "complete": "true",
        "device": "d",
    }
    assert parse_row(row).id == "x"
    with pytest.raises(InputError, match=column):
        parse_row(row | {column: value})

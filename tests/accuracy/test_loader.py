"""The shipped runs are read whole, and bad rows say what is wrong."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from autodeploy.accuracy.loader import merge, parse_row, read_runs, shipped_runs
from autodeploy.errors import InputError

# The table of the accuracy issue: complete rows without a suspect mark.
GATED = {
    "simumax_b200/bf16": 37, "korthikanti/bf16": 9, "vtrain_single/bf16": 1276, "vtrain_multi/bf16": 72,
    "narayanan21/bf16": 16, "dgxc/bf16": 108, "dgxc/fp8": 81, "megatron_bridge/bf16": 16, "megatron_bridge/fp8": 110,
    "nemo/fp8": 34, "nemo_launcher/bf16": 5, "nemo_launcher/fp8": 17, "moe_modelzoo/bf16": 9, "zero_bubble/bf16": 44,
}  # fmt: skip
TIMED_BY_SOURCE = {"hagemann": 314, "bloom_bench": 71, "torchtitan": 34, "llm_foundry": 112}


def test_every_row_of_every_source(run_set):
    rows = 0
    for file in shipped_runs().glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as lines:
            rows += sum(1 for _ in csv.DictReader(lines))
    assert len(run_set.runs) == rows > 3000
    assert len({run.id for run in run_set.runs}) == len(run_set.runs)


@pytest.mark.parametrize("group", GATED)
def test_counts_of_the_gated_groups(run_set, group):
    assert sum(run.gated and run.report_group == group for run in run_set.runs) == GATED[group]


@pytest.mark.parametrize("source", TIMED_BY_SOURCE)
def test_counts_of_timed_rows(run_set, source):
    timed = [run for run in run_set.runs if run.group == source and run.gated and run.step_time_s is not None]
    assert len(timed) == TIMED_BY_SOURCE[source]


def test_verdicts(run_set):
    judged = [run for run in run_set.runs if run.group in ("hagemann", "bloom_bench")]
    assert Counter(run.oom is True for run in judged) == {True: 446, False: 400}


def test_types_of_a_row(run_set):
    run = next(run for run in run_set.runs if run.id == "korthikanti-175b-full")
    assert (run.tp, run.vpp, run.sequence_parallel, run.step_time_s) == (8, 3, False, 18.13)
    assert run.extra["network_gbps_per_node"] == 1600
    assert run.p2p_overlap is None  # not stated is not False


@pytest.mark.parametrize(
    ("change", "field"),
    [({"tp": "eight"}, "tp"), ({"extra": "{"}, "extra"), ({"colour": "red"}, "column"), ({"complete": ""}, "complete")],
)
def test_bad_rows_name_the_cell(change, field):
    row = {"id": "x", "group": "g", "family": "f", "source": "s", "model": "m", "kind": "dense", "complete": "True",
           "device": "d"}  # fmt: skip
    with pytest.raises(InputError, match=f"file.csv line 2: {field}"):
        parse_row({**row, **change}, "file.csv line 2")


def test_folders_that_are_none(tmp_path: Path):
    with pytest.raises(InputError, match="RUNS"):
        read_runs(tmp_path / "absent")
    with pytest.raises(InputError, match="at least one CSV"):
        read_runs(tmp_path)
    (tmp_path / "runs.csv").write_text("id\n")
    with pytest.raises(InputError, match=r"models\.yaml"):
        read_runs(tmp_path)


def test_ids_are_unique_over_folders(run_set):
    with pytest.raises(InputError, match="unique"):
        merge([run_set, run_set])


def test_the_readme_ships_too():
    assert (shipped_runs() / "README.md").is_file()

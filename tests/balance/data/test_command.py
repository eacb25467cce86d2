"""``balance data`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from autodeploy.cli.balance_data import data
from autodeploy.errors import InputError


@pytest.fixture
def run():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(data)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def lengths(tmp_path):
    path = tmp_path / "lengths.npy"
    np.save(path, np.random.default_rng(0).integers(1, 2000, 3000))
    return path


CASE = (
    "--seq-length",
    4096,
    "--dp",
    8,
    "--ep-ranks",
    4,
    "--micro-batches",
    8,
    "--packing",
    "ffd",
    "--alpha",
    1e-6,
    "--beta",
    1e-9,
)


def test_json_places_every_document_once(run, lengths):
    result = run(lengths, *CASE, "--format", "json", "--loss-normalisation", "micro_batch")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["schema"] == "autodeploy.balance/1" and {"before", "after", "plan"} <= set(said)
    placed = [s for batch in said["plan"]["order"] for rank in batch for slot in rank for s in slot]
    assert sorted(placed) == list(range(said["plan"]["samples"]))
    assert len(said["plan"]["sample_of_document"]) == 3000
    assert said["after"]["coupled_s"] <= said["before"]["coupled_s"]
    assert not said["plan"]["gradient_unchanged"] and "per-token-loss" in said["plan"]["gradient_changes"][0]


def test_csv_has_one_row_a_document(run, lengths, tmp_path):
    target = tmp_path / "order.csv"
    assert run(lengths, *CASE, "--format", "csv", "--output", target).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(target.read_text())))
    assert [int(row["document"]) for row in rows] == list(range(3000))
    assert {int(row["rank"]) for row in rows} == set(range(8))


def test_table_and_timings(run, lengths, tmp_path):
    (tmp_path / "t.csv").write_text("length,seconds\n100,0.0011\n1000,0.012\n4000,0.06\n")
    result = run(lengths, "--seq-length", 4096, "--dp", 8, "--timings", tmp_path / "t.csv")
    assert "slowest rank / mean" in result.stdout and "gradient is unchanged" in result.stdout


def test_bad_input_is_named(run, lengths, tmp_path):
    for args in (
        ["--seq-length", 100, "--dp", 8, "--alpha", 1],
        ["--seq-length", 4096, "--dp", 8],
        ["--seq-length", 4096, "--dp", 6, "--ep-ranks", 4, "--alpha", 1],
        ["--seq-length", 4096, "--dp", 8, "--alpha", 1, "--overlong", "cut"],
        ["--seq-length", 4096, "--dp", 8, "--alpha", 1, "--format", "xml"],
        ["--seq-length", 4096, "--dp", 8, "--alpha", 1, "--aux-loss", "some"],
        ["--seq-length", 4096, "--dp", 8, "--alpha", 1, "--timings", tmp_path / "none.csv"],
    ):
        assert isinstance(run(lengths, *args).exception, InputError), args
    assert run(lengths, "--seq-length", 100, "--dp", 8, "--alpha", 1, "--overlong", "split").exit_code == 0


def test_long_samples_are_split_and_outliers_wait(run, tmp_path):
    path = tmp_path / "long.npy"
    lengths = np.random.default_rng(0).integers(1, 100, 400)
    lengths[::50] = 4000
    np.save(path, lengths)
    case = (path, "--seq-length", 4096, "--dp", 8, "--micro-batches", 4, "--alpha", 1e-6, "--format", "json")
    whole, split, late = (
        json.loads(run(*case, *more).stdout) for more in ((), ("--cp-split", 8, "--ring", 1e-8), ("--max-delay", 3))
    )
    assert split["after"]["coupled_over_mean"] < 1.2 < whole["after"]["coupled_over_mean"]
    assert set(split["plan"]["context_parallel"].values()) <= {2, 4, 8} and split["plan"]["context_parallel"]
    assert late["plan"]["delay"]["most_batches"] <= 3 and not late["plan"]["gradient_unchanged"]
    assert late["after"]["coupled_s"] < whole["after"]["coupled_s"] and "later" in late["plan"]["gradient_changes"][0]
    rows = list(csv.DictReader(io.StringIO(run(*case[:-1], "csv", "--cp-split", 8).stdout)))
    assert {row["parts"] for row in rows if lengths[int(row["document"])] == 4000} <= {"2", "4", "8"}

"""``autodeploy models``."""

from __future__ import annotations

import csv
import io
import json

import pytest

from autodeploy.cli.app import main
from autodeploy.models import load_model, zoo_names
from autodeploy.models.document import build_model


def run(capsys, *arguments):
    code = main(["models", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert all(name in out for name in zoo_names())
    assert max(len(line) for line in out.splitlines()) <= 100


def test_list_as_json_and_csv(capsys):
    document = json.loads(run(capsys, "--format", "json")[1])
    assert document["schema"] == "autodeploy.models/1"
    rows = list(csv.DictReader(io.StringIO(run(capsys, "--format", "csv")[1])))
    assert [row["name"] for row in rows] == [row["name"] for row in document["models"]] == zoo_names()
    assert all(row["source"] for row in document["models"])


@pytest.mark.parametrize("name", ["pangu-ultra-moe-718b", "nemotron-3-nano-30b-a3b", "qwen3-0.6b"])
def test_one_as_json(capsys, name):
    document = json.loads(run(capsys, name, "--format", "json")[1])
    shown, model = document["model"], load_model(name)
    assert shown["parameters"] == model.parameters()
    assert sum(shown["buckets"].values()) == model.parameters()
    parts = [part for part in shown["parts"] if not part["part"].startswith("mtp")]
    assert sum(part["count"] * part["parameters"] for part in parts) == model.parameters()
    assert sum(part["count"] * part["active_parameters"] for part in parts) == model.active_parameters()
    assert build_model(document["document"]) == model


def test_one_as_table_and_csv(capsys):
    out = run(capsys, "deepseek-v3")[1]
    assert "671.03 B parameters, 37.55 B active" in out
    rows = list(csv.DictReader(io.StringIO(run(capsys, "deepseek-v3", "--format", "csv")[1])))
    assert [row["count"] for row in rows] == ["1", "3", "58", "1", "1"]


def test_notes_go_to_standard_error(capsys):
    code, out, err = run(capsys, "llama-4-scout", "--format", "json")
    assert code == 0
    assert "only the text model is counted" in err
    json.loads(out)


def test_output_file(capsys, tmp_path):
    path = tmp_path / "models.json"
    assert run(capsys, "--format", "json", "--output", str(path))[:2] == (0, "")
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "autodeploy.models/1"


@pytest.mark.parametrize("arguments", [("no-such-model",), ("qwen3-8b", "--format", "xml"), ("--output", "/no/such/f")])
def test_bad_input_exits_2_with_one_line(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1

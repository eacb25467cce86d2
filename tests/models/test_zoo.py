"""The shipped models: parameter counts, schema, sources, speed of loading."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autodeploy.errors import InputError
from autodeploy.models import load_model, zoo, zoo_names
from autodeploy.models.document import build_model, to_document
from autodeploy.models.schema import checked_model
from tests.models.table import EXACT, TABLE, close

NAMES = zoo_names()
MUST_SHIP = [
    "pangu-ultra-moe-718b", "pangu-pro-moe-72b", "pangu-ultra-135b", "deepseek-v3", "deepseek-v2", "kimi-k2", "qwen3-8b",
    "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-next-80b-a3b", "llama-2-7b", "llama-3.1-8b", "llama-3.1-70b",
    "llama-3.1-405b", "llama-4-scout", "llama-4-maverick", "mixtral-8x7b", "mixtral-8x22b", "gpt-oss-20b", "gpt-oss-120b",
    "glm-4.5", "glm-4.5-air", "gpt3-175b", "nemotron-4-340b", "minimax-text-01",
]  # fmt: skip


def test_at_least_thirty_models_ship():
    assert len(NAMES) >= 30
    assert set(MUST_SHIP) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_file_is_valid(name):
    """Shipped files skip the schema when they are loaded; here they pass it, and say where they come from."""
    document = zoo.zoo_document(name)
    assert document["name"] == name
    assert len(document["source"]) > 10
    assert checked_model(document) == zoo.zoo_model(name)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_model_round_trips(name):
    model = load_model(name)
    assert build_model(to_document(model)) == model
    assert checked_model(to_document(model)) == model


@pytest.mark.parametrize(("name", "total", "active"), [row for row in TABLE.values() if row[0]])
def test_parameters_of_the_table(name, total, active):
    model = load_model(name)
    assert close(model.parameters(), total), model.parameters()
    assert close(model.active_parameters(), active), model.active_parameters()


@pytest.mark.parametrize(("name", "count"), EXACT.items())
def test_exact_parameters(name, count):
    assert load_model(name).parameters() == count


def test_pangu_family():
    """718B: 719.09B without MTP (+12.4B); 72B-A16B: 71.99B and 16.50B (arXiv 2505.21411v2); 135B."""
    ultra, pro = load_model("pangu-ultra-moe-718b"), load_model("pangu-pro-moe-72b")
    assert round(ultra.parameters() / 1e9, 2) == 719.09
    assert round(pro.parameters() / 1e9, 2) == 71.99
    assert round(pro.active_parameters() / 1e9, 2) == 16.50
    assert round(load_model("pangu-ultra-135b").parameters() / 1e9) == 134


def test_names_match_in_any_case():
    assert load_model("DeepSeek-V3") == load_model("deepseek-v3")


def test_unknown_name_suggests_close_ones():
    with pytest.raises(InputError, match="did you mean .*qwen3-8b"):
        load_model("qwen-3-8b")
    with pytest.raises(InputError, match="autodeploy models"):
        load_model("zzzzzzzz")


@pytest.mark.parametrize("text", ["", " ", ".", "..", "../zoo/deepseek-v3", "zoo\\deepseek-v3", "\0"])
def test_odd_names_are_one_line_errors(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        load_model(text)


def test_loading_a_shipped_model_is_light():
    """``estimate`` answers in 0.3 s: no pydantic, and nothing heavier than YAML."""
    code = (
        "import sys; from autodeploy.models import load_model; load_model('pangu-ultra-moe-718b');"
        "print([m for m in ('pydantic', 'rich', 'typer', 'scipy', 'optuna') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"

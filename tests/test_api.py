"""The Python API gives the figures of the command line, imports nothing heavy, and its page is true."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import autodeploy
from autodeploy.cli.app import main
from autodeploy.errors import InputError

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
MODEL, STRATEGY = "llama-3.1-8b", "TP2/PP2/VPP4"
CASE: dict[str, Any] = {"hardware": "h100-sxm", "devices": 16, "global_batch": 64}
TYPED = ["--hardware", "h100-sxm", "--devices", "16", "--global-batch", "64", "--format", "json"]
CLOCKS = ("screen_s", "refine_s")


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def _plain(document: Any) -> Any:
    """As JSON would carry it, without the seconds that a search took."""
    found = json.loads(json.dumps(document, default=str))
    for clock in CLOCKS:
        found.get("space", {}).pop(clock, None)
    return found


@pytest.mark.parametrize("name", ["estimate", "simulate", "explain"])
def test_one_strategy_as_on_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = getattr(autodeploy, name)(MODEL, STRATEGY, **CASE)
    assert _plain(found.document) == _plain(_printed(capsys, name, MODEL, STRATEGY, *TYPED))
    assert (
        found.row.step_time_s
        == found.document["estimate"]["step_time_s"]
        == pytest.approx(sum(found.row.time_s.values()))
    )


def test_a_mixture_with_options_as_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = autodeploy.estimate(
        autodeploy.load_model("mixtral-8x7b"), "TP2/PP2/EP4/full", hardware=autodeploy.load_hardware("h100-sxm"),
        devices=32, global_batch=128, seq_length=8192, precision="fp8", imbalance=1.25, memory_cap_gib=70.0,
        stack=autodeploy.load_stack("megatron-core-2025"), set={"grad_dtype": "bf16"},
    )  # fmt: skip
    options = "--hardware h100-sxm --devices 32 --global-batch 128 --seq-length 8192 --precision fp8 --imbalance 1.25"
    more = "--memory-cap 70 --stack megatron-core-2025 --set grad_dtype=bf16 --format json"
    code = main(["estimate", "mixtral-8x7b", "TP2/PP2/EP4/full", *options.split(), *more.split()])
    assert code == (0 if found.fits else 3)
    assert _plain(found.document) == _plain(json.loads(capsys.readouterr().out))


def test_a_search_as_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = autodeploy.search(MODEL, **CASE, axes={"tp": "2,4"}, method="exhaustive", top=5)
    typed = _printed(capsys, "search", MODEL, *TYPED, "--tp", "2,4", "--method", "exhaustive", "--top", "5")
    assert _plain(found.document) == _plain(typed)
    assert [row.strategy for row in found.rows] == [row["strategy"] for row in typed["ranked"]]
    assert found.best == found.rows[0] and found.nearest == ()


def test_nothing_fits_is_an_answer() -> None:
    found = autodeploy.search("llama-3.1-70b", hardware="h100-sxm", devices=2, global_batch=2, trials=0, top=3)
    assert found.best is None and found.nearest and found.nearest[0]["fix"]


def test_results_are_frozen_and_bad_input_is_one_line() -> None:
    found = autodeploy.estimate(MODEL, STRATEGY, **CASE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.row.mfu = 1.0
    for wrong in ({"precision": "int3"}, {"backend": "x"}, {"seq_length": 0}, {"imbalance": 0.5}, {"stack": "x"},
                  {"memory_cap_gib": 0.0}, {"set": {"x": 1}}):  # fmt: skip
        with pytest.raises(InputError) as told:
            autodeploy.estimate(MODEL, STRATEGY, **{**CASE, **wrong})
        assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="devices"):
        autodeploy.estimate(MODEL, STRATEGY, hardware="h100-sxm", devices=0)
    with pytest.raises(TypeError, match="no_such"):
        autodeploy.estimate(MODEL, STRATEGY, **CASE, no_such=1)


def test_a_table_where_pandas_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = autodeploy.estimate(MODEL, STRATEGY, **CASE)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        found.to_pandas()
    monkeypatch.undo()
    pytest.importorskip("pandas")
    assert list(found.to_pandas()["rank"]) == [0, 1]
    steps = autodeploy.explain(MODEL, STRATEGY, **CASE)
    assert list(steps.to_pandas()["change"]) == [step.change for step in steps.steps]


def test_importing_it_is_light() -> None:
    code = (
        "import sys, autodeploy; assert 'numpy' not in sys.modules and callable(autodeploy.search);"
        "import autodeploy.search; assert callable(autodeploy.search);"
        "from autodeploy import search, explain; assert callable(search) and callable(explain);"
        "print([n for n in ('optuna', 'scipy', 'pydantic', 'rich', 'typer', 'pandas') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[]\n"


def test_the_packages_answer_the_call() -> None:
    import autodeploy.search  # binds the package over the function

    found = autodeploy.search(MODEL, **CASE, axes={"tp": 2, "pp": 1}, method="exhaustive", top=1)
    assert found.best is not None and found.best.values["tp"] == 2


def test_the_example_of_the_page_prints_what_the_page_says() -> None:
    code, printed = re.findall(r"```python\n(.*?)```\n.*?```text\n(.*?)```", PAGE, re.DOTALL)[0]
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == printed

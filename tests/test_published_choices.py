"""Pure parts of scripts/published_choices.py, and its settings against the reference runs that it names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autodeploy.accuracy.loader import read_runs

SCRIPT = Path(__file__).parents[1] / "scripts" / "published_choices.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published_choices", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def row(rank: int, tp: int, step_s: float, **times: float) -> dict[str, Any]:
    sizes = {"rank": rank, "predicted_rank": 4 - rank, "tp": tp, "pp": 4, "vpp": 1, "ep": 1, "cp": 2}
    said = {"tie": rank == 1, "best_probability": 0.1 * rank, "fit_probability": 0.96, "evidence": f"{rank} runs"}
    return {**sizes, **said, "step_time_s": step_s, "time_s": times, "strategy": f"TP{tp}/PP4/CP2"}


RANKED = [row(1, 8, 10.0, gemm=8.0, bubble=2.0), row(2, 4, 10.5, gemm=8.1, tp_comm=2.4), row(3, 4, 9.9, gemm=9.9)]


def test_the_group_is_found_and_its_cause_is_the_largest_difference(script: ModuleType) -> None:
    """Bubble 0 against 2.0 s: less than 2.4 against 0 s of TP communication. P(fastest) .2 + .3."""
    figures, causes = script.places(script.CHOICES[0], RANKED)
    assert figures.endswith("| TP4/PP4/EP1/CP2 | 2 | 1 of 3 | 50.0% | 96% | +5.0% | +0.0% |")
    assert causes.endswith("| tp_comm: theirs 2.40 s, ours 0.00 s (steps 10.50, 10.00) | 2 runs | 1 runs |")


def test_a_first_row_differs_by_nothing(script: ModuleType) -> None:
    figures, causes = script.places(script.CHOICES[0], [RANKED[1], RANKED[0]])
    assert "+0.0%" in figures and causes.endswith("| `TP4/PP4/CP2` | the same | - | 2 runs | the same |")


def test_settings_are_those_of_the_runs_named(script: ModuleType) -> None:
    runs = {run.id: run for run in read_runs().runs}
    named = [choice for choice in script.CHOICES if choice.source in runs]
    assert len(named) == 7
    for choice in named:
        run = runs[choice.source]
        theirs = (run.tp, run.pp, run.ep, run.cp, run.num_devices, run.seq_length, run.global_batch)
        sizes = (choice.devices, choice.seq_length, choice.batch)
        assert theirs == (choice.tp, choice.pp, choice.ep, choice.cp, *sizes), choice.title


def test_a_group_that_is_not_in_the_list_is_told_as_what_it_is(script: ModuleType) -> None:
    """Too large; after all rows kept (12.0 s against 10.0); not valid at all."""
    ours, own = RANKED[:1], {**row(9, 4, 12.0, gemm=12.0), "peak_memory_gib": 99.94}
    ask = script.CHOICES[0]
    figures, _ = script.missing(ask, ours, {"ranked": [], "nearest": [{**own, "fits": False}]})
    assert "99.9 GiB at the least: does not fit" in figures
    figures, causes = script.missing(ask, ours, {"ranked": [{**own, "fits": True}], "nearest": []})
    assert "| after 1 | 2 of 2 | 0.0% | 96% | +20.0% |" in figures and "gemm: theirs 12.00 s, ours 8.00 s" in causes
    assert "no valid strategy" in script.missing(ask, ours, {"ranked": [], "nearest": []})[0]

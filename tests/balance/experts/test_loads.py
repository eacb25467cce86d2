"""Reading histories and placements, and what bad input is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autodeploy.balance.experts.loads import read_history, read_placement
from autodeploy.balance.experts.place import place
from autodeploy.balance.experts.placement import Placement, Topology, contiguous
from autodeploy.balance.experts.plan import make_plan
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError

LOADS = np.arange(12.0).reshape(2, 2, 3)


def write(folder: Path, kind: str) -> Path:
    path = folder / f"history.{kind}"
    if kind == "npz":
        np.savez(path, loads=LOADS)
    elif kind == "csv":
        rows = [f"{t},{l},{e},{LOADS[t, l, e]}" for t in range(2) for l in range(2) for e in range(3)]
        path.write_text("step,layer,expert,tokens\n" + "\n".join(rows))
    else:
        rows = [json.dumps({"step": t, "layer": l, "loads": LOADS[t, l].tolist()}) for t in range(2) for l in range(2)]
        path.write_text("\n".join(rows))
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "jsonl"])
@pytest.mark.parametrize("guessed", [True, False])
def test_every_format_reads_the_same(tmp_path: Path, kind: str, guessed: bool) -> None:
    path = write(tmp_path, kind)
    if guessed:
        path = path.rename(tmp_path / "history")
    assert np.array_equal(read_history(path), LOADS)


@pytest.mark.parametrize(("value", "shown"), [(-1.0, "-1.0"), (np.nan, "nan"), (np.inf, "inf")])
def test_bad_loads_are_named(value: float, shown: str) -> None:
    loads = LOADS.copy()
    loads[1, 0, 2] = value
    with pytest.raises(InputError, match=f"loads at step 1, layer 0, expert 2 = {shown}: must be .*; 1 of 12"):
        check_loads(loads, 3)


@pytest.mark.parametrize("text", ["", "step,layer,expert,tokens\n"])
def test_empty_input_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match="must be"):
        read_history(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "step,layer\n0,0\n", "columns step, layer, expert, tokens"),
        ("a.csv", "step,layer,expert,tokens\n0,0,x,1\n", "line 2"),
        ("a.jsonl", '{"step": 0}\n', "line 1"),
        ("a.jsonl", '{"step": 0, "layer": 0, "loads": [1]}\n{"step": 1, "layer": 1, "loads": [1]}\n', "every layer"),
        ("a.npz", "no archive", "an npz with an array"),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=told):
        read_history(tmp_path / name)


def test_missing_file_and_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists"):
        read_history(tmp_path / "none.npz")
    with pytest.raises(InputError, match="one of npz, csv, jsonl"):
        read_history(write(tmp_path, "npz"), "xml")


def test_experts_that_do_not_divide() -> None:
    with pytest.raises(InputError, match=r"slots = 259: must be a multiple of the 32 cards; use 288 slots \(32"):
        place(np.ones((1, 256)), Topology(nodes=4, cards_per_node=8), 259)
    with pytest.raises(InputError, match="at least the 256 experts"):
        place(np.ones((1, 256)), Topology(nodes=4, cards_per_node=8), 224)
    with pytest.raises(InputError, match="divisor of the 256"):
        place(np.ones((1, 256)), Topology(nodes=4, cards_per_node=8), groups=7)


def test_placements(tmp_path: Path) -> None:
    path = tmp_path / "placement.json"
    path.write_text(json.dumps({"placement": [[0, 1], [2, 0]]}))
    assert read_placement(path, layers=2, experts=3, cards=2).slot_expert.tolist() == [[[0, 1], [2, 0]]] * 2
    with pytest.raises(InputError, match="cards"):
        read_placement(path, layers=2, experts=3, cards=4)
    with pytest.raises(InputError, match="without expert 1"):
        Placement(np.array([[[0, 0], [2, 0]]]), 3)
    with pytest.raises(InputError, match=r"0\.\.2"):
        Placement(np.array([[[0, 1], [2, 3]]]), 3)


def test_contiguous_spreads_its_replicas() -> None:
    start = contiguous(1, 8, 4, 12)
    assert start.slot_expert[0, :, :2].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert not start.duplicates().any() and start.counts().max() == 2


def test_negative_loads_stop_a_plan(task_factory) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="layer 0, expert 0"):
        make_plan(-np.ones((3, 1, 8)), contiguous(1, 8, 4), task_factory(nodes=1, cards_per_node=4), 10)

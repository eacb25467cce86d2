"""``balance experts`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autodeploy.balance.experts import Placement, Topology, card_loads, max_over_mean
from autodeploy.balance.experts.nodes import is_strict
from tests.cli.runner import run

ZIPF = np.stack([np.random.default_rng(i).permutation(1e6 / np.arange(1, 65)) for i in range(2)])


@pytest.fixture
def loads_file(tmp_path: Path) -> str:
    path = tmp_path / "loads.npz"
    np.savez(path, loads=ZIPF[None])
    return str(path)


def arguments(path: str, *more: str) -> list[str]:
    layout = ["--nodes", "2", "--cards-per-node", "4", "--slots", "80"]
    return ["balance", "experts", "--place", "--input", path, *layout, *more]


def test_place_needs_no_prices(loads_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, *arguments(loads_file, "--format", "json"))
    after = ran.json["after"]
    placement = Placement(np.array(after["placement"]), 64)
    assert placement.slot_expert.shape == (2, 8, 10) and ran.json["plan"]["mode"] == "global"
    assert after["max_over_mean"] == pytest.approx(max_over_mean(card_loads(placement, ZIPF)).tolist())
    assert after["max_over_mean_mean"] < 1.01


def test_groups_are_strict_and_relaxed_is_priced(loads_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    grouped = (*arguments(loads_file, "--groups", "4", "--format", "json"),)
    prices = ("--token-bytes", "1000", "--inter-bandwidth", "5e10")
    strict, relaxed = (run(capsys, *grouped, *prices, *more).json for more in ((), ("--relaxed",)))
    assert strict["plan"]["mode"] == "strict" and relaxed["plan"]["mode"] == "relaxed"
    placements = [Placement(np.array(d["after"]["placement"]), 64) for d in (strict, relaxed)]
    topology = Topology(nodes=2, cards_per_node=4)
    assert is_strict(placements[0], topology, 4) and not is_strict(placements[1], topology, 4)
    assert strict["after"]["foreign_s_per_step"] == 0
    moved = sum(relaxed["after"]["foreign_tokens"])
    assert relaxed["after"]["foreign_bytes_per_step"] == pytest.approx(1000 * moved) and moved > 0
    assert relaxed["after"]["foreign_s_per_step"] >= 1000 * moved / (2 * 4 * 5e10)
    assert relaxed["after"]["max_over_mean_mean"] < strict["after"]["max_over_mean_mean"]
    text = run(capsys, *arguments(loads_file, "--groups", "4", "--relaxed", *prices)).out
    assert "outside their group's node" in text and "s a step" in text


def test_idle_experts_are_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seen.csv"
    path.write_text("step,layer,expert,tokens\n0,0,0,7\n0,0,2,3\n")
    layout = ["--nodes", "1", "--cards-per-node", "2", "--format", "json", "--input", str(path)]
    found = run(capsys, "balance", "experts", "--place", *layout, "--experts", "4").json
    assert sorted(np.ravel(found["after"]["placement"]).tolist()) == [0, 1, 2, 3]
    refused = run(capsys, "balance", "experts", "--place", *layout, "--experts", "2")
    assert refused.code == 2 and "--experts" in refused.err and len(refused.err.strip().splitlines()) == 1


def test_shares_of_a_step_lower_what_steps_lose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "many.npz"
    np.savez(path, loads=np.random.default_rng(0).poisson(ZIPF / 1e3, size=(30, 2, 64)))
    ran = {
        shares: run(capsys, *arguments(str(path), "--shares", shares, "--format", "json")).json["after"]
        for shares in ("even", "fixed", "step")
    }
    observed = {shares: after["observed_max_over_mean_mean"] for shares, after in ran.items()}
    assert observed["step"] < observed["fixed"] <= observed["even"]
    assert np.array(ran["fixed"]["shares"]).shape == (2, 8, 10)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--shares", "odd"), "--shares"),
        (("--slots", "81"), "slots"),
        (("--groups", "5"), "--groups"),
        (("--groups", "-1"), "--groups"),
        (("--experts", "-3"), "--experts"),
    ],
)
def test_bad_input_is_one_line(
    more: tuple[str, ...], named: str, loads_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(capsys, *arguments(loads_file, *more))
    assert ran.code == 2 and named in ran.err and len(ran.err.strip().splitlines()) == 1 and not ran.out


def test_csv_lists_every_slot(loads_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, *arguments(loads_file, "--format", "csv")).out.splitlines()
    assert lines[0] == "layer,card,slot,expert" and len(lines) == 1 + 2 * 80


def test_maps_are_written_and_records_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, maps = tmp_path / "window.npz", tmp_path / "map.json"
    np.savez(path, expert_load_window=[[[9, 1, 2, 3]]], physical_to_logical_map=[[0, 1, 2, 3]])
    layout = ["--nodes", "1", "--cards-per-node", "2", "--slots", "6", "--format", "json"]
    command = ["balance", "experts", "--place", "--input", str(path), "--input-format", "record", *layout]
    found = run(capsys, *command, "--maps", str(maps), "--map-format", "vllm").json
    written = json.loads(maps.read_text())
    assert written["physical_to_logical_map"] == [np.ravel(found["after"]["placement"]).tolist()]
    assert written["logical_replica_count"][0][0] == 2
    assert run(capsys, *command, "--map-format", "odd").code == 2


def test_prices_cards_and_horizon_come_from_the_twin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The more of the step's tokens a history counts, the cheaper each: the plan is the same."""
    job = ["mixtral-8x7b", "TP1/PP4/EP8", "--hardware", "h100-sxm", "--devices", "64", "--global-batch", "256"]
    loads = np.random.default_rng(0).poisson(np.repeat([[900, 100, 50, 300, 20, 200, 80, 400]], 40, axis=0))[:, None]
    found = []
    for times in (1, 10):
        np.savez(tmp_path / "loads.npz", loads=times * loads)
        more = ["--input", str(tmp_path / "loads.npz"), "--slots", "16", "--format", "json"]
        found.append(run(capsys, "balance", "experts", *job, "--seq-length", "4096", *more).json)
    twin = found[0]["twin"]
    assert (twin["nodes"], twin["cards_per_node"], found[0]["cards"]) == (1, 8, 8)
    assert twin["bytes_per_expert"] == pytest.approx(
        3 * 4096 * 14336 * (2 + 12 / 2)
    )  # optimizer over 16 / 8 = 2 copies
    assert found[0]["plan"]["horizon_steps"] == round(600 / twin["step_s"])
    assert found[1]["twin"]["seconds_per_token"] == pytest.approx(twin["seconds_per_token"] / 10)
    assert found[0]["after"]["placement"] == found[1]["after"]["placement"] and found[0]["plan"]["moves"]
    refused = run(capsys, "balance", "experts", "mixtral-8x7b", "--input", str(tmp_path / "loads.npz"))
    assert refused.code == 2 and "strategy" in refused.err

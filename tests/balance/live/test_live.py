"""The balancer as a trainer holds it: deterministic, resumable; maps, records and samplers by hand and round trip."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.data import BatchShape, SampleCost, rearrange
from autodeploy.balance.experts import Links, Placement, Shape, Task, Topology, contiguous, generate
from autodeploy.balance.live import (
    BalancedBatchSampler,
    ExpertBalancer,
    LoadRecorder,
    eplb_maps,
    logical_loads,
    placement_from_map,
    read_maps,
    read_record,
    write_maps,
)
from autodeploy.balance.live.maps import FORMATS
from autodeploy.errors import InputError


def fresh(horizon: int = 32, slots: int = 80) -> ExpertBalancer:
    links = Links(bytes_per_expert=1e6, intra_bytes_per_s=4e11, inter_bytes_per_s=5e10)
    task = Task(topology=Topology(nodes=2, cards_per_node=8), links=links, seconds_per_token=1e-5)
    return ExpertBalancer(contiguous(2, 64, 16, slots), task, horizon)


def run(balancer: ExpertBalancer, history: np.ndarray, every: int = 4) -> list[list[int]]:
    """Slots after every decision."""
    seen = []
    for loads in history:
        balancer.observe(loads)
        if balancer.steps % every == 0:
            balancer.decide()
            seen.append(balancer.placement.slot_expert.ravel().tolist())
    return seen


@pytest.mark.parametrize("name", ["hot_expert", "drift", "rotating"])
def test_a_resumed_balancer_goes_on_as_if_it_had_not_stopped(name: str, tmp_path: Path) -> None:
    history = generate(name, Shape(steps=120, layers=2))
    whole, first, second = fresh(), fresh(), fresh()
    expected = run(whole, history)
    before = run(first, history[:50])
    np.savez(tmp_path / "state.npz", **first.state_dict())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        second.load_state_dict(dict(state))
    assert before + run(second, history[50:]) == expected
    assert len({tuple(slots) for slots in expected}) > 1  # it moved at all


def test_ranks_decide_alike() -> None:
    history = generate("drift", Shape(steps=60, layers=2))
    assert run(fresh(), history) == run(fresh(), history)


def test_moves_lead_from_one_placement_to_the_next() -> None:
    balancer, told = fresh(), None
    for loads in generate("hot_card", Shape(steps=40, layers=2)):
        balancer.observe(loads)
        told = told or balancer.decide()
    assert told is not None and told.moved_bytes == 1e6 * len(told.moves) > 0
    held = {(m.layer, c, e) for m in told.moves for c, row in enumerate(told.before.slot_expert[m.layer]) for e in row}
    for move in told.moves:
        assert (move.layer, move.from_card, move.expert) in held
        held.add((move.layer, move.to_card, move.expert))
        assert told.after.slot_expert[move.layer, move.to_card, move.slot] == move.expert


def test_a_state_of_another_job_is_refused() -> None:
    with pytest.raises(InputError, match="same horizon"):
        fresh(64).load_state_dict(fresh(32).state_dict())
    with pytest.raises(InputError, match="same cards"):
        fresh(slots=96).load_state_dict(fresh().state_dict())
    with pytest.raises(InputError, match="layers and experts"):
        fresh().observe(np.ones((2, 65)))


def test_maps_by_hand() -> None:
    maps = eplb_maps(Placement(np.array([[[0, 1], [2, 0]]]), 3))
    assert maps.physical_to_logical_map.tolist() == [[0, 1, 2, 0]]
    assert maps.logical_to_physical_map.tolist() == [[[0, 3], [1, -1], [2, -1]]]
    assert maps.logical_replica_count.tolist() == [[2, 1, 1]]


@pytest.mark.parametrize("map_format", FORMATS)
def test_maps_round_trip(map_format: str, tmp_path: Path) -> None:
    placement = contiguous(3, 16, 4, 24)
    write_maps(placement, tmp_path / "map.json", map_format)
    assert np.array_equal(read_maps(tmp_path / "map.json", 4).slot_expert, placement.slot_expert)


def test_sglang_reads_one_key(tmp_path: Path) -> None:
    """``init_by_mapping(**data)`` takes physical_to_logical_map and nothing else."""
    write_maps(contiguous(2, 8, 4), tmp_path / "map.json", "sglang")
    data = json.loads((tmp_path / "map.json").read_text())
    assert list(data) == ["physical_to_logical_map"] and np.shape(data["physical_to_logical_map"]) == (2, 8)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.integers(0, 999))
def test_loads_of_slots_are_loads_of_experts(cards: int, width: int, spare: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    placement = contiguous(2, cards * width, cards, cards * (width + spare))
    maps = eplb_maps(placement)
    physical = rng.integers(0, 100, size=(3, 2, placement.slots))
    loads = logical_loads(physical, maps.physical_to_logical_map, placement.experts)
    for layer in range(2):
        for expert in range(placement.experts):
            slots = maps.logical_to_physical_map[layer, expert, : maps.logical_replica_count[layer, expert]]
            assert np.array_equal(loads[:, layer, expert], physical[:, layer, slots].sum(axis=1))
    assert np.array_equal(placement_from_map(maps.physical_to_logical_map, cards).slot_expert, placement.slot_expert)


def test_records_are_read(tmp_path: Path) -> None:
    window = np.zeros((5, 1, 4))
    window[:2] = [[[1, 2, 3, 4]], [[5, 6, 7, 8]]]
    np.savez(tmp_path / "vllm.npz", expert_load_window=window, physical_to_logical_map=[[0, 1, 0, 1]])
    assert read_record(tmp_path / "vllm.npz").tolist() == [[[4, 6]], [[12, 14]]]
    np.savez(tmp_path / "sglang.npz", logical_count=[[1, 2, 3]])
    assert read_record(tmp_path / "sglang.npz").tolist() == [[[1, 2, 3]]]
    np.savez(tmp_path / "no_map.npz", expert_load_pass=[[1, 2]])
    for name in ("no_map.npz", "absent.npz"):
        with pytest.raises(InputError):
            read_record(tmp_path / name)


def test_recorder_writes_what_the_command_reads(tmp_path: Path) -> None:
    recorder = LoadRecorder(2, 3)
    for micro_batch in range(2):
        recorder.add(0, [1, 2, micro_batch])
        recorder.add(1, [0, 0, 5])
    assert recorder.end_step().tolist() == [[2, 4, 1], [0, 0, 10]]
    recorder.end_step([[1, 1, 1], [2, 2, 2]])
    recorder.save(tmp_path / "loads.npz")
    assert np.load(tmp_path / "loads.npz")["loads"].tolist() == [[[2, 4, 1], [0, 0, 10]], [[1, 1, 1], [2, 2, 2]]]


def test_samplers_hand_out_every_sample_once_and_resume() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, size=96)
    plan = rearrange(lengths, 100, BatchShape(ranks=4, micro_batches=3), SampleCost(alpha_s_per_token=1.0))
    samplers = [BalancedBatchSampler(plan.order, rank, 4) for rank in range(4)]
    drawn = [list(sampler) for sampler in samplers]
    assert all(len(sampler) == len(batches) for sampler, batches in zip(samplers, drawn, strict=True))
    assert sorted(sample for rank in drawn for batch in rank for sample in batch) == list(range(96))
    resumed = BalancedBatchSampler(plan.order, 1, 4, consumed_samples=24)
    assert list(resumed) == drawn[1][6:]
    with pytest.raises(InputError, match="use 24"):
        BalancedBatchSampler(plan.order, 1, 4, consumed_samples=25)
    with pytest.raises(InputError, match="data_parallel_size"):
        BalancedBatchSampler(plan.order, 1, 5)

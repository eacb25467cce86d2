"""The space: valid, without repeats, with what was published, and pruned only where a statement proves it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.errors import InputError
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.backends import BACKENDS
from autodeploy.strategy.convert import batch_to_strategy, strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.prune import DEVIATIONS, DOMINATED
from autodeploy.strategy.rules import check
from autodeploy.strategy.space import CHUNK, SpaceChunks, enumerate_space
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import StrategyBatch
from tests.strategy import specs

PANGU = specs.PANGU_ULTRA_MOE
PANGU_WORK = Workload(seq_length=8192, global_batch=4608)


def walked(space: SpaceChunks) -> StrategyBatch:
    return StrategyBatch.concatenate(list(space))


def space_of(
    model: ModelSpec, devices: int, backend: str = "megatron", *, batch: int = 64, hardware: HardwareProfile = specs.NVIDIA,
    axes: Axes | None = None, audit: bool = False,
) -> SpaceChunks:  # fmt: skip
    workload = Workload(seq_length=4096, global_batch=batch)
    return enumerate_space(model, hardware, workload, devices, backend, axes, audit=audit)


def keys(batch: StrategyBatch) -> set[tuple[object, ...]]:
    """Identity of every strategy; layouts by their text and counts."""
    names = [f.name for f in fields(batch) if f.name not in ("layout", "layouts")]
    columns = [getattr(batch, name).tolist() for name in names]
    layouts = [(layout.pp, layout.vpp, layout.key, layout.text) for layout in batch.layouts]
    return set(zip(*columns, [layouts[i] for i in batch.layout], strict=True))


@pytest.fixture(scope="module")
def pangu() -> tuple[SpaceChunks, StrategyBatch]:
    space = enumerate_space(PANGU, specs.ASCEND, PANGU_WORK, 6144, "mindspeed")
    chunks = list(space)
    assert max(len(chunk) for chunk in chunks) <= CHUNK
    return space, StrategyBatch.concatenate(chunks)


def test_the_published_strategy_is_in_the_space_of_6144_cards(pangu: tuple[SpaceChunks, StrategyBatch]) -> None:
    """DP48 and EP32: 48 % 32 != 0, but 8 x 48 = 384 = 32 x 12."""
    b = pangu[1]
    here = (b.tp == 8) & (b.pp == 16) & (b.vpp == 2) & (b.ep == 32) & (b.etp == 1) & (b.cp == 1) & (b.micro_batch == 2)
    assert here.any() and (b.dp[here] == 48).all() and (b.expert_dp[here] == 12).all()
    found = {str(batch_to_strategy(b, int(i))) for i in np.flatnonzero(here)}
    assert "TP8/PP16/VPP2/EP32/MBS2/selective(mla_up_proj,layernorm,moe)" in found
    assert "TP8/PP16/VPP2/EP32/MBS2/hierarchical-allgather" in found
    assert "TP8/PP16/VPP2/EP32/MBS2/ep-overlap" in found


def test_the_space_of_pangu_is_wide_but_screened_in_seconds(pangu: tuple[SpaceChunks, StrategyBatch]) -> None:
    space, b = pangu
    assert 10_000 < space.counts.core < 100_000
    assert 50_000 < space.counts.enumerated == len(b) < 400_000
    assert {1, 4, 8, 16, 32, 64} <= set(b.ep.tolist()) and {1, 2, 4} <= set(b.vpp.tolist())
    assert (b.ep > b.dp * b.cp).any()  # EP may exceed DP
    assert space.counts.rejected["tp-in-node"] and space.counts.pruned["weights-exceed-card"]


def test_nothing_is_listed_twice(pangu: tuple[SpaceChunks, StrategyBatch]) -> None:
    assert len(keys(pangu[1])) == len(pangu[1])


CASES = [
    (specs.LLAMA3_8B, 8, "megatron", specs.NVIDIA),
    (specs.LLAMA3_8B, 48, "torchtitan", specs.NVIDIA),
    (specs.QWEN3_30B, 16, "any", specs.NVIDIA),
    (specs.QWEN3_30B, 16, "mindspeed", specs.ASCEND),
    (specs.QWEN3_30B, 32, "megatron-bridge", specs.NVIDIA),
]


@pytest.mark.parametrize(("model", "devices", "backend", "hardware"), CASES)
@pytest.mark.parametrize("audit", [False, True])
def test_all_that_is_enumerated_is_valid_and_reads_back(
    model: ModelSpec, devices: int, backend: str, hardware: HardwareProfile, audit: bool
) -> None:
    space = space_of(model, devices, backend, batch=48, hardware=hardware, audit=audit)
    batch = walked(space)
    workload = Workload(seq_length=4096, global_batch=48)
    assert len(batch) == space.counts.enumerated == len(keys(batch))
    assert not check(model, hardware, workload, batch, backend, devices=devices, soft=True).any()
    for i in np.random.default_rng(0).integers(0, len(batch), 50):
        strategy = batch_to_strategy(batch, int(i))
        again = strategy_to_batch(parse_strategy(str(strategy)), model, devices, backend)
        assert keys(again) <= keys(batch.take(np.array([i]))) or strategy.layout
        assert batch_to_strategy(again) == strategy


@pytest.mark.parametrize(("model", "devices", "backend", "hardware"), CASES)
def test_an_audit_prices_exactly_what_pruning_left_out(
    model: ModelSpec, devices: int, backend: str, hardware: HardwareProfile
) -> None:
    plain = space_of(model, devices, backend, batch=48, hardware=hardware)
    some = keys(walked(plain))
    audited = space_of(model, devices, backend, batch=48, hardware=hardware, audit=True)
    everything = keys(walked(audited))
    assert some <= everything
    floor = plain.counts.pruned["weights-exceed-card"]
    assert len(everything) - len(some) >= sum(plain.counts.pruned.values()) - floor


def test_every_statement_of_dominance_prunes_something_somewhere() -> None:
    pruned: set[str] = set()
    for model, devices, backend, hardware in CASES:
        space = space_of(model, devices, backend, batch=48, hardware=hardware)
        walked(space)
        pruned |= {name for name, count in space.counts.pruned.items() if count}
    space = enumerate_space(PANGU, specs.ASCEND, PANGU_WORK, 6144, "mindspeed", Axes.of({"tp": 8}))
    walked(space)
    pruned |= {name for name, count in space.counts.pruned.items() if count}
    assert {statement.name for statement in DOMINATED} | {step.name for step in DEVIATIONS} <= pruned


def test_ten_micro_batches_over_pp4_run_in_groups_of_5() -> None:
    axes = Axes.of({"tp": 1, "pp": 4, "vpp": 2, "micro_batch": 1, "cp": 1})
    batch = walked(space_of(specs.LLAMA3_8B, 4, batch=10, axes=axes))
    assert set(batch.micro_batch_group.tolist()) == {5}
    assert "G5" in str(batch_to_strategy(batch))


# ------------------------------------------------------------------------------------------------------ axes


def test_named_values_and_ranges() -> None:
    axes = Axes.of({"tp": "1..4", "pp": "2,4", "ep": 8, "micro_batch": (1, 2), "recompute": "none,selective(moe)"})
    batch = walked(space_of(specs.QWEN3_30B, 32, axes=axes))
    assert set(batch.tp.tolist()) == {1, 2, 4} and set(batch.pp.tolist()) == {2, 4}
    assert set(batch.ep.tolist()) == {8} and set(batch.micro_batch.tolist()) == {1, 2}
    assert len(set(batch.recompute.tolist())) == 2


def test_tp_beyond_the_node_when_asked_for() -> None:
    assert 16 not in walked(space_of(specs.LLAMA3_70B, 64)).tp
    assert 16 in walked(space_of(specs.LLAMA3_70B, 64, axes=Axes.of({"tp": "8,16"}))).tp


def test_expert_communication_can_be_kept_serial() -> None:
    axes = Axes.of({"ep_overlap": False, "dispatcher": "alltoall", "schedule": "1f1b,interleaved"})
    batch = walked(space_of(specs.QWEN3_30B, 16, "mindspeed", hardware=specs.ASCEND, axes=axes))
    assert not batch.ep_overlap.any() and not batch.dispatcher.any()


def test_other_named_axes() -> None:
    axes = Axes.of(
        {"zero": "0..3", "swap": "0,0.3", "offload": "0,0.5", "dp": "4..8", "layout": ["even"], "vpp": 2, "pp": 2}
    )
    batch = walked(space_of(specs.LLAMA3_8B, 16, axes=axes))
    assert set(batch.zero_stage.tolist()) == {0, 1, 2, 3}
    assert set(batch.swap_frac.tolist()) == {0.0, 0.3} and set(batch.offload_frac.tolist()) == {0.0, 0.5}
    assert set(batch.dp.tolist()) == {4, 8}
    assert all(layout.text == "even" for layout in batch.layouts)


def test_an_impossible_wish_is_an_empty_space_with_reasons() -> None:
    space = space_of(specs.LLAMA3_70B, 64, axes=Axes.of({"tp": 7}))
    assert not list(space) and space.counts.rejected and space.counts.enumerated == 0


def test_v_shaped_alone() -> None:
    batch = walked(space_of(specs.LLAMA3_8B, 8, "any", axes=Axes.of({"schedule": "zb-v", "pp": "2..8"})))
    assert set(batch.vpp.tolist()) == {2}


@pytest.mark.parametrize(
    "axes",
    [
        {"tp": "0"}, {"tp": "8..1"}, {"tp": "a"}, {"tp": ""}, {"gpus": 3}, {"recompute": "some"}, {"schedule": "fifo"},
        {"dispatcher": "pigeon"}, {"swap": "2"}, {"ep_overlap": "maybe"}, {"tp": "1..x"}, {"recompute": "selective(x)"},
    ],
)  # fmt: skip
def test_bad_axes_are_one_clear_line(axes: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        Axes.of(axes)
    assert "\n" not in str(caught.value)


def test_no_cards() -> None:
    with pytest.raises(InputError, match="--devices"):
        space_of(specs.LLAMA3_8B, 0)


@settings(max_examples=30, deadline=None)
@given(
    devices=st.integers(1, 96),
    batch=st.integers(1, 200),
    model=st.sampled_from((specs.LLAMA3_8B, specs.QWEN3_30B)),
    backend=st.sampled_from(sorted(BACKENDS)),
)
def test_any_number_of_cards_and_any_batch(devices: int, batch: int, model: ModelSpec, backend: str) -> None:
    """Odd device counts are accepted; what comes out uses all cards and the whole batch, and covers every layer."""
    hardware = specs.ASCEND if backend == "mindspeed" else specs.NVIDIA
    for chunk in space_of(model, devices, backend, batch=batch, hardware=hardware):
        assert (chunk.devices == devices).all()
        assert (devices % (chunk.etp * chunk.ep * chunk.pp) == 0).all() or model is specs.LLAMA3_8B
        assert (chunk.micro_batches(batch) * chunk.dp * chunk.micro_batch == batch).all()
        assert all(layout.layers_per_stage.sum() == model.num_layers for layout in chunk.layouts)

"""Rows become cases: stack, numbers, strategies; and what is left out is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.accuracy import compare, read_runs
from autodeploy.accuracy.cases import build_cases
from autodeploy.accuracy.recompute import parse_recompute
from autodeploy.accuracy.shapes import node_bandwidth_bytes_per_s
from autodeploy.accuracy.stack import attention_kernel
from autodeploy.errors import InputError
from cost_models.step import evaluate
from cost_models.strategies import DISPATCHERS, SCHEDULES, recompute_mask


@pytest.fixture(scope="module")
def by_id(cases):
    return {case.run.id: case for case in cases.cases}


@pytest.fixture(scope="module")
def of(cases):
    def find(**wanted):
        return next(c for c in cases.cases if all(getattr(c.run, name) == value for name, value in wanted.items()))

    return find


def test_every_row_is_a_case_or_says_why(run_set, cases):
    assert len(cases.cases) + len(cases.skipped) == len(run_set.runs)
    assert all(reason for reason in cases.skipped.values())
    gated = {run.id for run in run_set.runs if run.gated}
    assert not gated & set(cases.skipped), "complete rows must be predictable"


def test_mappings_fill_the_cards(cases):
    for case in cases.cases:
        batch = case.batch
        assert (batch.devices == case.run.num_devices).all(), case.run.id
        assert (batch.micro_batches(case.workload.global_batch) >= 1).all(), case.run.id
        for layout in batch.layouts:
            assert layout.layers_per_stage.sum() == case.model.num_layers, case.run.id
            assert layout.counts[:, -3].sum() == layout.counts[:, -1].sum() == 1
            assert layout.counts[:, -2].sum() == case.model.mtp_modules


def test_complete_rows_leave_nothing_to_choose(cases):
    assert all(len(case.points) == 1 for case in cases.cases if case.run.complete)


def test_korthikanti(by_id):
    case = by_id["korthikanti-175b-full"]
    stack = case.workload.stack
    assert case.workload.precision == "fp16" and case.workload.grad_bytes == 2
    assert (stack.attention_kernel, stack.dropout, stack.overlap_tp, stack.fused_dropout) == (
        "fused_softmax", True, False, True,
    )  # fmt: skip
    assert case.model.tied_embeddings and case.model.learned_positions == 2048 and case.model.norm_bias
    assert case.hardware.tiers[-1].bandwidth_bytes_per_s == pytest.approx(25e9)  # 8 x HDR-200 for 8 cards


def test_jean_zay_network_is_a_quarter_of_selene(of):
    case = of(group="bloom_bench")
    assert case.hardware.tiers[-1].bandwidth_bytes_per_s == pytest.approx(6.25e9)
    assert case.hardware.tiers[0].bandwidth_bytes_per_s > 100e9
    assert case.workload.stack.dropout and case.model.embedding_norm


def test_hagemann_kernels(of):
    expected = {
        "torch": ("unfused", False),
        "fused": ("fused_softmax", False),
        "flash_attentionv1.0.8": ("flash1", False),
        "flash_attention2": ("flash2", False),
        "flash_attention2 + RMS kernel": ("flash2", True),
    }
    for text, (kernel, fused_norm) in expected.items():
        stack = of(group="hagemann", attention_kernel=text).workload.stack
        assert (stack.attention_kernel, stack.fused_norm, stack.fused_rope) == (kernel, fused_norm, fused_norm)
        assert not stack.head_sharded_over_tp


def test_precisions(of):
    assert of(precision="fp8-cs").workload.precision == "fp8"
    assert of(precision="mxfp8").workload.precision == "mxfp8"
    assert of(group="dgxc", precision="bf16").workload.grad_bytes in (2.0, 4.0)


def test_routing(of):
    assert of(routing="forced-balance").workload.expert_imbalance == 1.0
    real = of(routing="real-dropless")
    assert real.workload.expert_imbalance == real.hardware.expert_imbalance


def test_dispatchers_and_schedules(of):
    deepep = of(moe_dispatcher="deepep")
    assert DISPATCHERS[deepep.points[0].dispatcher] == "hierarchical-dedup"
    assert SCHEDULES[of(schedule="zb-2p").points[0].schedule] == "zb-2p"
    assert SCHEDULES[of(group="vtrain_single", pp=1).points[0].schedule] == "none"


def test_open_keys_get_several_strategies_and_say_so(of):
    case = of(group="megatron_h100_2024")
    assert len(case.points) > 1
    assert any("micro-batch not stated" in note for note in case.assumed)


def test_memory_ranks_are_pipeline_ranks(by_id):
    assert by_id["ci-glm4-9b-8k-tp2-pp2-ptd"].memory_ranks == (0, 1)
    assert by_id["korthikanti-175b-full"].memory_ranks == ()


def test_vocabulary_as_built(cases):
    assert {case.model.vocab for case in cases.cases if "vocab_size_built" in case.run.extra} == {51200}


RECOMPUTE = [
    ("none", None, 0, 0),
    ("full", None, recompute_mask(("full",)), 0),
    ("full", "method=block num_layers=10", recompute_mask(("full",)), 10),
    ("full", "method=uniform num_layers=1", recompute_mask(("full",)), 0),
    ("selective", "core_attn", recompute_mask(("core_attn",)), 0),
    ("selective", "layernorm moe_act", recompute_mask(("layernorm", "moe_act")), 0),
    ("selective", "mla_up_proj mlp", recompute_mask(("mla_up_proj", "mlp")), 0),
    ("op", "recompute_activation_function=True recompute_norm=True", recompute_mask(("moe_act", "layernorm")), 0),
]


@pytest.mark.parametrize(("mode", "modules", "mask", "layers"), RECOMPUTE)
def test_recompute(run_set, mode, modules, mask, layers):
    run = replace(run_set.runs[0], recompute=mode, recompute_modules=modules, extra={}, fsdp=None)
    found = parse_recompute(run, 20)
    assert found is not None and (found.mask, found.layers) == (mask, layers)


def test_recompute_not_stated(run_set):
    assert parse_recompute(replace(run_set.runs[0], recompute=None), 20) is None


def test_unknown_kernel_is_refused():
    assert attention_kernel("") is None
    with pytest.raises(InputError, match="attention_kernel"):
        attention_kernel("by hand")


@pytest.mark.parametrize(
    ("extra", "network", "per_card"),
    [
        ({"network_gbps_per_node": 400}, "", 6.25e9),
        ({}, "RoCE 400 Gb/s per GPU, 3-tier Clos", 50e9),
        ({}, "NVLink 400 GB/s, 800 Gb/s RoCE per node", 12.5e9),
        ({}, "NVLink + IB", None),
    ],
)
def test_networks(run_set, extra, network, per_card):
    run = replace(run_set.runs[0], extra=extra, network=network, devices_per_node=8)
    assert node_bandwidth_bytes_per_s(run) == per_card


def test_no_prediction_knows_names(run_set, cases):
    """Ids, names of families and of models may be anything but for the release that ends a family: the cases stay the same."""
    sample = run_set.runs[::97]
    renamed = [
        replace(run, id=f"row-{i}", family="f/" + run.family.split("/")[-1], model=f"m-{run.model}", kind=run.kind)
        for i, run in enumerate(sample)
    ]
    models = {f"m-{name}": {**entry, "name": "anything"} for name, entry in run_set.models.items()}
    run_set = replace(run_set, models=models)
    again = build_cases(run_set, renamed)
    before = [case for case in cases.cases if case.run.id in {run.id for run in sample}]
    for old, new in zip(before, again.cases, strict=True):
        assert old.workload == new.workload and replace(old.model, name="anything") == new.model
        assert np.array_equal(old.batch.tp, new.batch.tp) and np.array_equal(old.batch.recompute, new.batch.recompute)


def test_the_run_that_everybody_knows() -> None:
    """DeepSeek-V3 on 2,048 H800 took 19.9 s a step in 80 GB. No constant was fitted to it: its stack says what it kept in
    8 bit, its schedule feeds both ends, its dispatcher is DeepEP's."""
    run_set = read_runs()
    run = next(run for run in run_set.runs if run.id == "deepseek-v3-h800-2048")
    result = compare(run_set, runs=[run], evaluate=evaluate).results[0]
    assert result.predicted_step_time_s == pytest.approx(run.step_time_s, rel=0.1)
    assert result.oom_predicted is False

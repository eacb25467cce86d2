"""Each rule has a strategy that breaks it and a neighbour that passes; a rule without an example fails here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.stacks import default_stack, load_stack
from autodeploy.strategy.backends import BACKENDS
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import RULES, check, launchable, require_valid, rule_of
from cost_models.inputs import Attention, FeedForward, HardwareProfile, LayerKind, ModelSpec, SoftwareStack, Workload
from cost_models.step.end import overlaps_grad_reduce
from cost_models.strategies import Layout, StrategyBatch
from tests.strategy import specs

RECURRENT = ModelSpec(
    name="recurrent", hidden=2048, vocab=32000,
    layers=((
        LayerKind(
            attention=Attention(
                kind="gated_delta", query_heads=16, kv_heads=16, head_dim=128, v_head_dim=128, value_heads=32, conv_kernel=4
            ),
            feed_forward=FeedForward(width=8192),
        ), 8,
    ),),
)  # fmt: skip
TIED = replace(specs.LLAMA3_8B, name="tied", tied_embeddings=True)
SLIDING = ModelSpec(
    name="sliding", hidden=2048, vocab=32000,
    layers=((
        LayerKind(
            attention=Attention(query_heads=16, kv_heads=16, head_dim=128, v_head_dim=128, window_tokens=1024),
            feed_forward=FeedForward(width=8192),
        ), 8,
    ),),
)  # fmt: skip
TWO_MTP = specs.moe_model("two-mtp", 4096, 32, specs.gqa(32, 8), 1536, 64, 8, 32000, mtp=2)
PANGU, LLAMA, QWEN = specs.PANGU_ULTRA_MOE, specs.LLAMA3_8B, specs.QWEN3_30B


@dataclass(frozen=True, kw_only=True)
class Example:
    """``breaks`` breaks the rule, ``passes`` passes all rules."""

    breaks: str
    passes: str
    model: ModelSpec = LLAMA
    backend: str = "megatron"
    global_batch: int = 64
    seq_length: int = 4096
    devices: int | None = None
    passes_on: str = ""  # another back end for ``passes``
    hardware: HardwareProfile = specs.NVIDIA


EXAMPLES: dict[str, Example] = {
    "world": Example(breaks="TP2/DP3", passes="TP2/DP4", devices=8),
    "ep-needs-experts": Example(breaks="EP2/DP4", passes="EP1/DP4"),
    "expert-world": Example(model=QWEN, breaks="PP2/EP8/DP4", passes="PP2/EP4/DP4"),
    "batch": Example(breaks="DP8/MBS3", passes="DP8/MBS4"),
    "heads": Example(model=specs.dense_model("52 heads", 6656, 48, 52, 52, 16384, 32000), breaks="TP8/DP1", passes="TP4/DP1"),
    "kv-groups": Example(
        model=specs.dense_model("2 groups", 4096, 32, 32, 2, 14336, 32000),
        backend="torchtitan", breaks="TP4/DP2/ZeRO3", passes="TP2/DP2/ZeRO3",
    ),
    "ffn-width": Example(model=specs.dense_model("odd", 4096, 32, 32, 32, 11004, 32000), breaks="TP8/DP1", passes="TP4/DP1"),
    "experts": Example(model=QWEN, breaks="EP3/DP3", passes="EP4/DP4", global_batch=48),
    "expert-width": Example(model=QWEN, breaks="ETP512/DP512", passes="ETP2/DP2", global_batch=512),
    "tp-in-node": Example(breaks="TP16/DP1", passes="TP8/DP1"),
    "sp-needs-tp": Example(breaks="TP1/SP/DP2", passes="TP1/DP2"),
    "moe-needs-sp": Example(model=QWEN, breaks="TP2/noSP/DP2", passes="TP2/DP2"),
    "sequence": Example(breaks="TP4/CP2/DP1", passes="TP4/CP2/DP1/noSP", seq_length=4100),
    "cp-recurrent": Example(model=RECURRENT, breaks="CP2/DP2", passes="CP2/DP2", passes_on="any"),
    "schedule-backend": Example(breaks="PP4/zb-h1/DP1", passes="PP4/1f1b/DP1"),
    "schedule-needs-pp": Example(breaks="PP2/none/DP1", passes="PP1/none/DP1"),
    "vpp-needs-pp": Example(breaks="PP1/VPP2/none/DP1", passes="PP2/VPP2/DP1"),
    "schedule-chunks": Example(breaks="PP2/VPP2/1f1b/DP1", passes="PP2/VPP1/1f1b/DP1"),
    "layout": Example(breaks="PP4/DP1", passes="PP4/DP1"),
    "layout-backend": Example(breaks="PP2/DP1/layout(noop:32,33)", passes="PP2/DP1/layout(even)"),
    "layer-list-vpp": Example(
        backend="mindspeed", breaks="PP2/VPP2/DP1/layout(7,8,9,8)", passes="PP4/DP1/layout(7,8,9,8)",
    ),
    "micro-batch-group": Example(breaks="PP4/VPP2/DP1", passes="PP4/VPP2/DP1/G5", global_batch=10),
    "dualpipe-shape": Example(backend="any", breaks="PP3/dualpipe/DP1", passes="PP4/dualpipe/DP1"),
    "dualpipev-micro-batches": Example(
        backend="mindspeed", breaks="PP4/VPP2/dualpipev/DP16", passes="PP4/VPP2/dualpipev/DP8",
    ),
    "dualpipev-layers": Example(
        backend="mindspeed", breaks="PP2/VPP2/dualpipev/DP1/layout(Et*7|t*8|t*9|t*8L)", passes="PP2/VPP2/dualpipev/DP1",
    ),
    "zero-backend": Example(backend="mindspeed", breaks="PP2/ZeRO3/DP2", passes="PP1/ZeRO3/DP2"),
    "recompute-full-alone": Example(breaks="DP1/full", passes="DP1/full"),
    "recompute-nested": Example(model=QWEN, breaks="DP1/selective(moe,moe_act)", passes="DP1/selective(moe)"),
    "recompute-mla": Example(breaks="DP1/selective(mla_up_proj)", passes="DP1/selective(layernorm)"),
    "recompute-moe": Example(breaks="DP1/selective(moe_act)", passes="DP1/selective(mlp)"),
    "recompute-mlp": Example(model=QWEN, breaks="DP1/selective(mlp)", passes="DP1/selective(moe)"),
    "recompute-layers": Example(backend="torchtitan", breaks="DP2/ZeRO3/full(2)", passes="DP2/ZeRO3/full"),
    "recompute-torchtitan": Example(
        backend="torchtitan", breaks="DP2/ZeRO3/selective(mlp)", passes="DP2/ZeRO3/selective(layernorm)",
    ),
    "swap-backend": Example(backend="torchtitan", breaks="DP2/ZeRO3/swap0.5", passes="DP2/ZeRO3"),
    "offload-backend": Example(backend="torchtitan", breaks="DP2/ZeRO3/offload0.5", passes="DP2/ZeRO3"),
    "dispatcher-backend": Example(
        model=QWEN, breaks="EP4/DP4/hierarchical-allgather", passes="EP4/DP4/hierarchical-dedup"
    ),
    "dispatcher-needs-ep": Example(model=QWEN, breaks="DP4/hierarchical-dedup", passes="EP4/DP4/hierarchical-dedup"),
    "offload-needs-zero": Example(breaks="DP2/ZeRO0/offload0.5", passes="DP2/offload0.5"),
    "dedup-hardware": Example(
        model=QWEN, breaks="EP4/DP4/hierarchical-dedup", passes="EP4/DP4", hardware=specs.ASCEND
    ),
    "hierarchical-tp-extend-ep": Example(
        model=PANGU, backend="mindspeed", breaks="TP1/EP32/DP64/hierarchical-allgather",
        passes="TP8/EP32/DP8/hierarchical-allgather",
    ),
    "adaptive-pipe-chunks": Example(
        model=QWEN, backend="any", breaks="PP4/EP4/DP4/adaptive-pipe", passes="PP4/VPP2/EP4/DP4/adaptive-pipe",
    ),
    "adaptive-pipe-overlap": Example(
        model=QWEN, backend="any", breaks="PP4/VPP2/EP4/DP4/adaptive-pipe/no-ep-overlap",
        passes="PP4/VPP2/EP4/DP4/adaptive-pipe",
    ),
    "overlap-needs-ep": Example(model=QWEN, breaks="PP4/VPP2/EP1/DP4/ep-overlap", passes="PP4/VPP2/EP4/DP4/ep-overlap"),
    "overlap-schedule": Example(model=QWEN, breaks="PP4/EP4/DP4/ep-overlap", passes="PP1/EP4/DP4/ep-overlap"),
    "torchtitan-overlap": Example(
        model=QWEN, backend="torchtitan", breaks="PP4/VPP2/EP4/DP4/ZeRO3/ep-overlap",
        passes="PP4/VPP2/EP4/DP4/ZeRO3/dualpipev/ep-overlap",
    ),
    "megatron-overlap-recompute": Example(
        model=QWEN, breaks="PP4/VPP2/EP4/DP4/ep-overlap/selective(moe)",
        passes="PP4/VPP2/EP4/DP4/ep-overlap/selective(moe_act)",
    ),
    "megatron-overlap-fsdp": Example(
        model=QWEN, breaks="PP4/VPP2/EP4/DP4/ZeRO3/ep-overlap", passes="PP1/EP4/DP4/ZeRO3/ep-overlap",
    ),
    "megatron-overlap-mtp": Example(
        model=TWO_MTP, breaks="PP4/VPP2/EP4/DP4/ep-overlap", passes="PP4/VPP2/EP4/DP4",
    ),
    "overlap-allgather": Example(
        model=QWEN, breaks="PP4/VPP2/EP4/DP4/ep-overlap/allgather", passes="PP4/VPP2/EP4/DP4/allgather",
    ),
    "fb-overlap-hierarchical": Example(
        model=PANGU, backend="mindspeed", breaks="TP8/PP2/VPP2/EP32/DP8/hierarchical-allgather/ep-overlap",
        passes="TP8/PP2/VPP2/EP32/DP8/ep-overlap",
    ),
    "fb-overlap-swap": Example(
        model=PANGU, backend="mindspeed", breaks="TP8/PP2/VPP2/EP32/DP8/swap1/ep-overlap",
        passes="TP8/PP2/VPP2/EP32/DP8/swap1",
    ),
    "fb-overlap-fsdp": Example(
        model=QWEN, backend="mindspeed", breaks="PP1/EP4/DP4/ZeRO3/ep-overlap", passes="PP1/EP4/DP4/ep-overlap",
    ),
    "fb-overlap-etp": Example(
        model=PANGU, backend="mindspeed", breaks="TP8/PP2/VPP2/EP8/ETP2/DP8/ep-overlap",
        passes="TP8/PP2/VPP2/EP8/DP8/ep-overlap",
    ),
    "fb-overlap-batch": Example(
        model=PANGU, backend="mindspeed", breaks="TP8/PP8/VPP2/EP32/DP8/ep-overlap",
        passes="TP8/PP4/VPP2/EP32/DP8/ep-overlap",
    ),
    "fb-overlap-noop": Example(
        model=specs.DEEPSEEK_V3, backend="mindspeed", global_batch=512,
        breaks="TP8/PP16/VPP2/EP32/DP4/ep-overlap/layout(noop:61,62,63)",
        passes="TP8/PP8/VPP2/EP32/DP8/ep-overlap/layout(noop:61,62,63)",
    ),
    "fb-overlap-empty-stage": Example(
        model=specs.DEEPSEEK_V3, backend="mindspeed", global_batch=512,
        breaks="TP8/PP16/VPP2/EP32/DP4/ep-overlap/layout(Ettt|(tt|)*29|mL)",
        passes="TP8/PP16/VPP2/EP32/DP4/ep-overlap/layout(Et|(tt|)*29t|tmL)",
    ),
    "dualpipev-cp": Example(
        backend="mindspeed", breaks="PP2/VPP2/dualpipev/CP2/DP1", passes="PP2/VPP2/dualpipev/DP1",
    ),
    "dualpipev-swap": Example(
        backend="mindspeed", breaks="PP2/VPP2/dualpipev/DP1/swap1", passes="PP2/VPP2/DP1/swap1",
    ),
    "dualpipev-tied": Example(
        model=TIED, backend="mindspeed", breaks="PP2/VPP2/dualpipev/DP1", passes="PP2/VPP2/DP1",
    ),
    "swap-whole": Example(backend="mindspeed", breaks="DP2/swap0.5", passes="DP2/swap1"),
    "offload-whole": Example(backend="mindspeed", breaks="DP2/offload0.5", passes="DP2/offload1"),
    "cp-sliding-window": Example(model=SLIDING, backend="mindspeed", breaks="CP2/DP2", passes="CP2/DP2", passes_on="megatron"),
    "torchtitan-overlap-recompute": Example(
        model=QWEN, backend="torchtitan", breaks="PP4/VPP2/EP4/DP4/ZeRO3/dualpipev/ep-overlap/full",
        passes="PP4/VPP2/EP4/DP4/ZeRO3/dualpipev/ep-overlap",
    ),
    "torchtitan-etp": Example(
        model=QWEN, backend="torchtitan", breaks="TP2/EP4/ETP2/DP8/ZeRO3", passes="TP2/EP4/DP8/ZeRO3",
    ),
    "torchtitan-tied": Example(model=TIED, backend="torchtitan", breaks="PP2/DP2/ZeRO2", passes="PP1/DP2/ZeRO2"),
    "torchtitan-mtp": Example(
        model=specs.DEEPSEEK_V3, backend="torchtitan", breaks="PP4/EP8/DP8/ZeRO2", passes="EP8/DP8/ZeRO3",
    ),
    "torchtitan-micro-batches": Example(
        backend="torchtitan", breaks="PP4/DP1/ZeRO2", passes="PP2/DP1/ZeRO2", global_batch=3,
    ),
    "torchtitan-rounds": Example(
        backend="torchtitan", breaks="PP4/VPP2/DP1/ZeRO2/G4", passes="PP4/VPP2/DP1/ZeRO2/G5", global_batch=10,
    ),
}  # fmt: skip


def batch_of(example: Example, text: str, backend: str) -> StrategyBatch:
    return strategy_to_batch(parse_strategy(text), example.model, backend=backend)


def breaking_batch(name: str) -> StrategyBatch:
    """From the notation, but for what the notation itself refuses to write."""
    example = EXAMPLES[name]
    batch = batch_of(example, example.breaks, example.backend)
    if name == "layout":
        layout = batch.layouts[0]
        counts = layout.counts.copy()
        counts[1, 0] -= 1
        return _replace(batch, layouts=(Layout(pp=layout.pp, vpp=layout.vpp, counts=counts),))
    if name == "recompute-full-alone":
        return _replace(batch, recompute=batch.recompute | 1)
    return batch


def _replace(batch: StrategyBatch, **changes: object) -> StrategyBatch:
    return replace(batch, **changes)  # type: ignore[arg-type]


def codes_of(example: Example, batch: StrategyBatch, backend: str) -> np.ndarray:
    workload = Workload(seq_length=example.seq_length, global_batch=example.global_batch)
    return check(example.model, example.hardware, workload, batch, backend, devices=example.devices, soft=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_a_failing_example_and_a_passing_neighbour(rule) -> None:  # type: ignore[no-untyped-def]
    assert rule.name in EXAMPLES, f"add an example of rule {rule.name}"
    example = EXAMPLES[rule.name]
    codes = codes_of(example, breaking_batch(rule.name), example.backend)
    broken = rule_of(int(codes[0]))
    assert broken is not None and broken.name == rule.name
    backend = example.passes_on or example.backend
    codes = codes_of(example, batch_of(example, example.passes, backend), backend)
    passed = rule_of(int(codes[0]))
    assert passed is None, passed


def test_rules_are_named_once_and_say_what_to_do() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names) and set(EXAMPLES) == set(names)
    for rule in RULES:
        assert rule.text and rule.remedy and set(rule.backends) <= set(BACKENDS)


def test_a_batch_is_checked_at_once() -> None:
    """The same codes as one by one."""
    texts = ["TP2/DP4", "TP16/DP1", "TP1/SP/DP8", "TP2/CP2/DP2", "TP8/DP1/selective(moe)"]
    batches = [strategy_to_batch(parse_strategy(text), LLAMA) for text in texts]
    workload = Workload(seq_length=4096, global_batch=64)
    together = check(LLAMA, specs.NVIDIA, workload, StrategyBatch.concatenate(batches), "megatron", soft=True)
    alone = [check(LLAMA, specs.NVIDIA, workload, batch, "megatron", soft=True)[0] for batch in batches]
    assert together.tolist() == alone and len(set(alone)) == 4


def test_bad_input_names_strategy_rule_and_remedy() -> None:
    batch = strategy_to_batch(parse_strategy("TP8/PP1/DP1/MBS3"), LLAMA)
    with pytest.raises(InputError, match=r"MBS3.*rule batch: MBS x DP must divide.*change the global batch"):
        require_valid(LLAMA, specs.NVIDIA, Workload(seq_length=4096, global_batch=64), batch, "megatron")


def test_prescriptions_are_marked_with_the_reason() -> None:
    workload = Workload(seq_length=8192, global_batch=4608)
    texts = [
        "TP8/PP16/VPP2/EP32",
        "TP8/PP16/VPP2/EP32/adaptive-pipe",
        "TP8/PP16/VPP2/EP32/hierarchical-allgather/ep-overlap",
    ]
    batches = [strategy_to_batch(parse_strategy(text), PANGU, 6144, "mindspeed") for text in texts]
    batch = StrategyBatch.concatenate(batches)
    assert not check(PANGU, specs.ASCEND, workload, batch, "any", devices=6144).any()
    runs, reasons = launchable(PANGU, specs.ASCEND, workload, batch, "any")
    assert runs.tolist() == [True, False, False]
    assert reasons[0] == "" and "schedule" in reasons[1] and "fb-overlap excludes" in reasons[2]
    runs, _ = launchable(PANGU, specs.ASCEND, workload, batch, "mindspeed")
    assert runs.tolist() == [True, False, False]


def test_unknown_back_end() -> None:
    with pytest.raises(InputError, match="mindspeed"):
        strategy_to_batch(parse_strategy("TP8"), LLAMA, 8, "deepspeed")


@pytest.mark.parametrize(
    ("micro_batches", "group"), [(10, 5), (3, 3), (8, 0), (9, None), (11, None), (13, None), (12, 0)]
)
def test_torchtitan_derives_the_group_of_interleaved_from_the_batch(micro_batches: int, group: int | None) -> None:
    """PP4: rounds = max(1, m // 4), a group of m // rounds; an uneven division is refused, whatever G says."""
    strategy = parse_strategy("PP4/VPP2/DP1", "torchtitan")
    batch = strategy_to_batch(strategy, LLAMA, backend="torchtitan", global_batch=micro_batches)
    workload = Workload(seq_length=4096, global_batch=micro_batches)
    code = check(LLAMA, specs.NVIDIA, workload, batch, "torchtitan")[0]
    if group is None:
        broken = rule_of(int(code))
        assert broken is not None and broken.name == "torchtitan-rounds"
    else:
        assert code == 0 and batch.micro_batch_group[0] == group


def test_what_is_unsaid_follows_the_back_end() -> None:
    assert parse_strategy("TP2/DP4", "torchtitan").zero_stage == 3
    assert parse_strategy("TP2/PP2/DP4", "torchtitan").zero_stage == 2
    assert parse_strategy("TP2/PP2/ZeRO3", "torchtitan").zero_stage == 3
    assert parse_strategy("TP2/PP2/DP4", "mindspeed").zero_stage == parse_strategy("TP2/PP2/DP4").zero_stage == 1


@pytest.mark.parametrize("model", [specs.DEEPSEEK_V3, PANGU, QWEN, specs.QWEN3_235B], ids=lambda model: model.name)
def test_no_default_of_ours_is_refused(model: ModelSpec) -> None:
    """Whatever MindSpeed may say of layouts, overlap and schedules: what the notation leaves out is launchable."""
    workload = Workload(seq_length=4096, global_batch=4096)
    for pp, vpp, options in product((4, 8, 16), (2, 3, 4), ("", "/ep-overlap", "/dualpipev", "/dualpipev/ep-overlap")):
        if "dualpipev" in options and vpp != 2:
            continue
        strategy = parse_strategy(f"TP2/PP{pp}/VPP{vpp}/EP8/DP8{options}")
        try:
            batch = strategy_to_batch(strategy, model, backend="mindspeed")
        except InputError:
            continue  # more stages than layers
        broken = rule_of(int(check(model, specs.ASCEND, workload, batch, "mindspeed")[0]))
        assert broken is None, (str(strategy), broken)


def test_mindspeed_reduces_gradients_after_the_backward_under_overlap_and_dualpipev() -> None:
    texts = ["TP8/PP4/VPP2/EP32", "TP8/PP4/VPP2/EP32/ep-overlap", "TP8/PP4/VPP2/EP32/dualpipev"]
    batches = [strategy_to_batch(parse_strategy(text), PANGU, 2048, "mindspeed") for text in texts]
    batch = StrategyBatch.concatenate(batches)
    excludes = load_stack(default_stack("mindspeed", "mindspeed")).base["serial_grad_reduce_under_ep_overlap"].value
    mindspeed = SoftwareStack(serial_grad_reduce_under_ep_overlap=excludes)
    assert overlaps_grad_reduce(batch, mindspeed).tolist() == [True, False, False]
    assert overlaps_grad_reduce(batch, SoftwareStack()).all()
    assert not overlaps_grad_reduce(batch, SoftwareStack(overlap_grad_reduce=False)).any()

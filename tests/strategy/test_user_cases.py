"""What users of such tools ran into, by the number of the case in our list of cases."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.backends import backend_named
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.core import stage_cuts
from autodeploy.strategy.layout import default_layout, layouts_for
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.prune import valid_groups
from autodeploy.strategy.rules import check, rule_of
from autodeploy.strategy.rules_world import sequence_factor
from cost_models.inputs import ModelSpec, Workload
from tests.strategy import specs


def broken(
    text: str, model: ModelSpec, devices: int, backend: str = "megatron", batch: int = 64, seq: int = 4096
) -> str:
    """Name of the rule that a strategy breaks on so many cards; "" for none."""
    one = strategy_to_batch(parse_strategy(text), model, devices, backend)
    workload = Workload(seq_length=seq, global_batch=batch)
    rule = rule_of(int(check(model, specs.NVIDIA, workload, one, backend, devices=devices)[0]))
    return rule.name if rule else ""


def test_case_16_tp8_pp2_on_8_cards() -> None:
    with pytest.raises(InputError, match="8 x 1 x 2 = 16"):
        broken("TP8/PP2", specs.LLAMA3_70B, 8)
    assert broken("TP8/PP2", specs.LLAMA3_70B, 16) == ""


@pytest.mark.parametrize(
    ("model", "pp", "vpp"),
    [
        (specs.LLAMA3_70B, 16, 2),  # case 37: 80 layers, trained 64
        (specs.dense_model("40 layers", 5120, 40, 40, 40, 13824, 32000), 8, 2),  # cases 38 and 40
        (specs.dense_model("30 layers", 4096, 30, 32, 32, 11008, 32000), 4, 1),  # case 39: built 28
        (specs.QWEN3_30B, 2, 1),  # case 41: 48 layers, 24 left out
        (specs.DEEPSEEK_V3, 16, 1),  # case 44
    ],
)
@pytest.mark.parametrize("backend", ["megatron", "mindspeed", "megatron-bridge", "torchtitan", "any"])
def test_cases_37_to_44_no_layer_is_lost(model: ModelSpec, pp: int, vpp: int, backend: str) -> None:
    layouts = layouts_for(model, pp, vpp, backend)
    assert layouts and all(layout.layers_per_stage.sum() == model.num_layers for layout in layouts)
    assert max(default_layout(model, pp, vpp, backend).layers_per_stage) <= -(-model.num_layers // (pp * vpp)) + 1


def test_case_43_vpp_of_48_layers_over_pp8() -> None:
    model = specs.moe_model("48 layers", 3072, 48, specs.gqa(32, 2), 1024, 256, 8, 248320)
    free = [vpp for vpp, _ in stage_cuts(model, 8, backend_named("mindspeed"), Axes(), Counter())]
    assert free == [1, 2, 3, 6]


def test_case_50_kv_groups() -> None:
    model = specs.dense_model("2 groups", 4096, 32, 32, 2, 14336, 32000)
    assert broken("TP8", model, 8) == ""
    assert broken("TP8/ZeRO3", model, 8, "torchtitan") == "kv-groups"
    three = specs.dense_model("6 groups", 3072, 32, 24, 6, 8192, 32000)
    assert broken("TP4", three, 4) == "kv-groups"
    assert broken("TP8", specs.DEEPSEEK_V3, 8) == ""  # MLA is exempt


def test_case_51_52_heads() -> None:
    assert broken("TP8", specs.dense_model("52 heads", 6656, 48, 52, 52, 16384, 32000), 8) == "heads"
    assert broken("TP3", specs.LLAMA3_70B, 3, batch=3) == "heads"


def test_case_54_etp1_ep8_pp2_on_8_cards() -> None:
    assert broken("PP2/EP8", specs.QWEN3_30B, 8) == "expert-world"
    assert broken("PP2/EP4", specs.QWEN3_30B, 8) == ""


def test_case_55_tp4_and_ep4_fold_on_4_cards() -> None:
    assert broken("TP4/PP1/EP4", specs.QWEN3_30B, 4) == ""


def test_case_56_the_commonest_errors_have_a_name_each() -> None:
    found = [
        broken("TP1/SP", specs.LLAMA3_8B, 8), broken("EP8", specs.LLAMA3_8B, 8), broken("MBS3", specs.LLAMA3_8B, 8),
        broken("TP32", specs.LLAMA3_8B, 32), broken("TP64", specs.LLAMA3_8B, 64), broken("EP96", specs.QWEN3_30B, 96, batch=96),
    ]  # fmt: skip
    assert found == ["sp-needs-tp", "ep-needs-experts", "batch", "", "heads", "experts"]


def test_case_57_moe_with_tp_has_sequence_parallel() -> None:
    assert parse_strategy("TP4/EP4").sequence_parallel
    assert broken("TP4/EP4/noSP", specs.QWEN3_30B, 4) == "moe-needs-sp"


def test_case_60_ten_micro_batches_over_pp4() -> None:
    assert valid_groups(10, 4)[0] == 5
    assert broken("PP4/VPP2", specs.LLAMA3_8B, 4, batch=10) == "micro-batch-group"
    assert broken("PP4/VPP2/G5", specs.LLAMA3_8B, 4, batch=10) == ""
    assert broken("PP4/VPP2", specs.LLAMA3_8B, 4, batch=12) == ""
    assert broken("PP4/VPP2/G13", specs.LLAMA3_8B, 4, batch=12) == "micro-batch-group"


@pytest.mark.parametrize(("cp", "tp", "factor"), [(2, 4, 8), (2, 1, 4), (1, 4, 4), (1, 1, 1), (4, 2, 8), (2, 3, 12)])
def test_case_62_sequence_factor(cp: int, tp: int, factor: int) -> None:
    found = sequence_factor(np.array([cp]), np.array([tp]), np.array([tp > 1]))
    assert found.tolist() == [factor]


def test_case_100_tp1_with_ep8() -> None:
    assert broken("TP1/EP8", specs.QWEN3_30B, 8) == ""

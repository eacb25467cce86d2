"""Configurations that MindSpeed-LLM's authors recommend (tests/poc of MindSpeed-LLM) are valid on mindspeed."""

from __future__ import annotations

import pytest

from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import check, rule_of
from cost_models.inputs import ModelSpec, Workload
from tests.strategy import specs

DSV3 = specs.DEEPSEEK_V3
DEEPSEEK_60B = specs.moe_model(
    "deepseek-60b", 5120, 8, specs.mla(), 1536, 160, 6, 102400, dense_layers=1, dense_width=12288
)
GLM5 = specs.moe_model("glm-5", 6144, 78, specs.mla(64), 2048, 256, 8, 154880, dense_layers=3, dense_width=12288, mtp=1)
STYLE_500B = specs.moe_model("deepseek-500b-style", 4096, 64, specs.gqa(32, 8), 1536, 160, 5, 102400)
GPT_2T = specs.moe_model("gpt-moe-2t", 12288, 12, specs.gqa(96, 96), 49152, 16, 2, 50304)
MINIMAX = specs.moe_model("minimax-m2.7", 3072, 62, specs.gqa(48, 8), 1536, 256, 8, 200064)
HUNYUAN3 = specs.moe_model("hunyuan3-299b", 4096, 80, specs.gqa(64, 8), 1536, 192, 8, 128167)
KIMI = specs.moe_model(
    "kimi-k2", 7168, 61, specs.mla(64), 2048, 384, 8, 163840, dense_layers=1, dense_width=18432, shared=2048
)

CONFIGS = [
    (DSV3, 512, 7680, 4096, "TP4/PP8/VPP2/EP32/dualpipev/ep-overlap/offload1/selective(moe_act)/layout(noop:61,62,63)"),
    (DSV3, 512, 7680, 4096, "TP2/PP4/VPP2/EP128/dualpipev/ep-overlap/full/offload1"),
    (DSV3, 512, 4096, 4096, "TP2/PP4/VPP2/EP128/dualpipev/ep-overlap/selective(moe_act)"),
    (DSV3, 512, 7680, 4096, "TP1/PP8/VPP4/EP64/ep-overlap/full/offload1"),
    (DEEPSEEK_60B, 128, 512, 4096, "TP2/PP2/VPP2/EP32"),
    (GLM5, 512, 2048, 4096, "TP2/PP8/VPP5/EP64/ep-overlap/full"),
    (specs.QWEN3_235B, 256, 1024, 4096, "TP1/PP8/VPP2/EP8/full(4)"),
    (specs.QWEN3_235B, 256, 1024, 4096, "TP2/PP4/VPP3/EP32"),
    (STYLE_500B, 256, 256, 8192, "TP1/PP16/VPP4/EP8/CP2"),
    (STYLE_500B, 256, 256, 8192, "TP1/PP8/VPP8/EP32/swap1"),
    (GPT_2T, 256, 128, 8192, "TP8/PP2/VPP6/EP8/swap1"),
    (specs.LLAMA31_405B, 256, 128, 8192, "TP8/PP16/VPP8/CP2/selective(mlp)/swap1"),
    (specs.QWEN3_30B, 16, 256, 4096, "TP1/PP2/EP8/offload1"),
    (specs.QWEN3_30B, 16, 256, 4096, "TP1/PP1/EP16/offload1"),
    (MINIMAX, 128, 2048, 8192, "TP1/PP2/VPP4/EP64/full"),
    (HUNYUAN3, 128, 1024, 4096, "TP1/PP4/VPP4/EP32/ep-overlap/full(4)/offload1"),
    (KIMI, 512, 4096, 4096, "TP2/PP8/EP64/full(4)/layout(noop:31,47,63)"),
    (KIMI, 768, 7680, 4096, "TP2/PP8/VPP2/EP96/dualpipev/ep-overlap/offload1/selective(moe_act)"),
    (KIMI, 1024, 8192, 4096, "TP2/PP8/VPP2/EP64/dualpipev/ep-overlap/offload1/selective(moe_act)"),
    (specs.PANGU_ULTRA_MOE, 6144, 4608, 8192, "TP8/PP16/VPP2/EP32/MBS2/selective(mla_up_proj,layernorm,moe)"),
    (specs.PANGU_ULTRA_MOE, 6144, 4608, 8192, "TP8/PP16/VPP2/EP32/MBS2/hierarchical-allgather"),
    (specs.PANGU_ULTRA, 8192, 2048, 4096, "TP8/PP8/VPP6"),
    (specs.PANGU_PRO, 4000, 4000, 4096, "TP8/PP5/VPP5/EP16/hierarchical-allgather"),
]


@pytest.mark.parametrize(("model", "devices", "batch", "seq", "text"), CONFIGS)
def test_an_expert_configuration_is_valid(model: ModelSpec, devices: int, batch: int, seq: int, text: str) -> None:
    one = strategy_to_batch(parse_strategy(text), model, devices, "mindspeed")
    workload = Workload(seq_length=seq, global_batch=batch)
    rule = rule_of(int(check(model, specs.ASCEND, workload, one, "mindspeed", devices=devices, soft=True)[0]))
    assert rule is None, rule

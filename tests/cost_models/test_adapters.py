"""LoRA: parameters by hand, and what training adapters alone must cost against training everything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.one_strategy import price_one
from autodeploy.stacks import Program, load_stack, settle
from cost_models.adapters import adapter_parameters


def test_parameters_by_hand():
    """Llama-3 8B: hidden 4096, 32 heads and 8 KV heads of 128, FFN 14336, 32 layers; fused QKV and fused gate-up."""
    h, f = 4096, 14336
    layer = (h + 6144) + (h + h) + (h + 2 * f) + (f + h)
    assert adapter_parameters(load_model("llama-3-8b"), 16) == pytest.approx(32 * 16 * layer)


def test_experts_have_adapters_each():
    model = load_model("qwen3-30b-a3b")
    dense = adapter_parameters(load_model("llama-3-8b"), 8)
    assert adapter_parameters(model, 8) > 5 * dense, "128 experts a layer, each with its own"


def price(rank: int, text: str = "TP2/PP2", model: str = "llama-3-8b") -> tuple[float, float, float]:
    case = settle(
        Program(stack=load_stack("megatron-core-2026"), chosen={"lora_rank": rank}), load_model(model),
        load_hardware("h100-sxm"), seq_length=4096, global_batch=64, precision="bf16",
    )  # fmt: skip
    batch, cost = price_one(text, case, 16, "megatron")
    return float(cost.step_s[0]), float(cost.peak_allocated_bytes[0]), float(cost.time_s["optimizer"][0])


@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
def test_adapters_save_the_weight_gradient_and_the_optimizer_state(model):
    text = "TP2/PP2" if model == "llama-3-8b" else "TP1/PP2/EP8"
    everything, adapters = price(0, text, model), price(16, text, model)
    # forward and input gradient of the products stay: two thirds of their time, and all of the attention's; grouped products
    # of rank 16 are launches and memory, which eat up what small experts save
    assert 0.6 < adapters[0] / everything[0] < (0.9 if model == "llama-3-8b" else 1.1)
    assert adapters[1] < everything[1] and adapters[2] < 0.5 * everything[2]


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 6))
def test_a_larger_rank_is_never_cheaper(power):
    smaller, larger = price(2 ** (power - 1)), price(2**power)
    assert larger[0] >= smaller[0] and larger[1] >= smaller[1]

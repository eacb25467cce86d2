"""What a precision recipe, a pipeline and a program keep on the card, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.case import Case
from cost_models.imbalance import rank_imbalance
from cost_models.inputs import SoftwareStack
from cost_models.layer_price import price_layers
from cost_models.step import evaluate
from cost_models.step.memory import static_bytes
from tests.cost_models.helpers import core, gpt, machine, strategy, workload

MODEL = gpt()
COUNT, NONE = np.array([[1e9]]), np.zeros((1, 1))


def test_cached_copies_last_from_the_first_micro_batch_to_the_next() -> None:
    """NVFP4 keeps 2 B and two copies of 9/16 B: 3.125 B a weight; with one micro-batch no copy is kept."""
    batch = strategy(MODEL, dp=8, micro_batch=1)
    nvfp4 = {"cached_weight_bytes": 2 * (0.5 + 1 / 16), "precision": "nvfp4"}
    many = static_bytes(COUNT, NONE, batch, workload(global_batch=64, **nvfp4))["weights"]
    one = static_bytes(COUNT, NONE, batch, workload(global_batch=8, **nvfp4))["weights"]
    assert many[0, 0] == pytest.approx(3.125e9) and one[0, 0] == pytest.approx(2e9)


def test_fsdp_in_a_pipeline_keeps_weights_and_gradients_whole() -> None:
    load = workload(stack=SoftwareStack(fsdp=True, fsdp_whole_under_pp=True))
    flat = static_bytes(COUNT, NONE, strategy(MODEL, dp=8, zero_stage=3), load)
    piped = static_bytes(COUNT, NONE, strategy(MODEL, dp=8, pp=2, zero_stage=3), load)
    assert flat["weights"][0, 0] == pytest.approx(2e9 / 8) and flat["gradients"][0, 0] == pytest.approx(4e9 / 8)
    assert piped["weights"][0, 0] == pytest.approx(2e9) and piped["gradients"][0, 0] == pytest.approx(4e9)
    assert piped["optimizer"][0, 0] == pytest.approx(12e9 / 8)


def test_deepspeed_keeps_16_bit_gradients_beside_fp32_ones() -> None:
    load = workload(stack=SoftwareStack(narrow_gradients_kept=True))
    assert static_bytes(COUNT, NONE, strategy(MODEL), load)["gradients"][0, 0] == pytest.approx(6e9)
    narrow = workload(stack=SoftwareStack(narrow_gradients_kept=True), grad_bytes=2.0)
    assert static_bytes(COUNT, NONE, strategy(MODEL), narrow)["gradients"][0, 0] == pytest.approx(2e9)


def test_inputs_of_products_are_kept_in_the_recipe() -> None:
    """A GPT layer of 1024 tokens, h 1024: norm outputs 2 x 2 h and activation 8 h in 16 bit become half of it in fp8, the
    attention's output keeps its 2 h and gets 1 h: 12 h - 6 h + 1 h = 5 h x 1024 less."""
    plain = workload(stack=SoftwareStack(transformer_engine=True))

    def saved(**changes: object) -> float:
        load = workload(stack=plain.stack, **changes)
        axes = core(MODEL, load)
        case = Case(model=MODEL, hardware=machine(), workload=load)
        return float(price_layers(case, axes, (0,)).saved_bytes[0, 0, 0])

    assert saved() - saved(precision="fp8") == pytest.approx(5 * 1024 * 1024)
    bare = workload(precision="fp8", stack=SoftwareStack())
    case = Case(model=MODEL, hardware=machine(), workload=bare)
    assert float(price_layers(case, core(MODEL, bare), (0,)).saved_bytes[0, 0, 0]) == pytest.approx(saved())


def test_a_capacity_caps_what_overloaded_experts_get() -> None:
    """Dropping above 1.2 of the mean leaves a load of 1.5 at 1.2 and one of 1.1 alone; padding works on all of it."""
    ep = np.array([8.0])
    stack = SoftwareStack(moe_capacity_factor=1.2)
    assert rank_imbalance(workload(expert_imbalance=1.5, stack=stack), 64, ep)[0] == pytest.approx(1.2)
    assert rank_imbalance(workload(expert_imbalance=1.1, stack=stack), 64, ep)[0] == pytest.approx(1.1)
    padded = SoftwareStack(moe_capacity_factor=1.2, forced_balance=True)
    assert rank_imbalance(workload(stack=padded), 64, ep)[0] == pytest.approx(1.2)


def test_swap_of_whole_layers_moves_all_that_they_save() -> None:
    batch = strategy(MODEL, swap_frac=1.0)

    def peak(whole: bool) -> float:
        load = workload(stack=SoftwareStack(swap_whole_layers=whole))
        cost = evaluate(Case(model=MODEL, hardware=machine(), workload=load), batch)
        return float(cost.memory_bytes["activations"][0])

    assert peak(True) < 0.6 * peak(False)

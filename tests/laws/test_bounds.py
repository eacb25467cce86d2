"""The law of bounds: memory is that of the price, and no step is shorter than its bound; whatever stands beside."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.space import enumerate_space
from cost_models.case import Case
from cost_models.inputs import Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step import bounds, evaluate, price
from cost_models.strategies import RECOMPUTE_BIT, Ladder, StrategyBatch

FULL, MOE, NORM = RECOMPUTE_BIT["full"], RECOMPUTE_BIT["moe"], RECOMPUTE_BIT["layernorm"]
LADDER = Ladder(
    recompute=np.array([0, NORM, MOE | NORM, FULL, FULL, 0, 0, NORM]),
    recompute_layers=np.array([0, 0, 0, 1, 0, 0, 0, 0]),
    swap_frac=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.5]),
    offload_frac=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.25]),
)
SINGLE = tuple(name for name, schedule in SCHEDULE_TABLE.items() if name != "none")
CASES = (
    ("pangu-ultra-moe-718b", "atlas-800t-a2", 1024, 1536, "mindspeed", Axes()),
    ("deepseek-v3", "h800", 2048, 15360, "megatron", Axes()),
    ("mixtral-8x7b", "h100-sxm", 64, 256, "torchtitan", Axes()),
    ("qwen3-30b-a3b", "h100-sxm", 32, 512, "any", Axes(schedule=SINGLE)),
    ("llama-3.2-1b", "h100-sxm", 16, 64, "any", Axes(schedule=SINGLE)),
    ("llama-3.1-70b", "a100-80g-sxm", 64, 96, "torchtitan", Axes(zero=(2, 3))),
)


def some(case: Case, devices: int, backend: str, axes: Axes, count: int = 400) -> StrategyBatch:
    parts = list(enumerate_space(case.model, case.hardware, case.workload, devices, backend, axes))
    every = StrategyBatch.concatenate(parts)
    return every.take(np.random.default_rng(devices).choice(len(every), min(count, len(every)), replace=False))


@pytest.mark.parametrize(("model", "machine", "devices", "global_batch", "backend", "axes"), CASES)
def test_memory_is_the_prices_and_no_step_is_shorter(
    model: str, machine: str, devices: int, global_batch: int, backend: str, axes: Axes
) -> None:
    hardware = load_hardware(machine)
    workload = Workload(seq_length=4096, global_batch=global_batch, stack=hardware.stack)
    case = Case(model=load_model(model), hardware=hardware, workload=workload)
    bases = some(case, devices, backend, axes)
    found, priced = bounds(case, bases, LADDER), price(case, LADDER.expand(bases))
    assert found.peak_reserved_bytes.reshape(-1) == pytest.approx(priced.peak_reserved_bytes, rel=1e-12)
    ratio = found.least_step_s.reshape(-1) / priced.step_s
    assert ratio.max() <= 1 + 1e-12 and np.median(ratio) > 0.9
    own = Ladder(
        recompute=bases.recompute[:, None], recompute_layers=bases.recompute_layers[:, None],
        swap_frac=bases.swap_frac[:, None], offload_frac=bases.offload_frac[:, None],
    )  # fmt: skip
    cost, alone = evaluate(case, bases), bounds(case, bases, own)
    assert alone.peak_reserved_bytes[:, 0] == pytest.approx(cost.peak_reserved_bytes, rel=1e-12)
    assert (alone.least_step_s[:, 0] <= cost.step_s * (1 + 1e-12)).all()
    one = bounds(case, bases.take(np.array([7])), LADDER)
    assert one.least_step_s[0] == pytest.approx(found.least_step_s[7], rel=1e-12)


def test_a_price_without_causes_is_the_price() -> None:
    case = Case(
        model=load_model("mixtral-8x7b"), hardware=load_hardware("h100-sxm"),
        workload=Workload(seq_length=4096, global_batch=256),
    )  # fmt: skip
    batch = LADDER.expand(some(case, 64, "megatron", Axes(), 100))
    cost, lean, each = evaluate(case, batch), price(case, batch), evaluate(case, batch, per_rank=True)
    assert lean.step_s == pytest.approx(cost.step_s, rel=1e-12) and (lean.feasible == cost.feasible).all()
    assert lean.peak_reserved_bytes == pytest.approx(cost.peak_reserved_bytes, rel=1e-12)
    assert (each.memory_rank == cost.memory_rank).all() and (each.critical_rank == cost.critical_rank).all()
    assert each.rank_memory_bytes is not None and each.rank_busy_s is not None
    by_rank = sum(each.rank_memory_bytes.values())
    assert by_rank.max(axis=1) == pytest.approx(cost.peak_reserved_bytes, rel=1e-12)


def test_of_no_strategy_there_is_nothing_to_say() -> None:
    case = Case(
        model=load_model("llama-3.2-1b"), hardware=load_hardware("h100-sxm"),
        workload=Workload(seq_length=4096, global_batch=64),
    )  # fmt: skip
    none = some(case, 16, "megatron", Axes(), 3).take(np.zeros(0, dtype=np.int64))
    assert len(evaluate(case, none).step_s) == len(price(case, none).step_s) == 0
    assert bounds(case, none, LADDER).least_step_s.shape == (0, len(LADDER))


def test_what_does_not_fit_is_not_timed_and_the_rest_is_as_ever() -> None:
    case = Case(
        model=load_model("mixtral-8x7b"), hardware=load_hardware("h100-sxm"),
        workload=Workload(seq_length=4096, global_batch=256),
    )  # fmt: skip
    bases = some(case, 64, "megatron", Axes(), 300)
    every, most_bytes = bounds(case, bases, LADDER), case.hardware.usable_bytes
    few = bounds(case, bases, LADDER, most_bytes)
    fit = every.peak_reserved_bytes <= most_bytes
    assert 0.1 < fit.mean() < 0.9 and (few.peak_reserved_bytes == every.peak_reserved_bytes).all()
    assert few.least_step_s[fit] == pytest.approx(every.least_step_s[fit], rel=1e-12)
    assert (few.least_step_s <= every.least_step_s * (1 + 1e-12)).all()

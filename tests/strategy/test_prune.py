"""What the statements prune is no better in time and in memory when it is priced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.hardware.load import load_hardware
from autodeploy.strategy.backends import backend_named
from autodeploy.strategy.prune import DEVIATIONS, DOMINATED, static_floor_bytes
from autodeploy.strategy.rule import Proposal
from autodeploy.strategy.space import enumerate_space
from cost_models.case import Case
from cost_models.inputs import ModelSpec, Workload
from cost_models.step import evaluate
from cost_models.strategies import DISPATCHER_CODE, StrategyBatch
from tests.strategy import specs

CASES = [
    (specs.PANGU_ULTRA_MOE, "atlas-800t-a2", 1024, 1536, "mindspeed"),
    (specs.QWEN3_30B, "h100-sxm", 32, 256, "any"),
    (specs.LLAMA3_8B, "a100-80g-sxm", 16, 64, "megatron"),
]
TOLERANCE = 1 + 1e-9


def sampled(model: ModelSpec, hardware: str, devices: int, batch: int, backend: str) -> Proposal:
    """Some two thousand strategies of the space, the oversized ones included."""
    profile = load_hardware(hardware)
    workload = Workload(
        seq_length=4096, global_batch=batch, stack=profile.stack, expert_imbalance=profile.expert_imbalance
    )
    random = np.random.default_rng(0)
    space = enumerate_space(model, profile, workload, devices, backend, keep_oversized=True)
    parts = [chunk.take(random.choice(len(chunk), min(len(chunk), 300), replace=False)) for chunk in space]
    return Proposal(
        model=model, hardware=profile, workload=workload, batch=StrategyBatch.concatenate(parts[:8]),
        backend=backend_named(backend), devices=devices,
    )  # fmt: skip


def priced(case: Proposal) -> Case:
    assert case.hardware is not None
    return Case(model=case.model, hardware=case.hardware, workload=case.workload)


def assert_no_better(case: Proposal, worse: StrategyBatch, better: StrategyBatch) -> None:
    left, right = (evaluate(priced(case), batch) for batch in (worse, better))
    assert (left.step_s * TOLERANCE >= right.step_s).all()
    assert (left.peak_reserved_bytes * TOLERANCE >= right.peak_reserved_bytes).all()


@pytest.mark.parametrize("arguments", CASES, ids=lambda case: case[0].name)
def test_a_step_that_a_statement_rules_out_gains_nothing(arguments: tuple) -> None:  # type: ignore[type-arg]
    case = sampled(*arguments)
    for deviation in DEVIATIONS:
        base = case.batch.take(deviation.where(case))
        if len(base):
            assert_no_better(case, deviation.step(base, replace(case, batch=base)), base)


@pytest.mark.parametrize("arguments", CASES[:2], ids=lambda case: case[0].name)
def test_a_dispatcher_that_a_statement_rules_out_gains_nothing(arguments: tuple) -> None:  # type: ignore[type-arg]
    case = sampled(*arguments)
    for name in ("hierarchical-allgather", "hierarchical-dedup"):
        other = replace(case.batch, dispatcher=np.full(len(case.batch), DISPATCHER_CODE[name]))
        for statement in DOMINATED:
            ruled_out = other.take(statement.holds(replace(case, batch=other)))
            if len(ruled_out):
                flat = replace(ruled_out, dispatcher=np.zeros(len(ruled_out), dtype=np.int64))
                assert_no_better(case, ruled_out, flat)


@pytest.mark.parametrize("arguments", CASES, ids=lambda case: case[0].name)
def test_the_floor_of_the_weights_is_below_what_is_needed(arguments: tuple) -> None:  # type: ignore[type-arg]
    case = sampled(*arguments)
    cost = evaluate(priced(case), case.batch)
    for zero in np.unique(case.batch.zero_stage):
        for offload in np.unique(case.batch.offload_frac):
            here = (case.batch.zero_stage == zero) & (case.batch.offload_frac == offload)
            floor = static_floor_bytes(case.model, case.workload, case.batch, int(zero), float(offload))
            assert (floor[here] <= cost.peak_reserved_bytes[here]).all()

"""What a rule says that it reads is what it reads: a ladder is checked by bases, and by bases x rungs where a rule says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from autodeploy.strategy.backends import BACKENDS, backend_named
from autodeploy.strategy.laddered import crossed
from autodeploy.strategy.rule import Proposal, Rule
from autodeploy.strategy.rules import RELIEF_RULES, RULES
from autodeploy.strategy.space import Space
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import RECOMPUTE_MODULES, SCHEDULES, Ladder, StrategyBatch
from tests.strategy import specs

CASES = [
    (specs.LLAMA3_8B, specs.NVIDIA, "any"),
    (specs.QWEN3_30B, specs.NVIDIA, "megatron"),
    (specs.QWEN3_30B, specs.ASCEND, "mindspeed"),
    (specs.DEEPSEEK_V3, specs.NVIDIA, "torchtitan"),
]
WILD = list(product(range(1 << len(RECOMPUTE_MODULES)), (0, 2), (0.0, 0.5, 1.0), (0.0, 0.5, 1.0)))


def proposal(model: ModelSpec, hardware: HardwareProfile, backend: str, batch: StrategyBatch) -> Proposal:
    workload = Workload(seq_length=4096, global_batch=64)
    return Proposal(model=model, hardware=hardware, workload=workload, batch=batch, backend=backend_named(backend))


def bases(model: ModelSpec, hardware: HardwareProfile, count: int = 60) -> StrategyBatch:
    """Some bases of the space, with values on every axis that no space would have."""
    plan = Space(model, hardware, Workload(seq_length=4096, global_batch=64), "any", keep_oversized=True).plan((32,))
    found = StrategyBatch.concatenate([plan.part(i)[0].bases for i in range(len(plan))])
    random = np.random.default_rng(0)
    batch = found.take(random.choice(len(found), count))
    return replace(
        batch, zero_stage=random.integers(0, 4, count), ep_overlap=random.random(count) < 0.5,
        schedule=random.integers(0, len(SCHEDULES), count), dispatcher=random.integers(0, 4, count),
        ep=2 ** random.integers(0, 4, count),
    )  # fmt: skip


def wild(count: int = 40) -> Ladder:
    rungs = [0, *np.random.default_rng(1).choice(len(WILD), count, replace=False).tolist()]  # none, and some
    columns = [np.array(column) for column in zip(*(WILD[i] for i in rungs), strict=True)]
    return Ladder(recompute=columns[0], recompute_layers=columns[1], swap_frac=columns[2], offload_frac=columns[3])


def broken(rule: Rule, case: Proposal, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(rule.broken(case), shape)


@pytest.mark.parametrize(("model", "hardware", "backend"), CASES, ids=lambda one: str(getattr(one, "name", one)))
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_reads_relief_only_where_it_says_so_and_broadcasts_where_it_does(
    rule: Rule, model: ModelSpec, hardware: HardwareProfile, backend: str
) -> None:
    batch, ladder = bases(model, hardware), wild()
    shape = (len(batch), len(ladder))
    every = broken(rule, proposal(model, hardware, backend, ladder.expand(batch)), (shape[0] * shape[1],)).reshape(
        shape
    )
    if rule.relief:
        assert (broken(rule, proposal(model, hardware, backend, crossed(batch, ladder)), shape) == every).all()
    else:
        plain = broken(rule, proposal(model, hardware, backend, batch), shape[:1])
        assert (every == plain[:, None]).all()


@pytest.mark.parametrize("rule", RELIEF_RULES, ids=lambda rule: rule.name)
def test_every_rule_about_relief_needs_to_say_so(rule: Rule) -> None:
    """Somewhere, for some back end, its answer depends on the rung."""
    backends = rule.backends or tuple(BACKENDS)
    found = False
    for (model, hardware, _), backend in product(CASES, backends):
        batch, ladder = bases(model, hardware), wild()
        shape = (len(batch), len(ladder))
        said = broken(rule, proposal(model, hardware, backend, crossed(batch, ladder)), shape)
        found |= bool((said != said[:, :1]).any())
    assert found

"""Small and real strategies, priced once."""

from __future__ import annotations

from functools import cache

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from cost_models.case import Case
from cost_models.inputs import Workload
from cost_models.strategies import StrategyBatch

DENSE = ("llama-3.1-8b", "h100-sxm", 64, 64)
MOE = ("pangu-ultra-moe-718b", "atlas-800t-a2", 6144, 3072)
SELECTIVE = "MBS2/selective(mla_up_proj,layernorm,moe)"


@cache
def case(name: str, hardware: str, global_batch: int) -> Case:
    profile = load_hardware(hardware)
    workload = Workload(seq_length=4096, global_batch=global_batch, stack=profile.stack, expert_imbalance=1.2)
    return Case(model=load_model(name), hardware=profile, workload=workload)


def strategy(of: tuple[str, str, int, int], text: str, backend: str = "any") -> tuple[Case, StrategyBatch]:
    given = case(of[0], of[1], of[3])
    return given, strategy_to_batch(parse_strategy(text), given.model, of[2], backend)

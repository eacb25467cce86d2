"""Valid strategies of ten models for each target, as a search lists them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from autodeploy.export import TARGETS, Job
from autodeploy.export.job import job_of
from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.stacks import Program, default_stack, load_stack, settle
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.space import enumerate_space
from cost_models.case import Case

MODELS = (
    "deepseek-v3", "kimi-k2", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x22b", "llama-3-8b", "llama-3-70b",
    "llama-3.1-405b", "qwen2.5-72b", "gpt3-175b",
)  # fmt: skip
DEVICES, BATCH, SEQ = 256, 512, 4096
SHIPPED_BY_TORCHTITAN = (
    "deepseek-v3",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "llama-3-8b",
    "llama-3-70b",
    "llama-3.1-405b",
)
NARROW = {"tp": "1,2,8", "cp": "1,2", "micro_batch": "1,2", "pp": "1,4,8,16", "ep": "1,8,64", "etp": "1,2"}


def program_of(target: str) -> Program:
    """Today's stack of the target; torchtitan's TOML has no MTP modules."""
    backend = TARGETS[target].backend
    chosen = {"mtp": False} if target == "torchtitan" else {}
    return Program(stack=load_stack(default_stack(backend, "megatron")), chosen=chosen)


@lru_cache(maxsize=64)
def case_of(model: str, target: str) -> Case:
    settled = settle(
        program_of(target), load_model(model), load_hardware(TARGETS[target].hardware), seq_length=SEQ,
        global_batch=BATCH, precision="bf16",
    )  # fmt: skip
    return Case(model=settled.model, hardware=settled.hardware, workload=settled.workload)


DEEPSPEED = (
    "TP1/ZeRO3/full", "TP1/ZeRO2/MBS2", "TP2/noSP/ZeRO1", "TP1/ZeRO3/offload0.5/full", "TP1/ZeRO0", "TP8/noSP/ZeRO2/offload1",
)  # fmt: skip


def jobs(model: str, target: str, count: int, seed: int = 0) -> list[Job]:
    """``count`` strategies of the space at random; DeepSpeed's few forms as they are."""
    if target == "deepspeed":
        case = case_of(model, target)
        texts = [text for text in DEEPSPEED if not ("noSP" in text and _moe(case))][:count]
        program = program_of(target)
        return [job_of(text, case, devices=DEVICES, backend="any", program=program) for text in texts]
    case, backend = case_of(model, target), TARGETS[target].backend
    random = np.random.default_rng(seed)
    texts: set[str] = set()
    axes = Axes.of({name: text for name, text in NARROW.items() if name not in ("ep", "etp") or _moe(case)})
    for batch in enumerate_space(case.model, case.hardware, case.workload, DEVICES, backend, axes, keep_oversized=True):
        picked = random.choice(len(batch), min(len(batch), count), replace=False)
        texts |= {str(batch_to_strategy(batch, int(i))) for i in picked}
    chosen = random.permutation(sorted(texts))[:count]
    program = program_of(target)
    return [job_of(str(text), case, devices=DEVICES, backend=backend, program=program) for text in chosen]


def _moe(case: Case) -> bool:
    return any(half.is_moe for kind in case.model.kinds for half in kind.feed_forwards)

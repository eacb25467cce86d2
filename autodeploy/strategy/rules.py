"""All validity rules, and which one a strategy breaks.

A new rule: a ``Rule`` in one of the five tables, and an example of it in the rules test.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.backends import BACKENDS, backend_named
from autodeploy.strategy.rule import Proposal, Rule
from autodeploy.strategy.rules_features import FEATURE_RULES
from autodeploy.strategy.rules_mindspeed import MINDSPEED_RULES
from autodeploy.strategy.rules_pipeline import PIPELINE_RULES
from autodeploy.strategy.rules_torchtitan import TORCHTITAN_RULES
from autodeploy.strategy.rules_world import WORLD_RULES
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.strategies import I64, Bool, StrategyBatch

RULES: tuple[Rule, ...] = WORLD_RULES + PIPELINE_RULES + FEATURE_RULES + MINDSPEED_RULES + TORCHTITAN_RULES
OPTION_RULES = RULES[len(WORLD_RULES) :]
RELIEF_RULES = tuple(rule for rule in RULES if rule.relief)
OK = 0
_CODE = {rule.name: code for code, rule in enumerate(RULES, start=1)}


def check(
    model: ModelSpec,
    hardware: HardwareProfile | None,
    workload: Workload,
    batch: StrategyBatch,
    backend: str,
    *,
    devices: int | I64 | None = None,
    soft: bool = False,
    among: tuple[Rule, ...] = RULES,
) -> I64:
    """Code of the first rule that each strategy breaks, [N]: 0 none, else ``RULES[code - 1]``. [B, R] of a crossed batch.
    ``among``: rules in the order of ``RULES``."""
    case = Proposal(
        model=model, hardware=hardware, workload=workload, batch=batch, backend=backend_named(backend), devices=devices
    )
    codes = np.zeros(np.broadcast_shapes(batch.tp.shape, batch.recompute.shape), dtype=np.int64)
    for code, rule in _asked(backend, soft, among):
        broken = np.asarray(rule.broken(case))
        if broken.any():
            codes[(codes == OK) & broken] = code
    return codes


@lru_cache(maxsize=64)
def _asked(backend: str, soft: bool, among: tuple[Rule, ...]) -> tuple[tuple[int, Rule], ...]:
    """The rules that hold for a back end, with their codes."""
    return tuple((_CODE[rule.name], rule) for rule in among if rule.holds_for(backend) and (soft or not rule.soft))


def rule_of(code: int) -> Rule | None:
    """The rule behind a code; None for 0."""
    return RULES[code - 1] if code else None


def require_valid(
    model: ModelSpec,
    hardware: HardwareProfile | None,
    workload: Workload,
    batch: StrategyBatch,
    backend: str,
    *,
    devices: int | None = None,
) -> None:
    """Raises the first broken rule of the first invalid strategy as bad input."""
    codes = check(model, hardware, workload, batch, backend, devices=devices)
    if codes.any():
        from autodeploy.strategy.convert import batch_to_strategy

        i = int(np.flatnonzero(codes)[0])
        rule = RULES[codes[i] - 1]
        allowed = f"valid on {backend}: rule {rule.name}: {rule.text}"
        raise InputError("strategy", str(batch_to_strategy(batch, i)), allowed, rule.remedy)


def launchable(
    model: ModelSpec, hardware: HardwareProfile, workload: Workload, batch: StrategyBatch, backend: str
) -> tuple[Bool, list[str]]:
    """Whether a training program runs each strategy [N], and why not ("" where one does).

    ``any`` asks every program of the hardware; the reason is that of the profile's own.
    """
    names = [backend] if backend != "any" else programs_for(hardware)
    codes = np.stack([check(model, hardware, workload, batch, name) for name in names])
    runs = (codes == OK).any(axis=0)
    reasons = ["" if run else f"{names[0]}: {RULES[code - 1].text}" for run, code in zip(runs, codes[0], strict=True)]
    return runs, reasons


def programs_for(hardware: HardwareProfile) -> list[str]:
    """Back ends that run on this hardware, its own first."""
    if hardware.device.vendor == "ascend":
        return ["mindspeed"]
    others = [name for name in BACKENDS if name not in ("any", "mindspeed", hardware.backend)]
    return [hardware.backend, *others]

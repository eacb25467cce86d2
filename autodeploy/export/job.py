"""What is exported: one strategy of one model on one machine, with its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autodeploy.errors import InputError
from autodeploy.stacks.apply import Program, context_of
from autodeploy.stacks.fields import stack_fields
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import Strategy, parse_strategy
from autodeploy.strategy.rules import require_valid
from cost_models.case import Case
from cost_models.inputs import HardwareProfile, ModelSpec
from cost_models.strategies import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """``strategy`` with DP filled in; ``values``: every field of the stack; ``chosen``: those that the user set."""

    model: ModelSpec
    hardware: HardwareProfile
    strategy: Strategy
    layout: Layout
    devices: int
    seq_length: int
    global_batch: int
    precision: str
    stack: str
    values: Mapping[str, Any]
    chosen: tuple[str, ...] = ()

    @property
    def dp(self) -> int:
        return self.devices // (self.strategy.tp * self.strategy.cp * self.strategy.pp)

    @property
    def micro_batches(self) -> int:
        return self.global_batch // (self.strategy.micro_batch * self.dp)

    @property
    def moe(self) -> bool:
        return any(half.is_moe for kind in self.model.kinds for half in kind.feed_forwards)

    @property
    def nodes(self) -> int:
        return -(-self.devices // self.hardware.cards_per_node)


def job_of(text: str, case: Case, *, devices: int, backend: str, program: Program) -> Job:
    """The strategy that ``text`` writes, checked against the rules of ``backend``; InputError where one is broken."""
    model, hardware, workload = case.model, case.hardware, case.workload
    strategy = parse_strategy(text, backend)
    batch = strategy_to_batch(strategy, model, devices, backend, workload.global_batch)
    require_valid(model, hardware, workload, batch, backend, devices=devices)
    defaults = {name: field.default for name, field in stack_fields().items()}
    values = {**defaults, **program.values(context_of(model, hardware, workload.precision))}
    return Job(
        model=model, hardware=hardware, strategy=strategy, layout=batch.layouts[0], devices=devices,
        seq_length=workload.seq_length, global_batch=workload.global_batch, precision=workload.precision,
        stack=program.label, values=values, chosen=tuple(program.chosen),
    )  # fmt: skip


def require_written(job: Job, written: frozenset[str], target: str) -> None:
    """A field that the user set and that the target has no setting for is refused, not dropped."""
    for name in job.chosen:
        if name not in written:
            allowed = f"a field that {target} has a setting for: {', '.join(sorted(written))}"
            raise InputError(f"--set {name}", job.values[name], allowed, "leave it out of an export")

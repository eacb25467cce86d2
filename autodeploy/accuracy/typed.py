"""Every run as a user would type it: one ``autodeploy estimate`` command, and the case that this command prices.

Typed are the model, the strategy, the machine, the cards, the sizes, the precision, the back end and the stack of the
framework's release; beside them only what the row states of the attention kernel and of forced routing. Nothing else of
the row's software is set.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autodeploy.accuracy.cases import Point, RunCase, batch_of
from autodeploy.accuracy.loader import Run, RunSet
from autodeploy.accuracy.programs import stack_of
from autodeploy.accuracy.settling import Settler
from autodeploy.accuracy.shapes import Shapes, model_changes, node_bandwidth_bytes_per_s
from autodeploy.accuracy.stack import chosen_imbalance, kernel_of, precision_of, row_settings
from autodeploy.hardware.network import network_text
from autodeploy.models.run_models import name_of
from autodeploy.models.zoo import zoo_model, zoo_names
from autodeploy.report.likeness import Likeness, likeness
from autodeploy.stacks import Program, load_stack
from autodeploy.stacks.apply import context_of
from autodeploy.strategy.convert import batch_to_strategy, strategy_to_batch
from autodeploy.strategy.layout_text import StageText, print_layout_text
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import check
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import ModelSpec
from cost_models.strategies import SCHEDULES, Layout, StrategyBatch, recompute_mask

EXPERT_MODULES = recompute_mask(("moe_act", "moe"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRun:
    """One command and what it prices. ``batch``: one strategy."""

    run: Run
    command: str
    backend: str
    stack: str
    settled: Case
    batch: StrategyBatch

    @property
    def like(self) -> Likeness:
        """What the run has in common with others, for the band that the command prints."""
        return likeness(self.settled, self.stack, self.batch, 0)


class Typist:
    """Writes commands; models, machines and settled cases are shared between rows."""

    def __init__(self, run_set: RunSet) -> None:
        self._files = run_set.model_files
        self._shapes = Shapes(run_set.models)
        self._settler = Settler()
        self._names: dict[tuple, str] = {}
        self._batches: dict[tuple, tuple[str, StrategyBatch]] = {}

    def type_all(self, cases: Iterable[tuple[RunCase, int]]) -> tuple[list[TypedRun], dict[str, str]]:
        """Every case with the strategy that was taken for it; and why a row cannot be typed (id -> reason)."""
        typed: list[TypedRun] = []
        reasons: dict[str, str] = {}
        for case, point in cases:
            try:
                typed.append(self._type(case, case.points[point]))
            except ConfigError as error:
                reasons[case.run.id] = str(error)
        return typed, reasons

    def _type(self, case: RunCase, point: Point) -> TypedRun:
        run = case.run
        stack = load_stack(stack_of(run))
        model = self._shapes.model(run)
        point = _said(point, model)
        kernel = kernel_of(run)
        usual = stack.values(context_of(model, case.hardware, precision_of(run)[0])).get("attention_kernel")
        chosen = {} if kernel in (None, usual) else {"attention_kernel": kernel}
        imbalance = chosen_imbalance(run, row_settings(run))
        sizes = (case.workload.seq_length, case.workload.global_batch, precision_of(run)[0])
        program = Program(stack=stack, chosen=chosen)
        settled = self._settler.settle(program, model, self._shapes.machine(run), sizes, imbalance)
        error: ConfigError | None = None
        for backend in (stack.backends[0], "any"):
            try:
                text, batch = self._strategy(settled, point, backend)
            except ConfigError as refused:
                error = refused
                continue
            words = self._words(run, model, text, sizes, backend, program)
            if imbalance is not None:
                words += ["--imbalance", f"{imbalance:g}"]
            return TypedRun(
                run=run,
                command=shlex.join(words),
                backend=backend,
                stack=stack.name,
                settled=settled,
                batch=batch,
            )
        raise error  # type: ignore[misc]

    def _strategy(self, settled: Case, point: Point, backend: str) -> tuple[str, StrategyBatch]:
        """The notation and the strategy that reading it gives; InputError where the back end's rules refuse it."""
        key = (point, id(settled.model), id(settled.hardware), settled.workload, backend)
        if key not in self._batches:
            devices = point.tp * point.pp * point.cp * point.dp
            text, batch = _written(point, settled, devices, backend)
            broken = int(check(settled.model, settled.hardware, settled.workload, batch, backend)[0])
            if broken:
                from autodeploy.strategy.rules import require_valid

                require_valid(settled.model, settled.hardware, settled.workload, batch, backend, devices=devices)
            self._batches[key] = (text, batch)
        return self._batches[key]

    def _words(
        self, run: Run, model: ModelSpec, strategy: str, sizes: tuple[int, int, str], backend: str, program: Program
    ) -> list[str]:
        bandwidth = node_bandwidth_bytes_per_s(run)
        hardware = run.device if bandwidth is None else run.device + network_text(bandwidth)
        return [
            "autodeploy", "estimate", self._model_name(run, model), strategy, "--hardware", hardware,
            "--devices", str(run.num_devices), "--seq-length", str(sizes[0]), "--global-batch", str(sizes[1]),
            "--precision", sizes[2], "--backend", backend, "--stack", program.stack.name,
            *(word for name, value in program.chosen.items() for word in ("--set", f"{name}={value}")),
        ]  # fmt: skip

    def _model_name(self, run: Run, model: ModelSpec) -> str:
        changes = model_changes(run)
        key = (run.model, tuple(sorted(changes.items())))
        if key not in self._names:
            zoo = zoo_name_of(model)
            self._names[key] = zoo or name_of(self._files.get(run.model, "runs"), run.model, changes)
        return self._names[key]


def zoo_name_of(model: ModelSpec) -> str | None:
    """The shipped model that is the same but for its name and its notes."""
    return next((name for name in zoo_names() if _bare(zoo_model(name)) == _bare(model)), None)


def _bare(model: ModelSpec) -> ModelSpec:
    return replace(model, name="", notes=(), max_seq_length=0)


def _said(point: Point, model: ModelSpec) -> Point:
    """The strategy without words that mean nothing for it, which the rules refuse: a dispatcher where no token travels,
    recompute of expert modules in a dense model, overlap of expert communication in a schedule that has no room for it."""
    if not any(kind.feed_forward is not None and kind.feed_forward.is_moe for kind in model.kinds):
        point = replace(point, recompute=point.recompute & ~EXPERT_MODULES)
    if point.ep == 1:
        point = replace(point, dispatcher=0)
    return replace(point, ep_overlap=False) if SCHEDULES[point.schedule] == "1f1b" else point


def _written(point: Point, case: Case, devices: int, backend: str) -> tuple[str, StrategyBatch]:
    """The notation, with what the back end's defaults say otherwise: the ZeRO stage, and the layout in Megatron's words."""
    plain = batch_to_strategy(batch_of([replace(point, layout=replace(point.layout, key=""))]))
    text = str(plain)
    if parse_strategy(text, backend).zero_stage != plain.zero_stage:
        text += f"/ZeRO{plain.zero_stage}"
    try:
        batch = _read(text, case, devices, backend)
    except ConfigError:  # layers that the default cannot split
        batch = None
    if batch is None or not np.array_equal(batch.layouts[0].counts, point.layout.counts):
        text += f"/layout({_layout_text(point.layout)})"
        batch = _read(text, case, devices, backend)
    return text, batch


def _read(text: str, case: Case, devices: int, backend: str) -> StrategyBatch:
    """What ``estimate`` makes of the notation."""
    return strategy_to_batch(parse_strategy(text, backend), case.model, devices, backend, case.workload.global_batch)


def _layout_text(layout: Layout) -> str:
    return print_layout_text(
        [
            StageText(int(row[:-3].sum()), embedding=int(row[-3]), mtp=int(row[-2]), loss=int(row[-1]))
            for row in layout.counts
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedPrice:
    """What the command prints."""

    command: str
    like: Likeness
    step_s: float
    allocated_bytes: float
    reserved_bytes: float
    fits: bool


def price_typed(typed: Iterable[TypedRun], evaluate: Any, replay: Any) -> Mapping[str, TypedPrice]:
    """Prices by run id. ``replay``: the simulator as ``estimate`` uses it, or None for the closed form alone."""
    prices: dict[str, TypedPrice] = {}
    for group in _grouped(typed):
        first = group[0].settled
        batch = StrategyBatch.concatenate([each.batch for each in group])
        cost = evaluate(first, batch)
        seconds = _replayed(first, batch, np.asarray(cost.step_s, dtype=np.float64), replay)
        for i, each in enumerate(group):
            prices[each.run.id] = TypedPrice(
                command=each.command,
                like=each.like,
                step_s=float(seconds[i]),
                allocated_bytes=float(cost.peak_allocated_bytes[i]),
                reserved_bytes=float(cost.peak_reserved_bytes[i]),
                fits=float(cost.peak_reserved_bytes[i]) <= first.hardware.usable_bytes,
            )
    return prices


def _replayed(settled: Case, batch: StrategyBatch, screened_s: Any, replay: Any) -> Any:
    """Seconds as ``estimate`` prints them, [N]: of the replay, where the step has a pipeline (else both are the same) and
    the simulator has its schedule."""
    piped = np.flatnonzero(batch.pp > 1)
    if replay is None or not len(piped):
        return screened_s
    found = replay(settled, batch.take(piped))
    seconds = screened_s.copy()
    if found is not None:
        seconds[piped] = np.where(np.isnan(found), screened_s[piped], found)
    return seconds


def _grouped(typed: Iterable[TypedRun]) -> list[list[TypedRun]]:
    groups: dict[tuple, list[TypedRun]] = {}
    for each in typed:
        settled = each.settled
        groups.setdefault((id(settled.model), id(settled.hardware), settled.workload), []).append(each)
    return list(groups.values())

"""AutoDeploy from Python: a few names, typed frozen results, the figures of the command line.

    import autodeploy
    found = autodeploy.search("llama-3.1-8b", hardware="h100-sxm", devices=16, global_batch=64)
    print(found.rows[0].strategy, found.rows[0].step_time_s)

MODEL, hardware and stack are names, paths, or what ``load_model``, ``load_hardware`` and ``load_stack`` return. Bad input
raises ``InputError`` with the command line's one line. Nothing heavy is imported before a function is called.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodeploy.api_results import Estimate, Explanation, Row, SearchResult, Simulation, Step
from autodeploy.errors import InputError

if TYPE_CHECKING:
    from autodeploy.report.entry import Case
    from autodeploy.stacks.stack import Stack
    from cost_models.inputs import HardwareProfile, ModelSpec
    from cost_models.step import StepCost
    from cost_models.strategies import StrategyBatch

__all__ = [
    "Estimate", "Explanation", "InputError", "Row", "SearchResult", "Simulation", "Step",
    "estimate", "explain", "load_hardware", "load_model", "load_stack", "search", "simulate",
]  # fmt: skip

BACKENDS = ("megatron", "mindspeed", "megatron-bridge", "torchtitan", "any")
GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What every question may say beside model, hardware and cards; the defaults are the command line's."""

    seq_length: int = 4096
    global_batch: int = 1024
    precision: str = "bf16"
    backend: str | None = None  # by the stack, else by the hardware
    stack: str | Stack | None = None  # by the back end
    set: Mapping[str, Any] = field(default_factory=dict)  # fields of the stack
    imbalance: float | None = None
    memory_cap_gib: float | None = None

    def __post_init__(self) -> None:
        from cost_models.inputs import PRECISIONS

        for name in ("seq_length", "global_batch"):
            value = getattr(self, name)
            if not (isinstance(value, int) and 0 < value <= 1e9):
                raise InputError(name, value, "a whole number from 1 to 1e9")
        if self.precision not in PRECISIONS:
            raise InputError("precision", self.precision, f"one of {', '.join(PRECISIONS)}")
        if self.backend is not None and self.backend not in BACKENDS:
            raise InputError("backend", self.backend, f"one of {', '.join(BACKENDS)}")
        if self.imbalance is not None and not (math.isfinite(self.imbalance) and self.imbalance >= 1.0):
            raise InputError("imbalance", self.imbalance, "largest over mean load of an expert rank: a number >= 1")
        cap = self.memory_cap_gib
        if cap is not None and not (math.isfinite(cap) and 0 < cap <= 1e9):
            raise InputError("memory_cap_gib", cap, "GiB > 0")


def load_model(name_or_path: str | Path) -> ModelSpec:
    """A model of the zoo, a Hugging Face config.json, our YAML, or the model of a launch file."""
    from autodeploy.models import load_model as load

    return load(str(name_or_path))


def load_hardware(name_or_path: str | Path) -> HardwareProfile:
    """A hardware profile by name (``h100-sxm``, ``a100-80gb@50Gbps``) or from a YAML file."""
    from autodeploy.hardware import load_hardware as load

    return load(name_or_path)


def load_stack(name_or_path: str | Path) -> Stack:
    """A software stack by name or from a YAML file."""
    from autodeploy.stacks import load_stack as load

    return load(str(name_or_path))


def estimate(
    model: str | Path | ModelSpec,
    strategy: str,
    *,
    hardware: str | Path | HardwareProfile,
    devices: int,
    **options: Any,
) -> Estimate:
    """One strategy priced, as ``autodeploy estimate``. ``options``: those of ``Options``."""
    from autodeploy.decide.question import Asked
    from autodeploy.one_strategy import decision_on, replayed_s
    from autodeploy.report.documents import estimate_document

    case = _case(model, hardware, Options(**options))
    batch, cost = _priced(case, strategy, devices)
    step_s = replayed_s(case.priced, batch)
    decision = decision_on(Asked(), case.priced, batch, cost, step_s)
    return Estimate.of(estimate_document(case, batch, cost, simulated_s=step_s, decision=decision))


def simulate(
    model: str | Path | ModelSpec,
    strategy: str,
    *,
    hardware: str | Path | HardwareProfile,
    devices: int,
    **options: Any,
) -> Simulation:
    """One step replayed event by event, as ``autodeploy simulate``. ``options``: those of ``Options``."""
    from autodeploy.replay import simulate_strategy
    from autodeploy.report.simulate_document import simulate_document

    case = _case(model, hardware, Options(**options))
    batch, cost = _priced(case, strategy, devices)
    step = simulate_strategy(case.priced, batch)
    return Simulation.of(simulate_document(case, batch, cost, step))


def explain(
    model: str | Path | ModelSpec,
    strategy: str,
    *,
    hardware: str | Path | HardwareProfile,
    devices: int,
    **options: Any,
) -> Explanation:
    """What binds a strategy and what one step along each axis would change, as ``autodeploy explain``."""
    from autodeploy.explain import explain_document
    from autodeploy.explain.pricing import Setting
    from autodeploy.one_strategy import replayed_s
    from autodeploy.report.documents import estimate_document
    from autodeploy.strategy.convert import batch_to_strategy

    case = _case(model, hardware, Options(**options))
    batch, cost = _priced(case, strategy, devices)
    head = estimate_document(case, batch, cost, simulated_s=replayed_s(case.priced, batch))
    entry = head.pop("estimate")
    setting = Setting(case=case.priced, devices=devices, backend=case.backend)
    return Explanation.of(explain_document(batch_to_strategy(batch, 0), setting, head, entry))


SEARCH = ("method", "objective", "rank_by", "top", "all_variants", "trials", "timeout_s", "workers", "seed")


def search(
    model: str | Path | ModelSpec,
    *,
    hardware: str | Path | HardwareProfile,
    devices: int | Iterable[int],
    axes: Mapping[str, Any] | None = None,
    **options: Any,
) -> SearchResult:
    """Strategies ranked, as ``autodeploy search``: empty ``rows`` and filled ``nearest`` where nothing fits.

    ``axes`` narrows, as on the command line: ``{"tp": "4,8", "recompute": "none,full"}``. ``options``: those of
    ``Options``, and method, objective, rank_by, top, all_variants, trials, timeout_s, workers, seed.
    """
    from autodeploy.plan.combine import with_plan
    from autodeploy.plan.options import Machine
    from autodeploy.report.documents import search_document
    from autodeploy.search.real_parts import run_search
    from autodeploy.search.request import SearchRequest
    from autodeploy.strategy.axes import Axes

    asked = {name: options.pop(name) for name in SEARCH if name in options}
    case = _case(model, hardware, Options(**options))
    counts = (devices,) if isinstance(devices, int) else tuple(devices)
    narrowed = Axes.of({name: value if isinstance(value, bool) else str(value) for name, value in (axes or {}).items()})
    request = SearchRequest(case=case.priced, backend=case.backend, devices=counts, axes=narrowed, **asked)
    document = search_document(case, run_search(request))
    return SearchResult.of(
        with_plan(document, Machine(name=case.hardware.name, price_per_card_hour=None, power_w_per_card=None), None)
    )


def _case(model: str | Path | ModelSpec, hardware: str | Path | HardwareProfile, options: Options) -> Case:
    """The case as reports show it, settled as the command line settles it."""
    from dataclasses import replace

    from autodeploy.report.entry import Case
    from autodeploy.stacks import Program, default_stack, parse_sets, settle

    model = load_model(model) if isinstance(model, str | Path) else model
    machine = load_hardware(hardware) if isinstance(hardware, str | Path) else hardware
    if options.memory_cap_gib is not None:
        machine = replace(machine, device=replace(machine.device, usable_bytes=options.memory_cap_gib * GIB))
    stack = load_stack(options.stack) if isinstance(options.stack, str | Path) else options.stack
    usual = machine.backend if stack is None or machine.backend in stack.backends else stack.backends[0]
    backend = options.backend or usual
    if stack is None:
        stack = load_stack(default_stack(backend, machine.backend))
    stack.check_backend(backend)
    program = Program(stack=stack, chosen=parse_sets(f"{name}={_text(v)}" for name, v in options.set.items()))
    settled = settle(
        program, model, machine, seq_length=options.seq_length, global_batch=options.global_batch,
        precision=options.precision, imbalance=options.imbalance,
    )  # fmt: skip
    return _known(
        Case(
            model=settled.model, hardware=settled.hardware, workload=settled.workload, backend=backend,
            stack=program.label,
        )
    )  # fmt: skip


_CASES: deque[Case] = deque(maxlen=4)


def _known(case: Case) -> Case:
    """An equal case that was asked about lately, with its price list; else this one."""
    for known in tuple(_CASES):
        if known == case:
            return known
    _CASES.append(case)
    return case


def _text(value: Any) -> str:
    from autodeploy.stacks.apply import shown

    return shown(value)


def _priced(case: Case, strategy: str, devices: int) -> tuple[StrategyBatch, StepCost]:
    from autodeploy.one_strategy import price_one

    if not (isinstance(devices, int) and 1 <= devices <= 10_000_000):
        raise InputError("devices", devices, "a whole number of cards from 1 to 10000000")
    return price_one(strategy, case.priced, devices, case.backend)

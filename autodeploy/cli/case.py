"""From the options that every pricing command shares to the case that it prices."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from autodeploy.cli.launch_file import backend_of, filled, tell, with_stated
from autodeploy.errors import InputError
from cost_models.case import Case as PricedCase
from cost_models.inputs import PRECISIONS, HardwareProfile, ModelSpec, Workload
from cost_models.records import record

if TYPE_CHECKING:
    from autodeploy.launch import Launch
    from autodeploy.report.entry import Case
    from autodeploy.stacks import Program

GIB = 2**30
BACKENDS = ("megatron", "mindspeed", "megatron-bridge", "torchtitan", "any")
TOKEN_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@record
class CaseOptions:
    """As typed."""

    model: str
    hardware: str
    seq_length: int | None
    global_batch: int | None
    precision: str | None
    backend: str | None
    imbalance: float | None
    memory_cap: float | None
    tokens: str | None
    price: str | None  # money per card-hour
    stack: str | None = None
    set: list[str] | None = None
    vocab_size: int | None = None
    spare_experts: int | None = None


@record
class OneStrategy:
    """STRATEGY and its cards as typed, with the options that say what a token of the notation says."""

    strategy: str | None
    devices: str | None
    micro_batch: str | None = None
    recompute: str | None = None
    schedule: str | None = None
    zero: str | None = None

    @property
    def tokens(self) -> list[str]:
        """Tokens that options add. A thing said twice is refused by the parser of the notation."""
        said = (("MBS{}", self.micro_batch), ("ZeRO{}", self.zero), ("{}", self.recompute), ("{}", self.schedule))
        return [form.format(value) for form, value in said if value not in (None, "none")]


@record
class LoadedCase:
    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    backend: str
    program: Program
    tokens: float | None
    price: float | None
    launch: Launch | None = None  # the user's own settings, where MODEL is a launch file

    @property
    def stack(self) -> str:
        """The stack by name, with what was set on top of it."""
        return self.program.label

    @cached_property
    def case(self) -> PricedCase:
        """One object, whose price list everything that is asked of it shares."""
        return PricedCase(model=self.model, hardware=self.hardware, workload=self.workload)


def load_case(options: CaseOptions) -> LoadedCase:
    """Reads the files and checks every value. InputError names what is wrong."""
    from autodeploy.hardware import load_hardware
    from autodeploy.models import load_model
    from autodeploy.stacks import settle

    launch = _launch(options)
    options = filled(options, launch)
    assert options.seq_length is not None and options.global_batch is not None and options.precision is not None
    _positive("--seq-length", options.seq_length, "a whole number of tokens > 0")
    _positive("--global-batch", options.global_batch, "a whole number of sequences > 0")
    if options.precision not in PRECISIONS:
        raise InputError("--precision", options.precision, f"one of {', '.join(PRECISIONS)}")
    tokens = None if options.tokens is None else token_count(options.tokens)
    price = None if options.price is None else _price(options.price, options.hardware)
    if options.price is not None and tokens is None:
        raise InputError("--price-per-device-hour", options.price, "given together with --tokens", "add --tokens 1T")
    model = _with_vocabulary(load_model(options.model), options) if launch is None else launch.model
    for note in model.notes:
        say(f"{model.name}: {note}")
    hardware = with_cap(load_hardware(options.hardware), options.memory_cap)
    backend = options.backend or stack_backend(options.stack, backend_of(launch, hardware))
    if backend not in BACKENDS:
        raise InputError("--backend", backend, f"one of {', '.join(BACKENDS)}")
    if price is None and tokens is not None and hardware.price_per_card_hour_usd > 0:
        price = hardware.price_per_card_hour_usd
    program = program_of(options.stack, options.set, backend, hardware)
    program.stack.check_backend(backend)
    if launch is not None and options.stack is None:
        program = with_stated(program, launch, model, hardware, options.precision)
    settled = settle(
        program,
        model,
        hardware,
        seq_length=options.seq_length,
        global_batch=options.global_batch,
        precision=options.precision,
        imbalance=_imbalance(options.imbalance),
    )
    return LoadedCase(
        model=settled.model,
        hardware=settled.hardware,
        workload=_with_spare(settled.workload, settled.model, options.spare_experts),
        backend=backend,
        program=program,
        tokens=tokens,
        price=price,
        launch=launch,
    )


def _price(text: str, machine: str) -> float | None:
    from autodeploy.plan.limits import prices

    return prices(text, (machine,)).get(machine)


def _with_vocabulary(model: ModelSpec, options: CaseOptions) -> ModelSpec:
    """The model with another tokenizer's vocabulary, where one is given."""
    if options.vocab_size is None:
        return model
    if not 1 <= options.vocab_size <= LARGEST:
        raise InputError("--vocab-size", options.vocab_size, f"a whole number from 1 to {LARGEST:.0e}")
    return dataclasses.replace(model, vocab=options.vocab_size)


def _with_spare(workload: Workload, model: ModelSpec, spare: int | None) -> Workload:
    if spare is None:
        return workload
    if spare < 0 or not any(part.is_moe for kind in model.kinds for part in kind.feed_forwards):
        raise InputError("--spare-experts", spare, "a whole number >= 0, of a model with experts")
    return dataclasses.replace(workload, spare_experts=spare)


def _launch(options: CaseOptions) -> Launch | None:
    """MODEL as a launch file, with what there is to tell of it; None where it is a model."""
    if not Path(options.model).is_file():
        return None
    from autodeploy.launch import is_launch_file, read_launch

    if not is_launch_file(options.model):
        return None
    launch = read_launch(options.model, vocab=options.vocab_size or 0)
    tell(launch)
    return launch


def stack_backend(stack: str | None, usual: str) -> str:
    """The back end where none is typed: the machine's, or else the first that the stack is a release of."""
    from autodeploy.stacks import load_stack

    if stack is None:
        return usual
    backends = load_stack(stack).backends
    return usual if usual in backends else backends[0]


def program_of(stack: str | None, sets: list[str] | None, backend: str, hardware: HardwareProfile) -> Program:
    """The stack that is named, or the back end's, with what ``--set`` changes."""
    from autodeploy.stacks import Program, default_stack, load_stack, parse_sets

    name = stack or default_stack(backend, hardware.backend)
    return Program(stack=load_stack(name), chosen=parse_sets(sets or ()))


def case_of(loaded: LoadedCase) -> Case:
    """The case as reports show it."""
    from autodeploy.report.entry import Case

    return Case(
        model=loaded.model,
        hardware=loaded.hardware,
        workload=loaded.workload,
        backend=loaded.backend,
        stack=loaded.stack,
        tokens=loaded.tokens,
        price_per_device_hour=loaded.price,
    )


def with_cap(hardware: HardwareProfile, cap_gib: float | None) -> HardwareProfile:
    """The profile with ``--memory-cap`` as the usable memory of a card."""
    if cap_gib is None:
        return hardware
    _positive("--memory-cap", cap_gib, "GiB > 0")
    if cap_gib * GIB > hardware.device.hbm_bytes:
        say(
            f"--memory-cap {cap_gib:g} is more than the {hardware.device.hbm_bytes / GIB:.1f} GiB of a {hardware.name} card"
        )
    device = dataclasses.replace(hardware.device, usable_bytes=cap_gib * GIB)
    return dataclasses.replace(hardware, device=device)


def _imbalance(asked: float | None) -> float | None:
    if asked is not None and not (math.isfinite(asked) and asked >= 1.0):
        raise InputError("--imbalance", asked, "largest over mean load of an expert rank: a number >= 1")
    return asked


def token_count(text: str) -> float:
    """``--tokens``: 15e12 or 15T."""
    found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?\d+)?)\s*([KMBTkmbt]?)", text.strip())
    try:
        count = float(found.group(1)) * TOKEN_UNITS[found.group(2).upper()] if found else math.nan
    except ValueError:
        count = math.nan
    if not (math.isfinite(count) and count > 0):
        raise InputError("--tokens", text, "a number of tokens > 0, such as 15e12 or 15T")
    return count


LARGEST = 1e9  # no sequence, batch or memory is near it; larger numbers overflow further on


def _positive(option: str, value: float, allowed: str) -> None:
    if value > LARGEST:
        raise InputError(option, value, f"{allowed}, at most {LARGEST:.0e}")
    if not (math.isfinite(value) and value > 0):
        raise InputError(option, value, allowed)


def say(message: str) -> None:
    """Talk goes to standard error; standard output is the result."""
    print(f"autodeploy: {message}", file=sys.stderr)

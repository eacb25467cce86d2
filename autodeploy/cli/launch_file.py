"""A launch file as MODEL: what it says fills what the command leaves open; the command wins, and what differs is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autodeploy.errors import InputError

if TYPE_CHECKING:
    from autodeploy.cli.case import CaseOptions
    from autodeploy.launch import Launch
    from autodeploy.stacks import Program
    from cost_models.inputs import HardwareProfile, ModelSpec

DEFAULTS = {"seq_length": 4096, "global_batch": 1024, "precision": "bf16"}
WORDS = {"seq_length": "sequence length", "global_batch": "global batch", "precision": "precision"}


def filled(options: CaseOptions, launch: Launch | None) -> CaseOptions:
    """The options with sequence, batch and precision: as typed, else the file's, else the defaults."""
    from autodeploy.cli.case import say

    found: dict[str, Any] = {}
    for name, default in DEFAULTS.items():
        typed, written = getattr(options, name), getattr(launch, name, None)
        found[name] = typed if typed is not None else written if written is not None else default
        if launch is None:
            continue
        if typed is not None and written is not None and typed != written:
            say(f"{launch.source}: --{name.replace('_', '-')} {typed} wins over its {written}")
        elif typed is None and written is None:
            say(f"{launch.source}: it says no {WORDS[name]}: {default}")
    return replace(options, **found)


def tell(launch: Launch) -> None:
    """What was taken because the file says nothing, and what of it is not modelled."""
    from autodeploy.cli.case import say

    for text in launch.defaults:
        say(f"{launch.source}: it does not say, so taken: {text}")
    for text in launch.ignored:
        say(f"{launch.source}: not modelled: {text}")


def backend_of(launch: Launch | None, hardware: HardwareProfile) -> str:
    """The file's program where it runs on the machine, else the machine's own."""
    from autodeploy.cli.case import say
    from autodeploy.strategy.rules import programs_for

    if launch is None:
        return hardware.backend
    if launch.backend in programs_for(hardware):
        return launch.backend
    say(f"{launch.source}: {launch.backend} does not run on {hardware.name}: priced as on {hardware.backend}")
    return hardware.backend


def with_stated(
    program: Program, launch: Launch, model: ModelSpec, hardware: HardwareProfile, precision: str
) -> Program:
    """The program with what the file states otherwise than the stack; --set wins."""
    from autodeploy.stacks.apply import context_of
    from autodeploy.stacks.fields import stack_fields

    fields = stack_fields()
    usual = program.stack.values(context_of(model, hardware, precision))
    stated = {}
    for name, value in launch.stated.items():
        if name == "attention_kernel" and usual.get(name, "auto") == "auto" and value != "unfused":
            continue  # the machine's best is such a kernel
        if value != usual.get(name, fields[name].default):
            stated[name] = value
    return replace(program, chosen={**stated, **program.chosen})


def strategy_text(typed: str | None, launch: Launch | None, tokens: list[str]) -> str:
    """STRATEGY as typed, or the file's; ``tokens``: what options add to it (they replace what the file says)."""
    from autodeploy.cli.case import say

    if typed is not None:
        if launch is not None and str(launch.strategy) != typed:
            say(f"{launch.source}: STRATEGY {typed} wins over its {launch.strategy}")
        return "/".join([typed, *tokens])
    if launch is None:
        raise InputError("STRATEGY", None, "given, such as TP8/PP4/VPP2", "or name a launch script as MODEL")
    return _changed(launch, tokens)


def _changed(launch: Launch, tokens: list[str]) -> str:
    from autodeploy.cli.case import say
    from autodeploy.strategy.notation import Strategy, parse_strategy

    plain = Strategy()
    changes: dict[str, Any] = {}
    for token in tokens:
        parsed = parse_strategy(token)
        if token.startswith(("full", "selective", "none")):
            changes |= {"recompute": parsed.recompute, "recompute_layers": parsed.recompute_layers}
        else:
            columns = ("micro_batch", "zero_stage", "schedule")
            changes |= {
                name: getattr(parsed, name) for name in columns if getattr(parsed, name) != getattr(plain, name)
            }
            changes |= {"micro_batch": 1} if token == "MBS1" else {"zero_stage": 1} if token == "ZeRO1" else {}
    strategy = replace(launch.strategy, **changes)
    if changes and strategy != launch.strategy:
        say(f"{launch.source}: {'/'.join(tokens)} wins: {strategy} instead of its {launch.strategy}")
    return str(strategy)


def devices_text(typed: str | None, launch: Launch | None) -> str:
    """--devices as typed, or the file's number of cards."""
    from autodeploy.cli.case import say

    if typed is None:
        if launch is None or launch.devices is None:
            raise InputError("--devices", None, "the number of cards", "such as --devices 64")
        return str(launch.devices)
    if launch is not None and launch.devices is not None and typed != str(launch.devices):
        say(f"{launch.source}: --devices {typed} wins over its {launch.devices}")
    return str(typed)

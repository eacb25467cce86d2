"""``autodeploy export``: launch settings of one strategy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, OneStrategy

if TYPE_CHECKING:
    from autodeploy.launch import Launch

To = Annotated[str, typer.Option("--to", help="megatron, mindspeed, megatron-bridge, torchtitan or deepspeed.")]
Hardware = Annotated[str | None, typer.Option("--hardware", help="Profile name or YAML file. [by --to]")]
Devices = Annotated[str | None, typer.Option("--devices", help="Cards. [from DP in STRATEGY]")]
Output = Annotated[Path | None, typer.Option("--output", help="File for the settings instead of standard output.")]


def export(
    model: opt.Model,
    to: To,
    strategy: opt.StrategyText = None,
    hardware: Hardware = None,
    devices: Devices = None,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    precision: opt.Precision = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    output: Output = None,
) -> None:
    """Write the launch settings of STRATEGY for a training program: complete, commented, accepted by its parser.

    Exit codes: 0 written, 2 bad input, or something that the program cannot express.
    """
    from autodeploy.cli.output import check_writable, emit
    from autodeploy.export.targets import target_named

    check_writable("--output", output)
    target = target_named(to)
    options = CaseOptions(
        model=model, hardware=hardware or target.hardware, seq_length=seq_length, global_batch=global_batch,
        precision=precision, backend=target.backend, imbalance=None, memory_cap=None, tokens=None, price=None,
        stack=stack, set=set,
    )  # fmt: skip
    emit(_text(options, OneStrategy(strategy=strategy, devices=devices), to).rstrip("\n"), output)


def _text(options: CaseOptions, one: OneStrategy, to: str) -> str:
    from autodeploy.cli.case import load_case
    from autodeploy.cli.launch_file import strategy_text
    from autodeploy.export import export_text, job_of

    loaded = load_case(options)
    strategy = strategy_text(one.strategy, loaded.launch, [])
    devices = _devices(one.devices, loaded.launch, strategy)
    job = job_of(strategy, loaded.case, devices=devices, backend=loaded.backend, program=loaded.program)
    return export_text(job, to)


def _devices(typed: str | None, launch: Launch | None, strategy: str) -> int:
    """As typed, or the launch file's, or those that DP makes."""
    from autodeploy.cli.estimate import one_count
    from autodeploy.cli.launch_file import devices_text
    from autodeploy.strategy.notation import parse_strategy

    s = parse_strategy(strategy)
    if typed is None and s.dp:
        return s.tp * s.cp * s.pp * s.dp
    return one_count(devices_text(typed, launch), "export")

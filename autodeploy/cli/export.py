"""``autodeploy export``: launch settings of one strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions

To = Annotated[str, typer.Option("--to", help="megatron, mindspeed, megatron-bridge, torchtitan or deepspeed.")]
Hardware = Annotated[str | None, typer.Option("--hardware", help="Profile name or YAML file. [by --to]")]
Devices = Annotated[str | None, typer.Option("--devices", help="Cards. [from DP in STRATEGY]")]
Output = Annotated[Path | None, typer.Option("--output", help="File for the settings instead of standard output.")]


def export(
    model: opt.Model,
    strategy: opt.StrategyText,
    to: To,
    hardware: Hardware = None,
    devices: Devices = None,
    seq_length: opt.SeqLength = 4096,
    global_batch: opt.GlobalBatch = 1024,
    precision: opt.Precision = "bf16",
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
    emit(_text(options, strategy, devices, to).rstrip("\n"), output)


def _text(options: CaseOptions, strategy: str, devices: str | None, to: str) -> str:
    from autodeploy.cli.case import load_case
    from autodeploy.export import export_text, job_of

    loaded = load_case(options)
    job = job_of(
        strategy, loaded.case, devices=_devices(devices, strategy), backend=loaded.backend, program=loaded.program
    )
    return export_text(job, to)


def _devices(text: str | None, strategy: str) -> int:
    from autodeploy.cli.estimate import one_count
    from autodeploy.errors import InputError
    from autodeploy.strategy.notation import parse_strategy

    if text is not None:
        return one_count(text, "export")
    s = parse_strategy(strategy)
    if not s.dp:
        raise InputError("--devices", None, "the number of cards", f"give it, or DP in {strategy}")
    return s.tp * s.cp * s.pp * s.dp

"""``autodeploy compare``: two strategies of a model side by side; either may be a launch file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, load_case

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from autodeploy.strategy.notation import Strategy

First = Annotated[str, typer.Argument(metavar="A", help="STRATEGY or launch file. [MODEL's own, where B is left out]")]
Second = Annotated[str | None, typer.Argument(metavar="[B]", help="STRATEGY or launch file.")]


def compare(
    model: opt.Model,
    first: First,
    hardware: opt.Hardware,
    second: Second = None,
    devices: opt.Devices = None,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    precision: opt.Precision = None,
    backend: opt.Backend = None,
    imbalance: opt.Imbalance = None,
    vocab_size: opt.VocabSize = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    memory_cap: opt.MemoryCap = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Compare A with B: where the time goes in each, cause by cause, and what each difference is worth alone.

    `compare MODEL A B`, or `compare FILE B` where FILE is a launch file: its own settings are A.

    Exit codes: 0 compared, 2 bad input.
    """
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    case = CaseOptions(
        model=model, hardware=hardware, seq_length=seq_length, global_batch=global_batch, precision=precision,
        backend=backend, imbalance=imbalance, memory_cap=memory_cap, tokens=None, price=None, stack=stack, set=set,
        vocab_size=vocab_size,
    )  # fmt: skip
    document = _document(case, devices, [first] if second is None else [first, second])

    def table() -> str:
        from autodeploy.report.explain_table import compare_table

        return compare_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["causes"], common_columns(document))

    emit(render(format, document, table, csv), output)


def _document(case: CaseOptions, cards: str | None, named: list[str]) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import one_count
    from autodeploy.cli.launch_file import devices_text
    from autodeploy.explain import compare_document
    from autodeploy.explain.pricing import Setting
    from autodeploy.report.documents import document_head

    loaded = load_case(case)
    a, b = _both(named, loaded)
    devices = one_count(devices_text(cards, loaded.launch), "compare")
    setting = Setting(case=loaded.case, devices=devices, backend=loaded.backend)
    head = document_head("autodeploy.compare/1", case_of(loaded), devices)
    return compare_document(a, b, setting, head)


def _both(named: list[str], loaded: LoadedCase) -> tuple[Strategy, Strategy]:
    from autodeploy.errors import InputError

    if len(named) == 2:
        return _strategy(named[0], loaded), _strategy(named[1], loaded)
    if loaded.launch is None:
        raise InputError("B", None, "a strategy or a launch file", "compare MODEL A B, or name a launch file as MODEL")
    return loaded.launch.strategy, _strategy(named[0], loaded)


def _strategy(text: str, loaded: LoadedCase) -> Strategy:
    """The notation, or a launch file's strategy; what of the file does not count here is told."""
    from autodeploy.cli.case import say
    from autodeploy.launch import is_launch_file, read_launch
    from autodeploy.strategy.notation import parse_strategy

    if not is_launch_file(text):
        return parse_strategy(text, loaded.backend)
    launch = read_launch(text, vocab=loaded.model.vocab)
    if launch.model.layers != loaded.model.layers:
        say(f"{launch.source}: its model is not {loaded.model.name}: its strategy alone is compared")
    work = loaded.workload
    for name, mine in (("seq_length", work.seq_length), ("global_batch", work.global_batch)):
        theirs = getattr(launch, name)
        if theirs not in (None, mine):
            say(f"{launch.source}: compared at {name.replace('_', ' ')} {mine}, not at its {theirs}")
    return launch.strategy

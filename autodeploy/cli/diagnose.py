"""``autodeploy diagnose``: a training log against the prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, OneStrategy

Log = Annotated[str, typer.Argument(metavar="LOG", help="Training log with its dump of arguments and its iterations.")]


def diagnose(
    log: Log,
    hardware: opt.Hardware,
    devices: opt.Devices = None,
    backend: opt.Backend = None,
    imbalance: opt.Imbalance = None,
    vocab_size: opt.VocabSize = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Hold a run's log against its prediction: the gap, what would explain it, and what to change.

    Exit codes: 0 diagnosed, 2 bad input.
    """
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    case = CaseOptions(
        model=log, hardware=hardware, seq_length=None, global_batch=None, precision=None, backend=backend,
        imbalance=imbalance, memory_cap=None, tokens=None, price=None, stack=stack, set=set, vocab_size=vocab_size,
    )  # fmt: skip
    document = _document(case, devices)

    def table() -> str:
        from autodeploy.report.diagnose_table import diagnose_table

        return diagnose_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["explanations"], common_columns(document))

    emit(render(format, document, table, csv), output)


def _document(case: CaseOptions, devices: str | None) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.errors import InputError
    from autodeploy.explain.diagnose import Run, diagnose_document
    from autodeploy.explain.explain import steps_document
    from autodeploy.explain.log_facts import measured_in
    from autodeploy.explain.pricing import Setting
    from autodeploy.launch import is_launch_file
    from autodeploy.models.files import read_text
    from autodeploy.one_strategy import replayed_s
    from autodeploy.report.documents import estimate_document
    from autodeploy.strategy.convert import batch_to_strategy

    if not is_launch_file(case.model):
        raise InputError("LOG", case.model, "a training log that dumps its arguments at the start")
    measured = measured_in(read_text(Path(case.model)), case.model)
    loaded, batch, cost = load_and_price(case, OneStrategy(strategy=None, devices=devices), "diagnose")
    head = estimate_document(case_of(loaded), batch, cost, simulated_s=replayed_s(loaded.case, batch))
    setting = Setting(case=loaded.case, devices=int(batch.devices[0]), backend=loaded.backend)
    run = Run(strategy=batch_to_strategy(batch, 0), setting=setting, program=loaded.program)
    return diagnose_document(run, measured, head, head.pop("estimate"), steps_document(run.strategy, setting))

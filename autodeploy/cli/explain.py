"""``autodeploy explain``: why a strategy costs what it does, and what one step along each axis would change."""

from __future__ import annotations

from typing import Any

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, OneStrategy


def explain(
    model: opt.Model,
    hardware: opt.Hardware,
    strategy: opt.StrategyText = None,
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
    """Say what binds STRATEGY and why, and what one step along each axis would gain or cost, and why it is not taken.

    Exit codes: 0 explained (whether it fits or not), 2 bad input.
    """
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    case = CaseOptions(
        model=model, hardware=hardware, seq_length=seq_length, global_batch=global_batch, precision=precision,
        backend=backend, imbalance=imbalance, memory_cap=memory_cap, tokens=None, price=None, stack=stack, set=set,
        vocab_size=vocab_size,
    )  # fmt: skip
    document = _document(case, OneStrategy(strategy=strategy, devices=devices))

    def table() -> str:
        from autodeploy.report.explain_table import explain_table

        return explain_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["steps"], common_columns(document))

    emit(render(format, document, table, csv), output)


def _document(case: CaseOptions, one: OneStrategy) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.explain import explain_document
    from autodeploy.explain.pricing import Setting
    from autodeploy.one_strategy import replayed_s
    from autodeploy.report.documents import estimate_document
    from autodeploy.strategy.convert import batch_to_strategy

    loaded, batch, cost = load_and_price(case, one, "explain")
    head = estimate_document(case_of(loaded), batch, cost, simulated_s=replayed_s(loaded.case, batch))
    entry = head.pop("estimate")
    setting = Setting(case=loaded.case, devices=int(batch.devices[0]), backend=loaded.backend)
    return explain_document(batch_to_strategy(batch, 0), setting, head, entry)

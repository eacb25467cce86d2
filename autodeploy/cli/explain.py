"""``autodeploy explain``: why a strategy costs what it does, and what one step along each axis would change."""

from __future__ import annotations

from typing import Any

from autodeploy.cli import options as opt


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
    given = {
        "model": model, "strategy": strategy, "hardware": hardware, "devices": devices, "seq_length": seq_length,
        "global_batch": global_batch, "precision": precision, "backend": backend, "imbalance": imbalance,
        "vocab_size": vocab_size, "stack": stack, "set": set, "memory_cap": memory_cap,
    }  # fmt: skip
    document = _document(given)

    def table() -> str:
        from autodeploy.report.explain_table import explain_table

        return explain_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["steps"], common_columns(document))

    emit(render(format, document, table, csv), output)


def _document(given: dict[str, Any]) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.explain import explain_document
    from autodeploy.explain.pricing import Setting
    from autodeploy.report.documents import estimate_document
    from autodeploy.search.real_parts import replayed_s
    from autodeploy.strategy.convert import batch_to_strategy

    unused = ("tokens", "price_per_device_hour", "micro_batch", "recompute", "schedule", "zero")
    loaded, batch, cost = load_and_price(given | dict.fromkeys(unused), "explain")
    head = estimate_document(case_of(loaded), batch, cost, simulated_s=replayed_s(loaded.case, batch))
    entry = head.pop("estimate")
    setting = Setting(case=loaded.case, devices=int(batch.devices[0]), backend=loaded.backend)
    return explain_document(batch_to_strategy(batch, 0), setting, head, entry)

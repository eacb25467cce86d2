"""``autodeploy estimate``: prices one strategy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, LoadedCase, OneStrategy, load_case

if TYPE_CHECKING:
    from cost_models.step import StepCost
    from cost_models.strategies import StrategyBatch

DOES_NOT_FIT = 3


def estimate(
    model: opt.Model,
    hardware: opt.Hardware,
    strategy: opt.StrategyText = None,
    devices: opt.Devices = None,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    precision: opt.Precision = None,
    backend: opt.Backend = None,
    imbalance: opt.Imbalance = None,
    spare_experts: opt.SpareExperts = None,
    vocab_size: opt.VocabSize = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    memory_cap: opt.MemoryCap = None,
    tokens: opt.Tokens = None,
    price_per_device_hour: opt.Price = None,
    micro_batch: opt.AxisMicroBatch = None,
    recompute: opt.AxisRecompute = None,
    schedule: opt.AxisSchedule = None,
    zero: opt.AxisZero = None,
    measured: opt.Measured = None,
    format: opt.Format = "table",
    report: opt.Report = None,
    output: opt.Output = None,
) -> None:
    """Price one STRATEGY for MODEL: step time and memory by cause, MFU, tokens/s, every pipeline rank.

    Exit codes: 0 fits, 2 bad input, 3 does not fit (the result is printed all the same).
    """
    from autodeploy.cli.output import check_format, check_report, check_writable, emit, render, write_report

    check_format(format)
    check_writable("--output", output)
    check_report(report)
    case = CaseOptions(
        model=model, hardware=hardware, seq_length=seq_length, global_batch=global_batch, precision=precision,
        backend=backend, imbalance=imbalance, memory_cap=memory_cap, tokens=tokens, price=price_per_device_hour,
        stack=stack, set=set, vocab_size=vocab_size, spare_experts=spare_experts,
    )  # fmt: skip
    one = OneStrategy(
        strategy=strategy, devices=devices, micro_batch=micro_batch, recompute=recompute, schedule=schedule, zero=zero
    )
    document = _run(case, one, measured or [])

    def table() -> str:
        from autodeploy.report.estimate_table import estimate_table

        return estimate_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv([document["estimate"]], common_columns(document))

    write_report(report, document)
    emit(render(format, document, table, csv), output)
    if not document["estimate"]["fits"]:
        raise typer.Exit(DOES_NOT_FIT)


def _run(case: CaseOptions, one: OneStrategy, measured: list[Path]) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.decisions import asked_of
    from autodeploy.one_strategy import decision_on, replayed_s
    from autodeploy.report.documents import estimate_document

    loaded, batch, cost = load_and_price(case, one, "estimate")
    step_s = replayed_s(loaded.case, batch)
    asked = asked_of({"measured": measured}, loaded.case, loaded.backend, int(batch.devices[0]))
    decision = decision_on(asked, loaded.case, batch, cost, step_s)
    return estimate_document(case_of(loaded), batch, cost, simulated_s=step_s, decision=decision)


def load_and_price(options: CaseOptions, one: OneStrategy, command: str) -> tuple[LoadedCase, StrategyBatch, StepCost]:
    """The case and its one strategy, priced by rank."""
    from autodeploy.cli.launch_file import devices_text, strategy_text
    from autodeploy.one_strategy import price_one

    loaded = load_case(options)
    devices = one_count(devices_text(one.devices, loaded.launch), command)
    text = strategy_text(one.strategy, loaded.launch, one.tokens)
    batch, cost = price_one(text, loaded.case, devices, loaded.backend)
    return loaded, batch, cost


def one_count(text: str, command: str) -> int:
    """One number of cards."""
    from autodeploy.cli.ranges import card_counts
    from autodeploy.errors import InputError

    counts = card_counts(text, 1)
    if len(counts) != 1:
        raise InputError("--devices", text, f"one number of cards for {command}", "search takes ranges")
    return counts[0]

"""``autodeploy estimate``: prices one strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from autodeploy.cli import options as opt

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from cost_models.step import StepCost
    from cost_models.strategies import StrategyBatch

DOES_NOT_FIT = 3
CASE = (
    "model",
    "hardware",
    "seq_length",
    "global_batch",
    "precision",
    "backend",
    "imbalance",
    "spare_experts",
    "vocab_size",
    "stack",
    "set",
    "memory_cap",
    "tokens",
)
# Options that say what a token of the notation says: (option, token).
TOKENS_OF = {"micro_batch": "MBS{}", "zero": "ZeRO{}", "recompute": "{}", "schedule": "{}"}


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
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Price one STRATEGY for MODEL: step time and memory by cause, MFU, tokens/s, every pipeline rank.

    Exit codes: 0 fits, 2 bad input, 3 does not fit (the result is printed all the same).
    """
    given = dict(locals())
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    document = _run(given)

    def table() -> str:
        from autodeploy.report.estimate_table import estimate_table

        return estimate_table(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv([document["estimate"]], common_columns(document))

    emit(render(format, document, table, csv), output)
    if not document["estimate"]["fits"]:
        raise typer.Exit(DOES_NOT_FIT)


def _run(given: dict[str, Any]) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.report.documents import estimate_document
    from autodeploy.search.real_parts import replayed_s

    loaded, batch, cost = load_and_price(given, "estimate")
    return estimate_document(case_of(loaded), batch, cost, simulated_s=replayed_s(loaded.case, batch))


def load_and_price(given: dict[str, Any], command: str) -> tuple[LoadedCase, StrategyBatch, StepCost]:
    """The case and its one strategy, priced by rank."""
    from autodeploy.cli.case import CaseOptions, load_case
    from autodeploy.cli.launch_file import devices_text, strategy_text
    from autodeploy.search.real_parts import price_one

    typed: dict[str, Any] = {name: given.get(name) for name in CASE}
    options = CaseOptions(**typed, price=given["price_per_device_hour"])
    loaded = load_case(options)
    devices = one_count(devices_text(given, loaded.launch), command)
    text = strategy_text(given, loaded.launch, tokens_of(given))
    batch, cost = price_one(text, loaded.case, devices, loaded.backend)
    return loaded, batch, cost


def tokens_of(given: dict[str, Any]) -> list[str]:
    """Tokens that options add. A thing said twice is refused by the parser of the notation."""
    return [form.format(given[name]) for name, form in TOKENS_OF.items() if given[name] not in (None, "none")]


def one_count(text: str, command: str) -> int:
    """One number of cards."""
    from autodeploy.cli.ranges import card_counts
    from autodeploy.errors import InputError

    counts = card_counts(text, 1)
    if len(counts) != 1:
        raise InputError("--devices", text, f"one number of cards for {command}", "search takes ranges")
    return counts[0]

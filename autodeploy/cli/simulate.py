"""``autodeploy simulate``: replays one step of one strategy event by event."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli.case import CaseOptions, OneStrategy

MOST_PASSES = 400_000  # some 10 s and 1 GiB
DOES_NOT_FIT = 3
PICTURES = (".svg", ".html")
Trace = Annotated[Path | None, typer.Option("--trace", help="Chrome / Perfetto JSON of the whole step.")]
Picture = Annotated[Path | None, typer.Option("--picture", help="Timeline as .svg or self-contained .html.")]
Window = Annotated[
    str | None, typer.Option("--window", help="Seconds a:b of the step that the picture shows. [all of it]")
]


def simulate(
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
    trace: Trace = None,
    picture: Picture = None,
    window: Window = None,
    format: opt.Format = "table",
    report: opt.Report = None,
    output: opt.Output = None,
) -> None:
    """Replay one step of STRATEGY: step time, bubble, lanes of every pipeline rank, masked expert communication, memory.

    Exit codes: 0 fits, 2 bad input, 3 does not fit (the result is printed all the same).
    """
    from autodeploy.cli.output import check_format, check_report, check_writable, emit, render, write_report

    check_format(format)
    for option, path in (("--output", output), ("--trace", trace), ("--picture", picture)):
        check_writable(option, path)
    check_report(report)
    window_s = _checked_window(picture, window)
    case = CaseOptions(
        model=model, hardware=hardware, seq_length=seq_length, global_batch=global_batch, precision=precision,
        backend=backend, imbalance=imbalance, memory_cap=memory_cap, tokens=tokens, price=price_per_device_hour,
        stack=stack, set=set, vocab_size=vocab_size, spare_experts=spare_experts,
    )  # fmt: skip
    one = OneStrategy(
        strategy=strategy, devices=devices, micro_batch=micro_batch, recompute=recompute, schedule=schedule, zero=zero
    )
    document, step = _run(case, one)
    _write_files(step, trace, picture, window_s)
    if report is not None:
        from autodeploy.schedule.picture import svg

        write_report(report, document, svg(step.result, 0, window_s))

    def table() -> str:
        from autodeploy.report.simulate_table import simulate_table

        return simulate_table(document, step, window_s, colour=output is None and sys.stdout.isatty())

    def csv() -> str:
        from autodeploy.report.simulate_table import ranks_csv

        return ranks_csv(document)

    emit(render(format, document, table, csv), output)
    if not document["estimate"]["fits"]:
        raise typer.Exit(DOES_NOT_FIT)


def _run(case: CaseOptions, one: OneStrategy) -> tuple[dict[str, Any], Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.replay import simulate_strategy
    from autodeploy.report.simulate_document import simulate_document

    loaded, batch, cost = load_and_price(case, one, "simulate")
    _check_size(batch, loaded.workload.global_batch)
    step = simulate_strategy(loaded.case, batch)
    return simulate_document(case_of(loaded), batch, cost, step), step


def _check_size(batch: Any, global_batch: int) -> None:
    """Every pass of every chunk is an event: a million of them would take minutes and gigabytes."""
    from autodeploy.errors import InputError

    micro_batches = int(batch.micro_batches(global_batch)[0])
    passes = micro_batches * int(batch.pp[0]) * int(batch.vpp[0])
    if passes > MOST_PASSES:
        told = f"{micro_batches} micro-batches over {int(batch.pp[0])} x {int(batch.vpp[0])} chunks"
        remedy = "the steady state repeats: replay a smaller --global-batch, or use estimate"
        raise InputError("--global-batch", told, f"at most {MOST_PASSES} passes of a chunk", remedy)


def _checked_window(picture: Path | None, window: str | None) -> tuple[float, float] | None:
    from autodeploy.errors import InputError

    if picture is not None and picture.suffix not in PICTURES:
        raise InputError("--picture", str(picture), f"a file that ends in {' or '.join(PICTURES)}")
    if window is None:
        return None
    start, colon, end = window.partition(":")
    try:
        found = float(start or 0), float(end)
    except ValueError:
        found = (0.0, 0.0)
    if not colon or not 0 <= found[0] < found[1] < float("inf"):
        raise InputError("--window", window, "seconds start:end with 0 <= start < end, such as 1.5:2")
    return found


def _write_files(step: Any, trace: Path | None, picture: Path | None, window_s: tuple[float, float] | None) -> None:
    from autodeploy.errors import InputError
    from autodeploy.schedule.picture import html_page, svg
    from autodeploy.schedule.trace import trace_json

    length_s = float(step.result.pipeline_s[0])
    if window_s is not None and window_s[0] >= length_s:
        raise InputError("--window", f"{window_s[0]}:{window_s[1]}", f"within the {length_s:.3f} s of the pipeline")
    if trace is not None:
        _write("--trace", trace, trace_json(step.result))
    if picture is not None:
        draw = svg if picture.suffix == ".svg" else html_page
        _write("--picture", picture, draw(step.result, 0, window_s))


def _write(option: str, path: Path, text: str) -> None:
    from autodeploy.files.write import write_text

    write_text(path, text, option)

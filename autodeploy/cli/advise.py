"""``autodeploy advise``: from a launch file, or a model, to what to run: one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli import search_options as more
from autodeploy.cli.case import CaseOptions, load_case

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from autodeploy.search import SearchRequest

NOTHING_FEASIBLE = 3


def advise(
    model: opt.Model,
    hardware: opt.Hardware,
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
    seed: more.Seed = 0,
    export_dir: more.ExportDir = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Advise on MODEL, best a launch file: what it costs now, the single changes that gain most, the decision of a
    search with its probabilities, the trials worth running, and with --export-dir their launch settings.

    Exit codes: 0 advised, 2 bad input, 3 nothing fits (the nearest miss is printed).
    """
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    case = CaseOptions(
        model=model, hardware=hardware, seq_length=seq_length, global_batch=global_batch, precision=precision,
        backend=backend, imbalance=imbalance, memory_cap=memory_cap, tokens=None, price=None, stack=stack, set=set,
        vocab_size=vocab_size,
    )  # fmt: skip
    document = _document(case, devices, seed, export_dir)

    def table() -> str:
        from autodeploy.report.advise_table import advise_page

        return advise_page(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["trials"], common_columns(document))

    emit(render(format, document, table, csv), output)
    if document["decision"] is None:
        raise typer.Exit(NOTHING_FEASIBLE)


def _document(options: CaseOptions, cards: str | None, seed: int, folder: Path | None) -> dict[str, Any]:
    from autodeploy.cli.case import case_of
    from autodeploy.cli.estimate import one_count
    from autodeploy.cli.export_rows import export_rows
    from autodeploy.cli.launch_file import devices_text
    from autodeploy.cli.progress import progress_bar
    from autodeploy.decide.question import Asked
    from autodeploy.explain.advise import advise_document
    from autodeploy.explain.own import own_row
    from autodeploy.report.documents import search_document
    from autodeploy.search import SearchRequest, run_search

    loaded = load_case(options)
    devices = one_count(devices_text(cards, loaded.launch), "advise")
    request = SearchRequest(case=loaded.case, backend=loaded.backend, devices=(devices,), seed=seed)
    with progress_bar() as progress:
        result = run_search(request, progress=progress, asked=Asked(seed=seed))
    found = search_document(case_of(loaded), result)
    if loaded.launch is not None:
        found["own"] = own_row(loaded.launch.strategy, loaded.case, request, found["ranked"])
    document = advise_document(found, _steps(loaded, request))
    if folder is not None:
        rows = {"ranked": document["trials"]}
        document["exported"] = [
            str(path) for path in export_rows(rows, loaded, folder, max(len(document["trials"]), 1))
        ]
    return document


def _steps(loaded: LoadedCase, request: SearchRequest) -> list[dict[str, Any]]:
    """One step along each axis from what runs now; nothing where that is not known or cannot be run."""
    from autodeploy.explain.explain import steps_document
    from autodeploy.explain.pricing import Setting

    if loaded.launch is None:
        return []
    setting = Setting(case=loaded.case, devices=request.devices[0], backend=loaded.backend)
    return steps_document(loaded.launch.strategy, setting)

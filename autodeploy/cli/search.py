"""``autodeploy search``: ranks strategies."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import typer

from autodeploy.cli import options as opt
from autodeploy.cli import search_options as more

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from autodeploy.search import SearchRequest, SearchResult

NOTHING_FEASIBLE = 3
INTERRUPTED = 130


def search(
    model: opt.Model,
    hardware: more.Machines,
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
    phase: more.Phase = None,
    within: more.Within = None,
    max_cost: more.MaxCost = None,
    mtbf_hours: more.Mtbf = None,
    checkpoint_gb_per_s: more.CheckpointRate = 100.0,
    restart_s: more.Restart = 600.0,
    picture: more.PlanPicture = None,
    tp: more.AxisTp = None,
    pp: more.AxisPp = None,
    vpp: more.AxisVpp = None,
    cp: more.AxisCp = None,
    ep: more.AxisEp = None,
    etp: more.AxisEtp = None,
    dp: more.AxisDp = None,
    micro_batch: opt.AxisMicroBatch = None,
    micro_batch_group: more.AxisGroup = None,
    recompute: opt.AxisRecompute = None,
    schedule: opt.AxisSchedule = None,
    zero: opt.AxisZero = None,
    dispatcher: more.AxisDispatcher = None,
    ep_overlap: more.AxisEpOverlap = None,
    sequence_parallel: more.AxisSequenceParallel = None,
    offload: more.AxisOffload = None,
    swap: more.AxisSwap = None,
    layout: more.AxisLayout = None,
    objective: more.Objective = "time",
    method: more.Method = "auto",
    trials: more.Trials = None,
    timeout: more.Timeout = None,
    storage: more.Storage = None,
    study: more.Study = None,
    workers: more.Workers = None,
    seed: more.Seed = 0,
    audit: more.Audit = False,
    top: more.Top = 20,
    all_variants: more.AllVariants = False,
    rank_by: more.RankBy = "expected",
    fit_probability: more.FitProbability = 0.9,
    measured: opt.Measured = None,
    rejected: more.Rejected = None,
    export_dir: more.ExportDir = None,
    export_top: more.ExportTop = 3,
    format: opt.Format = "table",
    report: opt.Report = None,
    output: opt.Output = None,
) -> None:
    """Rank parallel strategies for MODEL on a number of cards.

    Axes (--tp, --pp, ...): one value fixes an axis, 1,2,4 or 1..8 narrows it, no option leaves it free.

    Exit codes: 0 ranked, 2 bad input, 3 nothing fits (the nearest misses are printed), 130 stopped by Ctrl-C (what was
    found until then is ranked).

    Examples:

    autodeploy search llama-3.1-70b --hardware h100-sxm --devices 64 --global-batch 512

    autodeploy search deepseek-v3 --hardware h800 --devices 2048 --pp 8,16 --ep 32..64

    autodeploy search pretrain.sh --hardware h100-sxm --export-dir out

    autodeploy search qwen3-32b --hardware h100-sxm,h200 --devices 64..512 --tokens 5T --within 60d
    """
    given = dict(locals())
    from autodeploy.cli.job import run_job
    from autodeploy.cli.output import check_format, check_report, check_writable, emit, render, write_report

    check_format(format)
    check_writable("--output", output)
    check_writable("--rejected", rejected)
    check_writable("--picture", picture)
    check_report(report)
    document = run_job(given, _run)

    def table() -> str:
        from autodeploy.report.explain_table import own_line
        from autodeploy.report.table import search_table

        return "\n".join([search_table(document), *own_line(document)])

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv(document["ranked"], common_columns(document))

    write_report(report, document)
    emit(render(format, document, table, csv), output)
    if document["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if not document["ranked"]:
        raise typer.Exit(NOTHING_FEASIBLE)


def _run(given: dict[str, Any]) -> tuple[dict[str, Any], LoadedCase]:
    """One machine: its document and its case."""
    from autodeploy.cli.case import CaseOptions, case_of, load_case
    from autodeploy.cli.progress import progress_bar
    from autodeploy.report.documents import search_document

    names = (
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
    loaded = load_case(CaseOptions(**{name: given[name] for name in names}, price=given["price_per_device_hour"]))
    request = _request(given, loaded)
    with progress_bar() as progress:
        result = _search(given, request, progress)
    if not result.enumerated and not result.misses:
        _refuse(given, result)
    document = search_document(case_of(loaded), result)
    if loaded.launch is not None:
        from autodeploy.explain.own import own_row

        document["own"] = own_row(loaded.launch.strategy, loaded.case, request, document["ranked"])
    if given["export_dir"] is not None:
        from autodeploy.cli.export_rows import export_rows

        export_rows(document, loaded, given["export_dir"], given["export_top"])
    return document, loaded


def _refuse(given: dict[str, Any], result: SearchResult) -> None:
    """Nothing valid to price: the input contradicts itself. Names the rules that exclude most."""
    from autodeploy.errors import InputError
    from autodeploy.strategy.axis_table import OPTIONS
    from autodeploy.strategy.rules import RULES

    rules = {rule.name: rule for rule in RULES}
    names = [name for name, _ in result.counts.rejected.most_common() if name in rules][:3]
    options = ("devices", "global_batch", *(name for name in OPTIONS if given[name] is not None))
    typed = " ".join(f"--{name.replace('_', '-')} {given[name]}" for name in options)
    why = "; ".join(f"rule {name}: {rules[name].text}" for name in names)
    raise InputError(
        "options", typed, f"such that some strategy is valid; {why}", rules[names[0]].remedy if names else ""
    )


def _request(given: dict[str, Any], loaded: Any) -> SearchRequest:
    from autodeploy.cli.launch_file import devices_text
    from autodeploy.cli.ranges import card_counts
    from autodeploy.errors import InputError
    from autodeploy.search import SearchRequest
    from autodeploy.strategy.axes import Axes
    from autodeploy.strategy.axis_table import OPTIONS

    axes = Axes.of({name: given[name] for name in OPTIONS if given[name] is not None})
    if isinstance(axes.zero, tuple) and not set(axes.zero) <= {0, 1, 2, 3}:
        raise InputError("--zero", given["zero"], "stages among 0, 1, 2, 3")
    plain = (
        "method",
        "objective",
        "rank_by",
        "top",
        "all_variants",
        "audit",
        "trials",
        "storage",
        "study",
        "workers",
        "seed",
    )
    return SearchRequest(
        case=loaded.case,
        backend=loaded.backend,
        devices=card_counts(devices_text(given["devices"], loaded.launch), loaded.hardware.cards_per_node),
        axes=axes,
        timeout_s=given["timeout"],
        **{name: given[name] for name in plain},
    )


def _search(given: dict[str, Any], request: SearchRequest, progress: Any) -> SearchResult:
    from autodeploy.cli.decisions import asked_of
    from autodeploy.search import run_search

    asked = asked_of(given, request.case, request.backend, max(request.devices))
    if given["rejected"] is None:
        return run_search(request, progress=progress, asked=asked)
    from autodeploy.report.rejected import RejectedWriter

    with RejectedWriter(given["rejected"], request) as writer:
        complete = dataclasses.replace(request, keep_oversized=True)
        result = run_search(complete, progress=progress, on_priced=writer.priced, asked=asked)
        writer.rules(result.counts.rejected)
    return result

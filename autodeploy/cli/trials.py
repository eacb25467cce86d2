"""``autodeploy trials``: what to measure next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from autodeploy.cli import options as opt
from autodeploy.cli import search_options as more

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from autodeploy.decide.plan_trials import TrialPlan
    from autodeploy.search import SearchResult

NOTHING_FEASIBLE = 3
ROWS = 36  # ranked rows that trials choose among
CASE = (
    "model", "hardware", "seq_length", "global_batch", "precision", "backend", "imbalance", "stack", "set", "memory_cap",
    "tokens",
)  # fmt: skip
AXES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch", "recompute", "schedule", "zero", "ep_overlap", "swap",
        "offload")  # fmt: skip
Runs = Annotated[int, typer.Option("--runs", help="Short runs to propose.", min=1, max=ROWS)]
ExportDir = Annotated[Path | None, typer.Option("--export-dir", help="Folder for the launch settings of each run.")]


def trials(
    model: opt.Model,
    hardware: opt.Hardware,
    devices: opt.Devices = None,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    precision: opt.Precision = None,
    backend: opt.Backend = None,
    imbalance: opt.Imbalance = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    memory_cap: opt.MemoryCap = None,
    tokens: opt.Tokens = None,
    tp: more.AxisTp = None,
    pp: more.AxisPp = None,
    vpp: more.AxisVpp = None,
    cp: more.AxisCp = None,
    ep: more.AxisEp = None,
    etp: more.AxisEtp = None,
    dp: more.AxisDp = None,
    micro_batch: opt.AxisMicroBatch = None,
    recompute: opt.AxisRecompute = None,
    schedule: opt.AxisSchedule = None,
    zero: opt.AxisZero = None,
    ep_overlap: more.AxisEpOverlap = None,
    swap: more.AxisSwap = None,
    offload: more.AxisOffload = None,
    runs: Runs = 3,
    measured: opt.Measured = None,
    fit_probability: more.FitProbability = 0.9,
    method: more.Method = "auto",
    study_trials: Annotated[
        int | None,
        typer.Option("--trials", help="Trials of an Optuna study of the search. [200 with a study's method]"),
    ] = None,
    seed: more.Seed = 0,
    export_dir: ExportDir = None,
    format: opt.Format = "table",
    output: opt.Output = None,
) -> None:
    """Say which short runs and microbenchmarks are worth their cards before MODEL is trained, and what each would settle.

    Feed the log of a run back with --measured and ask again, until no trial is worth its cost.

    Exit codes: 0 answered, 2 bad input, 3 nothing fits.
    """
    given = dict(locals())
    from autodeploy.cli.output import check_format, check_writable, emit, render

    check_format(format)
    check_writable("--output", output)
    document = _run(given)

    def table() -> str:
        from autodeploy.report.trials_document import trials_text

        return trials_text(document)

    def csv() -> str:
        from autodeploy.report.csv_text import common_columns, entries_csv

        return entries_csv([*document["trials"], *document["microbenchmarks"]], common_columns(document))

    emit(render(format, document, table, csv), output)


def _run(given: dict[str, Any]) -> dict[str, Any]:
    from autodeploy.cli.case import CaseOptions, case_of, load_case
    from autodeploy.cli.decisions import asked_of
    from autodeploy.cli.estimate import one_count
    from autodeploy.cli.launch_file import devices_text
    from autodeploy.cli.progress import progress_bar
    from autodeploy.report.documents import ranked_entries
    from autodeploy.report.trials_document import trials_document
    from autodeploy.search import SearchRequest, run_search
    from autodeploy.strategy.axes import Axes

    loaded = load_case(CaseOptions(**{name: given[name] for name in CASE}, price=None))
    devices = one_count(devices_text(given["devices"], loaded.launch), "trials")
    request = SearchRequest(
        case=loaded.case, backend=loaded.backend, devices=(devices,), method=given["method"], top=ROWS, seed=given["seed"],
        axes=Axes.of({name: given[name] for name in AXES if given[name] is not None}), trials=given["study_trials"],
    )  # fmt: skip
    asked = asked_of(given, loaded.case, loaded.backend, devices)
    with progress_bar() as progress:
        result = run_search(request, progress=progress, asked=asked)
    case = case_of(loaded)
    entries = ranked_entries(case, result)
    if not entries:
        from autodeploy.cli.case import say

        say("nothing fits: search says what comes closest")
        raise typer.Exit(NOTHING_FEASIBLE)
    plan = _plan(given, loaded, result, entries)
    chosen = [one.row for one in plan.runs if one.row is not None]
    settings = {row: _settings(str(entries[row]["strategy"]), loaded, devices, given["export_dir"]) for row in chosen}
    return trials_document(case, entries, plan, settings, given["seed"])


def _plan(
    given: Mapping[str, Any], loaded: LoadedCase, result: SearchResult, entries: list[dict[str, Any]]
) -> TrialPlan:
    from autodeploy.decide.plan_trials import plan_trials

    assert result.ranking is not None and result.ranking.decision is not None
    decision = result.ranking.decision
    job_tokens = loaded.tokens
    workload = loaded.workload
    steps = None if job_tokens is None else job_tokens / (workload.global_batch * workload.seq_length)
    devices = np.array([entry["devices"] for entry in entries], dtype=float)
    return plan_trials(decision, devices, steps, given["runs"], _measured_rows(decision))


def _measured_rows(decision: Any) -> Any:
    """Rows of which a run of the case itself is at hand: the same place on every axis."""
    evidence = decision.question.evidence
    if evidence is None:
        return np.zeros(len(decision.expected_s), dtype=bool)
    own = {row.tobytes() for row in evidence.rows.levels[evidence.case == 0]}
    return np.array([row.tobytes() in own for row in decision.question.rows.levels])


def _settings(strategy: str, loaded: LoadedCase, devices: int, folder: Path | None) -> dict[str, Any]:
    """The launch settings of one trial, or why there are none."""
    from autodeploy.errors import InputError
    from autodeploy.export import TARGETS, export_text, job_of, suffix_of
    from cost_models.errors import ConfigError

    target = loaded.backend if loaded.backend in TARGETS else "megatron"
    try:
        job = job_of(strategy, loaded.case, devices=devices, backend=loaded.backend, program=loaded.program)
        text = export_text(job, target)
    except (ConfigError, NotImplementedError) as error:
        return {"settings": None, "settings_refused": str(error)}
    if folder is None:
        return {"settings": text, "settings_for": target}
    path = folder / f"{strategy.replace('/', '_')}{suffix_of(target)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError("--export-dir", str(folder), "a folder that can be written", str(error.strerror)) from error
    return {"settings": text, "settings_for": target, "settings_file": str(path)}

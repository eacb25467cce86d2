"""``autodeploy sweep``: a matrix of searches to JSON lines and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodeploy.cli import options as opt

if TYPE_CHECKING:
    from autodeploy.sweep import Cell, Sweep

OK, BAD_INPUT, NOTHING_FEASIBLE = 0, 2, 3
STATUS = {OK: "ranked", BAD_INPUT: "bad-input", NOTHING_FEASIBLE: "nothing-fits"}

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="YAML: models, hardware, devices, ... and options of search.")
]
ShardText = Annotated[str | None, typer.Option("--shard", help="Part i of n, such as 2/8 (job arrays).")]
EngineName = Annotated[str, typer.Option("--engine", help="local, or dask (extra dask).")]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help="Address of a Dask scheduler. [started here]")]
Workers = Annotated[int, typer.Option("--workers", help="Processes that run cells.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="File for one CSV row per ranked strategy, beside --output.")]
Lines = Annotated[
    Path | None, typer.Option("--output", help="JSON lines, one per cell; cells that it holds are not run again.")
]


def sweep(
    file: File,
    shard: ShardText = None,
    engine: EngineName = "local",
    scheduler: Scheduler = None,
    workers: Workers = 1,
    csv: Csv = None,
    format: opt.Format = "table",
    output: Lines = None,
) -> None:
    """Run a matrix of searches: models x hardware x devices x sequence x batch x precision x back end x stack.

    Killed or stopped, run the same command again: it goes on with the cells that OUTPUT lacks.

    Exit codes: 0 done, 2 bad input (of the file, or of a cell: the other cells are run), 3 nothing fits in any cell.
    """
    from autodeploy.cli.output import check_format, check_writable, emit
    from autodeploy.report.sweep_table import sweep_csv, sweep_lines, sweep_table
    from autodeploy.sweep import Shard, read_matrix

    check_format(format)
    check_writable("--output", output)
    check_writable("--csv", csv)
    cells = read_matrix(file).cells(None if shard is None else Shard.of(shard))
    result = _run(cells, output, _engine(engine, workers, scheduler))
    if csv is not None:
        emit(sweep_csv(result.records), csv)
    render = {"table": sweep_table, "csv": sweep_csv, "json": sweep_lines}[format]
    if format != "json" or output is None:
        emit(render(result.records), None)
    raise typer.Exit(_code(result.records))


def _engine(name: str, workers: int, scheduler: str | None) -> Any:
    from autodeploy.errors import InputError
    from autodeploy.sweep.engines import ENGINES
    from autodeploy.sweep.run import Engine

    if name not in ENGINES:
        raise InputError("--engine", name, f"one of {', '.join(ENGINES)}")
    if workers < 1:
        raise InputError("--workers", workers, "a whole number >= 1")
    if scheduler is not None and name != "dask":
        raise InputError("--scheduler", scheduler, "given together with --engine dask")
    return Engine(name=name, workers=workers, scheduler=scheduler)


def _run(cells: list[Cell], output: Path | None, engine: Any) -> Sweep:
    from autodeploy.cli.case import say
    from autodeploy.cli.progress import progress_bar
    from autodeploy.sweep import ResultFile, run_sweep

    results = ResultFile(output)
    if results.cut_bytes:
        say(f"{output}: a torn last line ({results.cut_bytes} bytes) was cut off; its cell is run again")
    try:
        with progress_bar() as progress:
            result = run_sweep(cells, results, run_cell, engine, content=_content(cells), progress=progress)
    except KeyboardInterrupt:
        kept = f"kept in {output}: run the same command to go on" if output else "lost: give --output to keep them"
        say(f"stopped; {len(results.records)} finished cells are {kept}")
        raise
    if result.skipped:
        say(f"{result.skipped} of {len(result.records)} cells were done before")
    return result


def _content(cells: list[Cell]) -> dict[str, str]:
    """Hashes of what the models and machines say, by name, so that an edited file is a new question. What cannot be read
    has none: its cell says why."""
    import hashlib

    from autodeploy.hardware import load_hardware
    from autodeploy.models import load_model
    from cost_models.errors import ConfigError

    found: dict[str, str] = {}
    for name in {str(cell.columns["model"]) for cell in cells}:
        try:
            found[name] = hashlib.sha256(repr(load_model(name)).encode()).hexdigest()[:16]
        except ConfigError:
            continue
    for name in {str(cell.columns["hardware"]) for cell in cells}:
        try:
            found[name] = load_hardware(name).sha256[:16]
        except ConfigError:
            continue
    return found


def run_cell(argv: list[str]) -> dict[str, Any]:
    """One search in this process, through the command line's own contract; or one piece of scenarios."""
    if argv[0] == "scenarios":
        return _scenarios(*argv[1:])
    import contextlib
    import io
    import json
    import tempfile
    import time

    from autodeploy.cli.app import main

    began = time.monotonic()
    talk = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "search.json"
        with contextlib.redirect_stderr(talk), contextlib.redirect_stdout(io.StringIO()):
            code = main([*argv, "--format", "json", "--output", str(path)])
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if code == 130:
        raise KeyboardInterrupt
    ranked, said = document.get("ranked", []), talk.getvalue().strip().splitlines()
    status = STATUS.get(code, "failed")
    return {
        "status": status,
        "error": said[-1].removeprefix("autodeploy: error: ") if status in ("bad-input", "failed") and said else None,
        "ranked": ranked,
        "nearest": document.get("nearest", []),
        "space": document.get("space", {}),
        "elapsed_s": time.monotonic() - began,
    }


def _scenarios(case_text: str, asked_text: str) -> dict[str, Any]:
    import dataclasses
    import json
    import time

    from autodeploy.cli.case import CaseOptions, load_case
    from autodeploy.strategy.convert import strategy_to_batch
    from autodeploy.strategy.notation import parse_strategy
    from autodeploy.sweep.scenarios import replay_part
    from cost_models.errors import ConfigError

    began = time.monotonic()
    named, asked = json.loads(case_text), json.loads(asked_text)
    record: dict[str, Any] = {"error": None, "ranked": [], "nearest": [], "space": {}}
    blank = dict.fromkeys(field.name for field in dataclasses.fields(CaseOptions)) | {
        "seq_length": 4096,
        "global_batch": 1024,
        "precision": "bf16",
    }
    try:
        devices = int(named.pop("devices"))
        loaded = load_case(CaseOptions(**{**blank, **named}))
        batches = {
            text: strategy_to_batch(parse_strategy(text, loaded.backend), loaded.model, devices, loaded.backend)
            for text in asked["strategies"]
        }
        record |= {"status": "simulated", "scenarios": replay_part(loaded.case, batches, asked)}
    except ConfigError as error:
        record |= {"status": "bad-input", "error": str(error)}
    return record | {"elapsed_s": time.monotonic() - began}


def _code(records: tuple[dict[str, Any], ...]) -> int:
    found = {record["status"] for record in records}
    if found & {"bad-input", "failed"}:
        return BAD_INPUT
    return OK if found & {"ranked", "simulated"} or not records else NOTHING_FEASIBLE

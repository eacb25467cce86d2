"""``autodeploy calibrate``: measurements in, a fitted hardware profile out, with the error of every fit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli.output import check_format, check_writable, emit, render
from autodeploy.errors import InputError
from autodeploy.report.csv_text import entries_csv

SCHEMA = "autodeploy.calibrate/1"


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Operator tables (CSV), prints of nccl-tests, rccl-tests or hccl_test, Megatron or MindSpeed logs, "
            "folders of reference runs."
        ),
    ],
    base: Annotated[str, typer.Option("--base", help="Profile name or YAML that gives what is not measured.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the new profile. [BASE-calibrated]")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the profile (YAML) here.")] = None,
    format: Annotated[
        str, typer.Option("--format", help="table, json or csv of the errors, or yaml: the profile.")
    ] = "table",
) -> None:
    """Fits a hardware profile to your own measurements.

    The result is a profile that extends BASE. stdout shows the error of every fit, or with --format yaml the profile.
    """
    from autodeploy.calibrate.run import calibrate as fit_all
    from autodeploy.calibrate.write import user_profile, write

    if format != "yaml":
        check_format(format)
    check_writable("--output", output)
    _check_apart(output, [("--base", Path(base)), *(("a measurement", path) for path in files)])
    base_name, document = _base(base)
    tables, runs = _read(files)
    result = fit_all(tables, document, runs)
    own_name = name or f"{document['name']}-calibrated"
    profile = user_profile(own_name, base_name, result.fits)
    if output is not None:
        write(output, profile)
        _check(output)
        print(f"wrote {output}: use it with --hardware {output}", file=sys.stderr)
    for source, reason in result.skipped:
        print(f"not used: {source}: {reason}", file=sys.stderr)
    rows = [_row(fitted) for fitted in result.fitted]
    shown = {"schema": SCHEMA, "name": own_name, "base": document["name"], "fits": rows,
             "skipped": [{"source": source, "reason": reason} for source, reason in result.skipped],
             "profile": str(output) if output else None}  # fmt: skip
    emit(
        profile if format == "yaml" else render(format, shown, lambda: _table(rows), lambda: entries_csv(rows, {})),
        None,
    )


def _check_apart(output: Path | None, inputs: Sequence[tuple[str, Path]]) -> None:
    """The new profile extends its base: written over it, both would be lost."""
    for name, path in inputs:
        if output is not None and output.exists() and path.exists() and output.samefile(path):
            raise InputError("--output", str(output), f"another file than {name}", "the new profile extends the base")


def _base(base: str) -> tuple[str, dict[str, Any]]:
    """(what the new profile extends, the base's whole document)."""
    from autodeploy.hardware.document import read_document
    from autodeploy.hardware.library import find_profile
    from autodeploy.hardware.load import is_path, load_hardware

    load_hardware(base)  # a user's base is validated before it is built upon
    path = Path(base) if is_path(base) else find_profile(base)
    document, _ = read_document(path)
    return (str(path.resolve()) if is_path(base) else path.stem), document


def _read(files: list[Path]) -> tuple[list[Any], Any]:
    """Tables of the files, and the runs of the folders among them."""
    from autodeploy.calibrate.read import read_measurements
    from autodeploy.calibrate.run import Runs

    folders = [path for path in files if path.is_dir()]
    tables = read_measurements(path for path in files if not path.is_dir())
    if not folders:
        return tables, None
    from autodeploy.accuracy import merge, read_runs

    run_set = merge([read_runs(folder) for folder in folders])
    return tables, Runs(tuple(run for run in run_set.runs if run.gated and run.step_time_s), run_set.models)


def _check(output: Path) -> None:
    from autodeploy.hardware.load import load_hardware

    try:
        load_hardware(output)
    except InputError as error:
        raise InputError(
            f"{output}: {error.field}", error.value, error.allowed, "please report this: the file is ours"
        ) from error


def _row(fitted: Any) -> dict[str, Any]:
    error = fitted.error
    return {
        "curve": ".".join(fitted.path),
        "rows": error.rows,
        "median_ape_frac": round(error.median_ape_frac, 5),
        "p90_ape_frac": round(error.p90_ape_frac, 5),
        "held_out_median_ape_frac": error.held_out_median_ape_frac,
        "held_out_p90_ape_frac": error.held_out_p90_ape_frac,
        "at_bound": " ".join(error.at_bound),
        "data": fitted.entry["data"],
    }


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'fit':<34} {'rows':>5} {'median %':>8} {'p90 %':>6} {'held out %':>10}  data"]
    for row in rows:
        held_out = row["held_out_median_ape_frac"]
        figures = f"{100 * row['median_ape_frac']:>8.1f} {100 * row['p90_ape_frac']:>6.1f}"
        other = "-" if held_out is None else f"{100 * held_out:.1f}"
        bound = f"  (at its bound: {row['at_bound']})" if row["at_bound"] else ""
        lines.append(f"{row['curve']:<34} {row['rows']:>5} {figures} {other:>10}  {row['data']}{bound}")
    return "\n".join(lines)

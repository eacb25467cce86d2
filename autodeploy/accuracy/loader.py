"""Measured runs: a folder of CSV files, one row per run, and one ``models.yaml`` with their model shapes.

The columns are explained in ``runs/README.md``. An empty cell was not stated by the source and is None here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from autodeploy.errors import InputError
from autodeploy.files import csv_rows, parse_json, parse_yaml, read_text

EIGHT_BIT_PREFIXES = ("fp8", "mxfp8", "nvfp4", "fp4")  # reported together as "fp8": every 8- and 4-bit recipe


Count = Annotated[int, Field(ge=1, le=10**9)]
Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run, as published; field names are the CSV's columns."""

    id: str
    group: str
    family: str
    source: str
    model: str
    kind: str
    complete: bool
    device: str
    suspect: str | None = None
    missing: str | None = None
    seq_length: Count | None = None
    num_devices: Count | None = None
    devices_per_node: Count | None = None
    network: str | None = None
    tp: Count | None = None
    pp: Count | None = None
    vpp: Count | None = None
    cp: Count | None = None
    ep: Count | None = None
    etp: Count | None = None
    dp: Count | None = None
    micro_batch: Count | None = None
    global_batch: Count | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    recompute_modules: str | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = None
    fsdp: bool | None = None
    precision: str | None = None
    schedule: str | None = None
    attention_kernel: str | None = None
    tp_overlap: bool | None = None
    grad_reduce_overlap: bool | None = None
    param_gather_overlap: bool | None = None
    p2p_overlap: bool | None = None
    ep_overlap: bool | None = None
    moe_dispatcher: str | None = None
    moe_capacity_factor: Share | None = None
    routing: str | None = None
    pipeline_layout: str | None = None
    cuda_graph: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    step_time_s: Amount | None = None
    step_time_from: str | None = None
    uncertainty_frac: Share | None = None
    tflops_per_device: Amount | None = None
    mfu: Share | None = None
    flops_convention: str | None = None
    peak_memory_gib: Amount | None = None
    memory_kind: str | None = None
    oom: bool | None = None
    peer: str | None = None
    peer_step_time_s: Amount | None = None
    peer_memory_gib: Amount | None = None
    notes: str | None = None

    @property
    def precision_class(self) -> str:
        """``fp8`` for every 8- and 4-bit recipe, else ``bf16``."""
        return "fp8" if (self.precision or "").startswith(EIGHT_BIT_PREFIXES) else "bf16"

    @property
    def report_group(self) -> str:
        """Source / precision: the unit of the accuracy table."""
        return f"{self.group}/{self.precision_class}"

    @property
    def gated(self) -> bool:
        """Complete and without a ``suspect`` mark: what the gates are over."""
        return self.complete and not self.suspect


@dataclass(frozen=True, slots=True)
class RunSet:
    """The runs of one folder and the shapes of the models they trained."""

    runs: tuple[Run, ...]
    models: Mapping[str, Mapping[str, Any]]
    model_files: Mapping[str, str] = field(
        default_factory=dict
    )  # where MODEL finds an entry; absent: among the shipped
    refused: Mapping[str, str] = field(default_factory=dict)  # rows that cannot be read: id -> what is wrong


_RUN = TypeAdapter(Run)


def shipped_runs() -> Path:
    """The folder of published runs that ships with the package."""
    return Path(str(resources.files("autodeploy.accuracy") / "runs"))


def read_runs(folder: Path | None = None) -> RunSet:
    """Every row of every CSV file in ``folder`` (default: the shipped runs), and its ``models.yaml``."""
    folder = folder or shipped_runs()
    if not folder.is_dir():
        raise InputError("RUNS", str(folder), "a folder of CSV files with a models.yaml")
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise InputError(
            "RUNS", str(folder), "a folder with at least one CSV file", "see the README of the shipped runs"
        )
    models_file = folder / "models.yaml"
    if not models_file.is_file():
        raise InputError(
            "RUNS", str(folder), "a folder with a models.yaml beside the CSV files", "add the model shapes"
        )
    models = _shipped_models() if folder == shipped_runs() else _models_of(models_file)
    refused: dict[str, str] = {}
    runs = tuple(run for file in files for run in _read_file(file, refused))
    _check(runs, models, refused)
    shipped = models if folder == shipped_runs() else _shipped_models()
    own = {name: str(models_file) for name, entry in models.items() if shipped.get(name) != entry}
    return RunSet(runs, models, own, refused)


def _models_of(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """The shapes of a user's models.yaml: a mapping of names to mappings."""
    models = parse_yaml(read_text(file, "the model shapes of the runs"), str(file))
    if not isinstance(models, dict) or not all(isinstance(entry, dict) for entry in models.values()):
        raise InputError(str(file), type(models).__name__, "a mapping of model names to their shapes")
    return models


def _shipped_models() -> Mapping[str, Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((shipped_runs() / "models.yaml").read_text(encoding="utf-8"), Loader=loader)


def merge(sets: list[RunSet]) -> RunSet:
    """One set; ids must stay unique."""
    models: dict[str, Mapping[str, Any]] = {}
    files: dict[str, str] = {}
    for each in sets:
        models.update(each.models)
        files.update(each.model_files)
    refused = {name: reason for each in sets for name, reason in each.refused.items()}
    runs = tuple(run for each in sets for run in each.runs)
    _check(runs, models, refused)
    return RunSet(runs, models, files, refused)


def _read_file(file: Path, refused: dict[str, str]) -> list[Run]:
    """The rows of one file. A row that cannot be read stands for itself, refused by name, and the others go on."""
    runs = []
    for line, row in enumerate(csv_rows(read_text(file, "reference runs, one row each"), file.name), start=2):
        try:
            runs.append(parse_row(row, f"{file.name} line {line}"))
        except InputError as error:
            named = row.get("id") or f"{file.name} line {line}"
            refused[named] = str(error)
            runs.append(_placeholder(row, named))
    return runs


def _placeholder(row: Mapping[str, str], name: str) -> Run:
    """A row that is reported and not predicted."""
    words: dict[str, Any] = {
        key: row.get(key) or "unknown" for key in ("group", "family", "source", "model", "kind", "device")
    }
    return Run(id=name, complete=False, **words)


def parse_row(row: Mapping[str, str], where: str = "row") -> Run:
    """One CSV row, validated."""
    cells: dict[str, Any] = {name: value for name, value in row.items() if value not in ("", None)}
    if "extra" in cells:
        try:
            cells["extra"] = parse_json(cells["extra"], f"{where}: extra")
        except InputError as error:
            raise InputError(f"{where}: extra", cells["extra"], "a JSON object", str(error.value)) from error
    unknown = [name for name in cells if name not in Run.__dataclass_fields__]
    if unknown:
        raise InputError(
            f"{where}: column", unknown[0], "a column of the reference runs", "see the README of the shipped runs"
        )
    try:
        return _RUN.validate_python(cells)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {name}", cells.get(name), first["msg"].removeprefix("Input should be ")) from error


def _check(runs: tuple[Run, ...], models: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for run in runs:
        if run.id in seen:
            raise InputError("id", run.id, "unique over all CSV files")
        seen.add(run.id)
        if run.model not in models and run.id not in refused:
            raise InputError(f"{run.id}: model", run.model, "a key of models.yaml", "add its shape there")

"""``--measured FILE``: the user's own runs, as evidence on the case that is asked about.

A file is a CSV in the columns of the reference runs, or a training log of Megatron-LM, MindSpeed-LLM, NeMo or torchtitan
that holds its arguments. The runs are taken to be of the user's own program; what they share with the case is that, and the
machine where it is the same card. A run of the same model, sequence, batch, precision and cards is a run of the case itself.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autodeploy.decide.belief import Evidence
from autodeploy.decide.memory import MemoryModel
from autodeploy.decide.parameters import committed
from autodeploy.decide.question import case_memory, case_rows
from autodeploy.decide.rows import Rows
from autodeploy.errors import InputError
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

GIB = 2.0**30
SAME_MACHINE, OTHER_MACHINE = 1.0, 0.5
READABLE = "a CSV in the columns of the reference runs, or a log with its arguments and step times"
WARM_UP_STEPS = 3
NEMO = re.compile(r"train_step_timing in s['\"]?\s*[:=]\s*([\d.]+)")
TITAN = re.compile(r"step:\s*\d+.*?tps:\s*([\d,]+)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRun:
    """One run: its strategy as the twin prices it, and what was measured. None: not measured."""

    name: str
    case: Case
    devices: int
    row: Rows  # of length 1
    step_s: float | None
    noise_sd: float
    peak_log_ratio: float | None  # log(measured peak / predicted)
    died: bool | None
    strategy: str = ""


def read_measured(paths: Iterable[Path], case: Case, backend: str) -> list[MeasuredRun]:
    """The runs of all files, in order."""
    found: list[MeasuredRun] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("--measured", str(path), READABLE, str(error)) from error
        found += _rows_of_csv(text, path) if _is_csv(text) else [_run_of_log(text, path, case, backend)]
    return found


def _is_csv(text: str) -> bool:
    head = text.split("\n", 1)[0].split(",")
    return {"id", "model", "num_devices"} <= {name.strip() for name in head}


def _rows_of_csv(text: str, path: Path) -> list[MeasuredRun]:
    import yaml

    from autodeploy.accuracy.cases import build_cases
    from autodeploy.accuracy.loader import RunSet, parse_row, read_runs
    from autodeploy.accuracy.predict import predict

    runs = tuple(
        parse_row(row, f"{path.name} line {line}") for line, row in enumerate(csv.DictReader(io.StringIO(text)), 2)
    )
    shapes = dict(read_runs().models)
    beside = path.parent / "models.yaml"
    if beside.is_file():
        shapes |= yaml.safe_load(beside.read_text(encoding="utf-8"))
    unknown = next((run.model for run in runs if run.model not in shapes), None)
    if unknown is not None:
        raise InputError(f"{path.name}: model", unknown, "a model of models.yaml", "put a models.yaml beside the file")
    cases = build_cases(RunSet(runs, shapes), runs)
    predictions, failed = predict(cases.cases)
    for name, why in (cases.skipped | failed).items():
        raise InputError(f"{path.name}: {name}", "a run", "one that can be priced", why)
    from autodeploy.decide.memory_data import died, peak_log_ratio
    from autodeploy.decide.problems import Judged, row_of

    found = []
    for one in (Judged(each, predictions[each.run.id], False) for each in cases.cases):
        noise = one.case.run.uncertainty_frac or 0.0
        found.append(
            MeasuredRun(
                name=one.case.run.id, case=one.case.case, devices=int(one.case.run.num_devices or 0), row=row_of(one),
                step_s=one.case.run.step_time_s, noise_sd=noise, peak_log_ratio=peak_log_ratio(one), died=died(one),
            )
        )  # fmt: skip
    return found


def _run_of_log(text: str, path: Path, case: Case, backend: str) -> MeasuredRun:
    """The arguments say what was run; the steps after the warm-up how long one took, and how well that is known."""
    from autodeploy.launch.read import launch_of_text
    from autodeploy.strategy.convert import strategy_to_batch
    from cost_models.errors import ConfigError
    from cost_models.step import evaluate

    try:
        launch = launch_of_text(text, path.name)
    except ConfigError as error:
        raise InputError(
            f"--measured {path.name}", str(error), READABLE, "keep the head of the log: its arguments"
        ) from error
    workload = case.workload
    for name in ("seq_length", "global_batch", "precision"):
        if getattr(launch, name) is not None:
            workload = replace(workload, **{name: getattr(launch, name)})
    if launch.devices is None:
        raise InputError(f"--measured {path.name}", "world size", "stated by the log", "keep the line of world_size")
    of_run = Case(model=launch.model, hardware=case.hardware, workload=workload)
    batch = strategy_to_batch(launch.strategy, launch.model, launch.devices, backend, workload.global_batch)
    cost = evaluate(of_run, batch)
    row = case_rows(of_run, batch, cost.time_s, _replayed(of_run, batch, cost.step_s), cost.peak_reserved_bytes)
    dead = bool(re.search(r"OutOfMemoryError|out of memory", text, re.IGNORECASE))
    seconds = step_seconds(text, workload.global_batch * workload.seq_length, launch.devices)
    if not len(seconds) and not dead:
        raise InputError(f"--measured {path.name}", "no step times", READABLE)
    noise = float(np.std(np.log(seconds), ddof=1) / np.sqrt(len(seconds))) if len(seconds) > 1 else 0.0
    return MeasuredRun(
        name=path.name, case=of_run, devices=launch.devices, row=row, noise_sd=noise, peak_log_ratio=None,
        step_s=float(np.median(seconds)) if len(seconds) else None, died=dead, strategy=str(launch.strategy),
    )  # fmt: skip


def step_seconds(text: str, tokens: int, devices: int) -> F64:
    """Seconds of the steps after the warm-up, by whichever line the program prints."""
    from autodeploy.calibrate.parse_logs import is_training_log, parse_log

    if is_training_log(text):
        return parse_log(text, "log").seconds
    nemo = [float(value) for value in NEMO.findall(text)]
    titan = [tokens / devices / float(value.replace(",", "")) for value in TITAN.findall(text)]
    seconds = np.array(nemo or titan)
    return seconds[WARM_UP_STEPS:] if len(seconds) > 3 * WARM_UP_STEPS else seconds


def _replayed(case: Case, batch: StrategyBatch, step_s: F64) -> F64:
    from autodeploy.one_strategy import replayed_s

    replayed = replayed_s(case, batch)
    return step_s if replayed is None else np.array([replayed])


# ------------------------------------------------------------------------------------------- as evidence


def evidence_on(runs: Sequence[MeasuredRun], case: Case, devices: int) -> Evidence | None:
    """The timed runs as they bear on the case; None where there is none. A first choice that was picked for its optimism is
    as much slower than predicted as first choices are on measured problems (never less)."""
    timed = [run for run in runs if run.step_s is not None]
    if not timed:
        return None
    model = committed().model
    numbers = _case_numbers(timed, case, devices)
    ratios = np.array([np.log((run.step_s or 1.0) / run.row.step_s[0]) for run in timed])
    return Evidence(
        rows=Rows.concatenate([with_causes_of(run.row, timed[0].row) for run in timed]),
        log_ratio=ratios - max(model.optimism, 0.0) * (numbers == 0),
        noise_sd=np.hypot(model.noise_sd, np.array([run.noise_sd for run in timed])),
        shared=np.array([_shared(run, case) for run in timed]),
        case=numbers,
    )


def with_causes_of(row: Rows, other: Rows) -> Rows:
    """The same times under the other's causes, in its order; what it lacks is nothing."""
    if row.causes == other.causes:
        return row
    known = dict(zip(row.causes, row.time_s.T, strict=True))
    times = [known.get(cause, np.zeros(len(row))) for cause in other.causes]
    return replace(row, causes=other.causes, time_s=np.stack(times, axis=1))


def is_of_case(run: MeasuredRun, case: Case, devices: int) -> bool:
    """Same model, machine, cards, sequence, batch and precision."""
    alike = (run.devices, *_identity(run.case)) == (devices, *_identity(case))
    return alike and _shared(run, case) == SAME_MACHINE


def _case_numbers(runs: Sequence[MeasuredRun], case: Case, devices: int) -> F64:
    """0 for runs of the case itself; one number for each other case."""
    known: dict[tuple[object, ...], int] = {}
    numbers = []
    for run in runs:
        if is_of_case(run, case, devices):
            numbers.append(0)
        else:
            key = (run.case.hardware.name, run.devices, *_identity(run.case))
            numbers.append(known.setdefault(key, len(known) + 1))
    return np.array(numbers, dtype=float)


def _identity(case: Case) -> tuple[object, ...]:
    """What makes two cases one, but for their machine: models by what they are, not by their names."""
    model, workload = case.model, case.workload
    precision = "16 bit" if workload.precision in ("bf16", "fp16") else workload.precision
    shape = (model.parameters(), model.active_parameters(), model.num_layers, model.hidden)
    return (*shape, workload.seq_length, workload.global_batch, precision)


def _shared(run: MeasuredRun, case: Case) -> float:
    return SAME_MACHINE if run.case.hardware.device.name == case.hardware.device.name else OTHER_MACHINE


SHARED_ERROR_FRAC = (
    0.8  # of the memory model's variance: the stack's, common to its strategies; the rest is each one's own
)
SHIFTS = 401


def memory_given(runs: Sequence[MeasuredRun], case: Case) -> MemoryModel | None:
    """The memory model after the peaks and verdicts of the runs on this card; None where none tells anything."""
    telling = [
        r for r in runs if _shared(r, case) == SAME_MACHINE and (r.peak_log_ratio is not None or r.died is not None)
    ]
    if not telling:
        return None
    from autodeploy.decide.normal import normal_cdf

    prior = case_memory(case)
    shared_sd = prior.sd * np.sqrt(SHARED_ERROR_FRAC)
    own_sd = prior.sd * np.sqrt(1.0 - SHARED_ERROR_FRAC)
    shift = prior.shift + shared_sd * np.linspace(-5, 5, SHIFTS)
    log_weight = -0.5 * ((shift - prior.shift) / shared_sd) ** 2
    for run in telling:
        if run.peak_log_ratio is not None:
            log_weight -= 0.5 * ((run.peak_log_ratio - shift) / own_sd) ** 2
        else:
            died = normal_cdf((np.log(run.row.usage[0]) + shift) / own_sd)
            log_weight += np.log(np.maximum(died if run.died else 1.0 - died, 1e-12))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = float(weight @ shift)
    sd = float(np.sqrt(weight @ (shift - mean) ** 2 + own_sd**2))
    return replace(prior, shift=mean, sd=sd, source=f"{prior.source} and {len(telling)} runs of yours")

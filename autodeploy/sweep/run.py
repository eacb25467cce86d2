"""A sweep from cells to records: what is done is skipped, the rest is run and written down as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodeploy.sweep.engines import Runner, local, on_dask
from autodeploy.sweep.matrix import Cell
from autodeploy.sweep.results import ResultFile

SCHEMA = "autodeploy.sweep/1"
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """``records`` in the order of the cells; ``skipped``: how many of them were there before."""

    records: tuple[dict[str, Any], ...]
    skipped: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """``name`` of ``engines.ENGINES``; ``scheduler``: address of a Dask scheduler."""

    name: str = "local"
    workers: int = 1
    scheduler: str | None = None

    def outcomes(self, jobs: Sequence[tuple[str, list[str]]], runner: Runner) -> Any:
        if self.name == "dask":
            return on_dask(jobs, runner, self.workers, self.scheduler)
        return local(jobs, runner, self.workers)


def run_sweep(
    cells: Sequence[Cell], results: ResultFile, runner: Runner, engine: Engine, *,
    content: Mapping[str, str] | None = None, progress: Progress | None = None,
) -> Sweep:  # fmt: skip
    """``runner`` takes a command line and returns status, error, and what was ranked."""
    began = time.monotonic()
    by_name = {cell.fingerprint(content or {}): cell for cell in cells}
    todo = [(name, cell.argv) for name, cell in by_name.items() if name not in results.records]
    done = len(by_name) - len(todo)
    if progress:
        progress("cells", done, len(by_name))
    for name, outcome in engine.outcomes(todo, runner) if todo else ():
        cell = by_name[name]
        results.append(
            {
                "schema": SCHEMA,
                "fingerprint": name,
                "cell": cell.columns,
                "command": "autodeploy " + _quoted(cell.argv),
                **outcome,
            }
        )
        done += 1
        if progress:
            progress("cells", done, len(by_name))
    records = tuple(results.records[name] for name in by_name)
    return Sweep(records=records, skipped=len(by_name) - len(todo), seconds=time.monotonic() - began)


def _quoted(argv: Sequence[str]) -> str:
    import shlex

    return shlex.join(argv)

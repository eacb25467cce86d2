"""Predicted against measured on published training runs, and the gate that keeps it so."""

from importlib import resources
from pathlib import Path

from autodeploy.accuracy.compare import Report, RunResult, compare
from autodeploy.accuracy.loader import Run, RunSet, merge, read_runs, shipped_runs


def shipped_baseline() -> Path:
    """The committed figures that the gate compares with."""
    return Path(str(resources.files("autodeploy.accuracy") / "baseline.json"))


__all__ = ["Report", "Run", "RunResult", "RunSet", "compare", "merge", "read_runs", "shipped_baseline", "shipped_runs"]

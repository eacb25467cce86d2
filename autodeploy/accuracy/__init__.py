"""Predicted against measured on published training runs, and the gate that keeps it so."""

from autodeploy.accuracy.compare import Report, RunResult, compare
from autodeploy.accuracy.loader import Run, RunSet, merge, read_runs, shipped_runs

__all__ = ["Report", "Run", "RunResult", "RunSet", "compare", "merge", "read_runs", "shipped_runs"]

"""What a Megatron or MindSpeed training log measured: step times, timers, memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from autodeploy.calibrate.parse_logs import parse_log

GIB, MIB = 2**30, 2**20
_TIMER = re.compile(r"^\s*([a-z][a-z0-9-]+) \.{3,}: \(([\d.]+), ([\d.]+)\)", re.MULTILINE)
_MEMORY = re.compile(r"memory \(MB\).*?max reserved:\s*([\d.]+)")
# Timers of Megatron (--timing-log-level) -> causes of the twin. The larger number is the slowest rank's.
CAUSE_OF = {
    "optimizer-inner-step": "optimizer", "optimizer": "optimizer", "all-grads-sync": "dp_comm",
    "grads-reduce-scatter": "dp_comm", "grads-all-reduce": "dp_comm",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds of a step: median, and the 10th and 90th percentile; 0 where the log has no memory line."""

    step_s: float
    low_s: float
    high_s: float
    steps: int
    peak_reserved_bytes: float
    timers_s: dict[str, float]


def measured_in(text: str, source: str) -> Measured:
    """InputError where the log has no iteration lines."""
    seconds = parse_log(text, source).seconds
    reserved = [float(found) * MIB for found in _MEMORY.findall(text)]
    return Measured(
        step_s=float(np.median(seconds)),
        low_s=float(np.quantile(seconds, 0.1)),
        high_s=float(np.quantile(seconds, 0.9)),
        steps=int(seconds.size),
        peak_reserved_bytes=max(reserved, default=0.0),
        timers_s=_timers(text),
    )


def _timers(text: str) -> dict[str, float]:
    """Seconds by cause, the median over the log's dumps of each timer's slowest rank."""
    found: dict[str, list[float]] = {}
    for name, _, slowest in _TIMER.findall(text):
        if name in CAUSE_OF:
            found.setdefault(name, []).append(float(slowest) * 1e-3)
    causes: dict[str, float] = {}
    for name, values in found.items():
        cause = CAUSE_OF[name]
        causes[cause] = max(causes.get(cause, 0.0), float(np.median(values)))
    return causes

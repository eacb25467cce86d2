"""What no fit may use: three whole sources, put aside before mechanisms were chosen, and three tenths of all families."""

from __future__ import annotations

from collections.abc import Iterable

from autodeploy.accuracy import metrics
from autodeploy.accuracy.loader import Run

# Chosen on 2026-12-01, before the first fit and the first mechanism of the work on stacks: no constant, no mechanism and no
# default of a stack is chosen with their residuals in view. One of them is of mixtures of experts (mcore_moe_report).
SOURCES = ("mcore_moe_report", "megatron_h100_2024", "nemo_launcher")


def held_out_families(runs: Iterable[Run]) -> frozenset[str]:
    """The families that no fit may use."""
    groups: dict[str, set[str]] = {}
    aside: set[str] = set()
    for run in runs:
        groups.setdefault(run.report_group, set()).add(run.family)
        if run.group in SOURCES:
            aside.add(run.family)
    return metrics.held_out_families(groups) | aside

"""What the decisions must keep to: the limits of the gate, over the figures of ``accuracy --decisions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BRIER = {"folds": 0.075, "leave_source_out": 0.085}
CALIBRATION = {"folds": 0.04, "leave_source_out": 0.10}
ERRORS = 2.0  # standard errors on top: one of ten bins is off by one more often than not
ENOUGH_PAIRS = 200
WORSE_THAN_PREDICTED = 0.005  # regret that the simplest of the tie may cost
FIT = (
    ("said_95_ran", 0.95, True),
    ("said_5_ran", 0.05, False),
    ("ran_said_90", 0.80, True),
    ("died_said_50", 0.70, True),
)
ENOUGH_RUNS = 20
COVERAGE = (0.85, 0.95)
MEASURED_ONE = 0.11  # median error after one run on another cluster
WORSE_THAN_TOP = 0.0025  # regret that k trials may cost beyond the first k rows: two problems of 169 decide on as much


def decision_violations(decisions: Mapping[str, Any]) -> list[str]:
    """Why the gate fails; empty: it passes, or there is nothing to judge."""
    if not decisions.get("problems"):
        return []
    found = []
    for name in ("folds", "leave_source_out"):
        found += [f"decisions {name}: {text}" for text in _of_protocol(decisions[name], name)]
        found += [f"decisions {name}: {text}" for text in _of_fit(decisions["fit"][name])]
    one = decisions["measured_one"]
    if one["median_error_after"] > MEASURED_ONE:
        found.append(
            f"decisions: one run on another cluster leaves {one['median_error_after']:.1%}, allowed {MEASURED_ONE:.0%}"
        )
    if not COVERAGE[0] <= one["coverage"] <= COVERAGE[1]:
        found.append(f"decisions: the band after one run covers {one['coverage']:.1%}, must be {COVERAGE}")
    return found


def _of_protocol(figures: Mapping[str, Any], name: str) -> list[str]:
    found = []
    if figures["brier"] is not None and figures["brier"] > BRIER[name]:
        found.append(f"Brier score {figures['brier']:.4f}, allowed {BRIER[name]}")
    for row in figures["calibration"]:
        off = abs(row["said"] - row["right"])
        if row["pairs"] >= ENOUGH_PAIRS and off > CALIBRATION[name] + ERRORS * row["standard_error"]:
            found.append(f"pairs said {row['said']:.2f} are right {row['right']:.2f} of the time")
    regret = figures["regret"]
    if regret["simplest"]["mean"] > regret["predicted"]["mean"] + WORSE_THAN_PREDICTED:
        found.append(f"the simplest of the tie loses {regret['simplest']['mean']:.2%}")
    for k, planned in regret["trials_k"].items():
        if planned["mean"] > regret["top_k"][k]["mean"] + WORSE_THAN_TOP:
            found.append(f"{k} trials lose {planned['mean']:.2%}, the first {k} rows {regret['top_k'][k]['mean']:.2%}")
    return found


def _of_fit(figures: Mapping[str, Any]) -> list[str]:
    if figures["died"] < ENOUGH_RUNS:
        return []
    found = []
    for key, limit, at_least in FIT:
        value = figures[key]
        if value is not None and (value < limit if at_least else value > limit):
            found.append(f"{key} is {value:.3f}, must be {'>=' if at_least else '<='} {limit:g}")
    return found

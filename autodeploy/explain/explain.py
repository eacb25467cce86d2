"""``explain``: what binds a strategy and why, in words, and what one step along each axis would gain or cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.explain.pricing import GIB, Priced, Setting, price_all
from autodeploy.explain.steps import Step, steps_from
from autodeploy.report.binding import WORDS
from autodeploy.strategy.notation import Strategy

COMMUNICATION = ("tp_comm", "ep_comm", "cp_comm", "dp_comm", "pp_comm")
CLOSE_FRAC = 0.005  # of the step: no difference worth a word
WHY = {
    "bubble": "stages wait for each other: more micro-batches, more chunks (VPP) or fewer stages shorten it",
    "recompute": "parts of the forward run twice to save memory: what fits without them is faster",
    "tp_comm": "activations are gathered and summed in every layer: a smaller TP, or its overlap, sheds it",
    "ep_comm": "tokens travel to their experts and back: overlap, a smaller EP or a dispatcher by node sheds it",
    "cp_comm": "keys and values travel between the parts of a sequence: a smaller CP sheds it",
    "dp_comm": "gradients are reduced once a step: more micro-batches, or overlap, spread it thinner",
    "pp_comm": "activations pass between stages: larger micro-batches or fewer stages need fewer transfers",
    "optimizer": "every card updates its share: sharding it wider, or fused kernels, shortens it",
    "overhead": "the host issues more slowly than the card computes: larger micro-batches help",
    "straggler": "all cards wait for the slowest",
}


def explain_document(
    strategy: Strategy, setting: Setting, head: Mapping[str, Any], entry: Mapping[str, Any]
) -> dict[str, Any]:
    """``autodeploy.explain/1``. ``entry``: the estimate of the strategy, with its ranks."""
    steps = steps_document(strategy, setting)
    return {
        **head,
        "schema": "autodeploy.explain/1",
        "estimate": entry,
        "binds": {"what": entry["binds"], "why": _why(entry, head["memory_cap_gib"])},
        "slowest_rank": _slowest(entry),
        "largest_exposed": _exposed(entry),
        "steps": steps,
        "advice": _advice(steps),
    }


def steps_document(strategy: Strategy, setting: Setting) -> list[dict[str, Any]]:
    """One step along each axis, those that gain most first; empty where the strategy itself cannot be run."""
    around = steps_from(strategy, setting.case, setting.backend)
    now, *others = price_all([strategy, *(step.strategy for step in around)], setting)
    if now.refused:
        return []
    steps = [_row(step, then, now) for step, then in zip(around, others, strict=True)]
    steps.sort(
        key=lambda row: (not row["better"], row["refused"] is not None, row["gain_s"] is None, -(row["gain_s"] or 0.0))
    )
    return steps


def _row(step: Step, then: Priced, now: Priced) -> dict[str, Any]:
    """``gain_s``: seconds of the step saved; None where it cannot be run. ``better``: faster, and it fits."""
    gain = None if then.refused else now.step_s - then.step_s
    better = bool(gain is not None and then.fits and gain > CLOSE_FRAC * now.step_s)
    return {
        "axis": step.axis,
        "change": step.change,
        "strategy": str(step.strategy),
        "step_time_s": None if then.refused else then.step_s,
        "gain_s": gain,
        "gain_frac": None if gain is None else gain / now.step_s,
        "peak_memory_gib": None if then.refused else then.peak_bytes / GIB,
        "fits": None if then.refused else then.fits,
        "refused": then.refused or None,
        "better": better,
        "why_not": _why_not(then, now),
    }


def _why_not(then: Priced, now: Priced) -> str | None:
    """Why the step is not taken; None where it should be."""
    if then.refused:
        return f"not allowed: {then.refused}"
    slower = then.step_s - now.step_s
    if not then.fits:
        gain = f", though {-slower / now.step_s:.1%} faster" if slower < -CLOSE_FRAC * now.step_s else ""
        return f"does not fit: {then.peak_bytes / GIB:.1f} GiB{gain}"
    if slower > CLOSE_FRAC * now.step_s:
        return f"{slower / now.step_s:.1%} slower: {_cause(then, now)}"
    if slower >= -CLOSE_FRAC * now.step_s:
        return "no faster"
    return None


def _cause(then: Priced, now: Priced) -> str:
    """The cause that grows most."""
    grown = {cause: then.time_s.get(cause, 0.0) - now.time_s.get(cause, 0.0) for cause in {*then.time_s, *now.time_s}}
    cause = max(grown, key=lambda name: grown[name])
    return f"{WORDS.get(cause, cause.replace('_', ' '))} +{grown[cause]:.3g} s"


def _why(entry: Mapping[str, Any], cap_gib: float) -> str:
    peak = entry["peak_memory_gib"]
    if peak > cap_gib:
        return f"rank {entry['memory_rank']} needs {peak:.1f} of {cap_gib:.1f} GiB: {_largest(entry['memory_gib'])}"
    if str(entry["binds"]).startswith("memory"):
        return (
            f"rank {entry['memory_rank']} holds {peak:.1f} of {cap_gib:.1f} GiB: {_largest(entry['memory_gib'])}; "
            "a larger micro-batch or less recompute does not fit"
        )
    words = {word: cause for cause, word in WORDS.items()}
    cause = words.get(str(entry["binds"]))
    if cause:
        share = entry["time_s"].get(cause, 0.0) / entry["step_time_s"]
        return f"{share:.0%} of the step: {WHY[cause]}"
    useful = sum(v for k, v in entry["time_s"].items() if k not in WORDS) / entry["step_time_s"]
    return f"{useful:.0%} of the step is useful computing on rank {entry['critical_rank']}, which carries most"


def _largest(memory_gib: Mapping[str, float]) -> str:
    parts = sorted(memory_gib.items(), key=lambda item: -item[1])[:2]
    return " and ".join(f"{name.replace('_', ' ')} {size:.1f} GiB" for name, size in parts)


def _slowest(entry: Mapping[str, Any]) -> dict[str, Any]:
    busy = entry["per_rank"]["busy_s"]
    rank = max(range(len(busy)), key=lambda r: busy[r])
    mean = sum(busy) / len(busy)
    return {"rank": rank, "busy_s": busy[rank], "over_mean_frac": busy[rank] / mean - 1 if mean else 0.0}


def _exposed(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    found = {cause: entry["time_s"].get(cause, 0.0) for cause in COMMUNICATION}
    cause = max(found, key=lambda name: found[name])
    if found[cause] <= 0:
        return None
    return {
        "cause": cause,
        "name": WORDS[cause],
        "exposed_s": found[cause],
        "share": found[cause] / entry["step_time_s"],
    }


def _advice(steps: list[dict[str, Any]]) -> str:
    better = [row for row in steps if row["better"]]
    if not better:
        return "no single step is faster and fits"
    best = better[0]
    return f"{best['change']} is {best['gain_frac']:.1%} faster and fits: {best['strategy']}"

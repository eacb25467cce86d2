"""``compare A B``: where the time goes in each, cause by cause, and what each difference is worth by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autodeploy.explain.pricing import GIB, Priced, Setting, price
from autodeploy.strategy.axis_table import COLUMNS
from autodeploy.strategy.notation import Strategy

# Columns that go together: a schedule without its chunks, or layers without full recompute, is no strategy.
TOGETHER = (
    ("pp", "vpp", "schedule", "layout", "micro_batch_group"), ("recompute", "recompute_layers"),
    ("tp", "sequence_parallel"),
)  # fmt: skip


def compare_document(first: Strategy, second: Strategy, setting: Setting, head: Mapping[str, Any]) -> dict[str, Any]:
    """``autodeploy.compare/1``. Causes sum to the steps, their differences to the difference."""
    a, b = price(first, setting), price(second, setting)
    causes = {} if a.refused or b.refused else _causes(a, b)
    return {
        **head,
        "schema": "autodeploy.compare/1",
        "a": _entry(a),
        "b": _entry(b),
        "difference_s": None if not causes else b.step_s - a.step_s,
        "causes": [{"cause": name, "a_s": x, "b_s": y, "difference_s": y - x} for name, (x, y) in causes.items()],
        "single_changes": [] if a.refused else _singles(a, second, setting),
    }


def _entry(one: Priced) -> dict[str, Any]:
    refused = bool(one.refused)
    return {
        "strategy": str(one.strategy),
        "step_time_s": None if refused else one.step_s,
        "peak_memory_gib": None if refused else one.peak_bytes / GIB,
        "fits": None if refused else one.fits,
        "refused": one.refused or None,
    }


def _causes(a: Priced, b: Priced) -> dict[str, tuple[float, float]]:
    """Seconds in each, largest difference first."""
    names = {*a.time_s, *b.time_s}
    found = {name: (a.time_s.get(name, 0.0), b.time_s.get(name, 0.0)) for name in names}
    return dict(sorted(found.items(), key=lambda item: (-abs(item[1][1] - item[1][0]), item[0])))


def _singles(a: Priced, second: Strategy, setting: Setting) -> list[dict[str, Any]]:
    """What ``a`` would be with each difference of ``second`` alone, most gain first."""
    rows = []
    for columns in _differences(a.strategy, second):
        changed = _changed(a.strategy, second, columns)
        if changed is None:
            continue
        then = price(changed, setting)
        gain = None if then.refused else a.step_s - then.step_s
        rows.append({
            "axes": list(columns), "change": _words(a.strategy, second, columns), "strategy": str(changed),
            "step_time_s": None if then.refused else then.step_s, "gain_s": gain,
            "fits": None if then.refused else then.fits, "refused": then.refused or None,
        })  # fmt: skip
    return sorted(rows, key=lambda row: (row["gain_s"] is None, -(row["gain_s"] or 0.0)))


def _differences(a: Strategy, b: Strategy) -> list[tuple[str, ...]]:
    differ = [name for name in COLUMNS if name != "dp" and getattr(a, name) != getattr(b, name)]
    groups: list[tuple[str, ...]] = []
    for name in differ:
        group = next((group for group in TOGETHER if name in group), (name,))
        if group not in groups:
            groups.append(group)
    return groups


def _changed(a: Strategy, b: Strategy, columns: tuple[str, ...]) -> Strategy | None:
    try:
        return replace(a, dp=0, **{name: getattr(b, name) for name in columns})
    except ValueError:
        return None


def _words(a: Strategy, b: Strategy, columns: tuple[str, ...]) -> str:
    named = [name for name in columns if getattr(a, name) != getattr(b, name)]
    return ", ".join(f"{name} {_said(getattr(a, name))} -> {_said(getattr(b, name))}" for name in named)


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return "default" if value == "" else str(value)

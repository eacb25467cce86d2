"""Axis options -> the restrictions that the enumeration of the space takes."""

from __future__ import annotations

from collections.abc import Mapping

from autodeploy.cli.ranges import outside_parentheses, whole_numbers, words
from autodeploy.errors import InputError
from autodeploy.search.request import AxisValues
from cost_models.strategies import DISPATCHERS, RECOMPUTE_MODULES, SCHEDULES, recompute_mask

WHOLE = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")


def option_of(axis: str) -> str:
    return "--" + axis.replace("_", "-")


def read_axes(options: Mapping[str, object]) -> dict[str, AxisValues]:
    """The axes that were given. Keys are the names of StrategyBatch; recompute is a word or a bit mask."""
    axes: dict[str, AxisValues] = {}
    for name in WHOLE:
        if options.get(name) is not None:
            axes[name] = whole_numbers(option_of(name), str(options[name]))
    if options.get("recompute") is not None:
        axes["recompute"] = _recompute(str(options["recompute"]))
    if options.get("schedule") is not None:
        axes["schedule"] = words("--schedule", str(options["schedule"]), SCHEDULES)
    if options.get("dispatcher") is not None:
        axes["dispatcher"] = words("--dispatcher", str(options["dispatcher"]), DISPATCHERS)
    if options.get("zero") is not None:
        axes["zero_stage"] = tuple(int(w) for w in words("--zero", str(options["zero"]), ("0", "1", "2", "3")))
    if options.get("ep_overlap") is not None:
        axes["ep_overlap"] = (bool(options["ep_overlap"]),)
    return axes


def _recompute(text: str) -> AxisValues:
    """``none``, ``full``, ``selective`` (any set of modules) or ``selective(a,b)`` (this one, as a mask)."""
    found: list[str | int] = []
    for part in outside_parentheses("--recompute", text):
        word = part.lower()
        if word in ("none", "full", "selective"):
            found.append(word)
        elif word.startswith("selective(") and word.endswith(")"):
            modules = [module.strip() for module in word[len("selective(") : -1].split(",")]
            if not all(module in RECOMPUTE_MODULES[:-1] for module in modules):
                raise InputError("--recompute", part, f"selective(...) of {', '.join(RECOMPUTE_MODULES[:-1])}")
            found.append(recompute_mask(modules))
        else:
            raise InputError("--recompute", part, "none, full, selective or selective(MODULE,...)")
    return tuple(found)

"""What a user wants of a job, read from text: ``60d``, ``20M``, ``h100-sxm=2.5,h200=3.5``."""

from __future__ import annotations

import math
import re

from autodeploy.errors import InputError

DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}


def days(text: str, option: str = "--within") -> float:
    """``36h``, ``60d`` or ``8w``; a bare number is days."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw]?)", text.strip().lower())
    value = float(found.group(1)) * DAYS[found.group(2) or "d"] if found else math.nan
    return _positive(option, text, value, "a time > 0 such as 36h, 60d or 8w")


def money(text: str, option: str = "--max-cost") -> float:
    """``20M``, ``500K`` or a number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)([KMB]?)", text.strip().upper())
    value = float(found.group(1)) * UNITS[found.group(2)] if found else math.nan
    return _positive(option, text, value, "an amount > 0 such as 20M or 500K")


def prices(text: str, machines: tuple[str, ...]) -> dict[str, float]:
    """Money per card-hour of each machine: one number for all, or ``NAME=NUMBER`` for each."""
    option = "--price-per-device-hour"
    allowed = f"a number > 0, or NAME=NUMBER for {', '.join(machines)}"
    if "=" not in text:
        return dict.fromkeys(machines, _positive(option, text, _number(text), allowed))
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name.strip() not in machines:
            raise InputError(option, part, allowed, "name the machines as --hardware does")
        found[name.strip()] = _positive(option, part, _number(number), allowed)
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _positive(option: str, text: str, value: float, allowed: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InputError(option, text, allowed)
    return value

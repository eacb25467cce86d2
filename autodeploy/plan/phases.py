"""A job in phases (longer sequences, a growing batch) on one cluster: one strategy per phase, days and cost added up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodeploy.errors import InputError

ALLOWED = "seq=4096,batch=1024,tokens=10T: tokens always; seq and batch where they differ from the options"
SUMS = ("training_days", "days", "days_at_worst", "device_hours", "price", "price_at_worst", "energy_mwh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """``seq_length`` and ``global_batch`` None: as the options of the command say."""

    tokens: str
    seq_length: int | None = None
    global_batch: int | None = None

    @staticmethod
    def of(text: str) -> Phase:
        found: dict[str, str] = {}
        for part in text.split(","):
            name, equals, value = part.strip().partition("=")
            if not equals or name in found or name not in ("seq", "batch", "tokens"):
                raise InputError("--phase", text, ALLOWED)
            found[name] = value
        if "tokens" not in found:
            raise InputError("--phase", text, ALLOWED)
        return Phase(
            tokens=found["tokens"],
            seq_length=_whole(text, found.get("seq")),
            global_batch=_whole(text, found.get("batch")),
        )


def _whole(text: str, number: str | None) -> int | None:
    if number is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,11}", number):
        raise InputError("--phase", text, ALLOWED)
    return int(number)


def whole_job(phases: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Options of the whole job from the options of each phase: the clusters that every phase has an option for."""
    tables = [{(option["hardware"], option["devices"]): option for option in phase} for phase in phases]
    clusters = [key for key in tables[0] if all(key in table for table in tables)]
    return [_added([table[key] for table in tables]) for key in clusters]


def _added(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {
        **parts[0],
        "strategy": " then ".join(dict.fromkeys(str(part["strategy"]) for part in parts)),
    }
    for name in SUMS:
        values = [part[name] for part in parts]
        total[name] = None if None in values else sum(values)
    total["goodput_frac"] = total["training_days"] / total["days"]
    total["step_time_error_frac"] = max((part["step_time_error_frac"] or 0.0 for part in parts), default=0.0) or None
    total["phases"] = [
        {key: part[key] for key in ("strategy", "step_time_s", "training_days", "days", "device_hours", "price")}
        for part in parts
    ]
    return total

"""Which question a study answers, so that another question under the same name is refused with the difference named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import autodeploy
from autodeploy.errors import InputError
from autodeploy.search.request import SearchRequest

ATTRIBUTE = "autodeploy:problem"
SHOWN = 40  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class Problem:
    """Named parts of the question: what is short as it is, the rest as a hash."""

    parts: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(dict(self.parts), sort_keys=True).encode()).hexdigest()[:16]

    def require_same(self, stored: Mapping[str, str], study: str) -> None:
        """InputError naming what differs from the problem that the study was begun for."""
        keys = sorted({*self.parts, *stored})
        differing = [key for key in keys if self.parts.get(key) != stored.get(key)]
        if not differing:
            return
        told = "; ".join(
            f"{key}: {_short(stored.get(key))} there, {_short(self.parts.get(key))} here" for key in differing
        )
        raise InputError("--study", study, f"a study of this problem; it is of another ({told})", "give another name")


def problem_of(request: SearchRequest) -> Problem:
    """Model, profile, memory cap, stack, workload, cards, axes, objective, kind of study, tool version."""
    hardware, workload = request.hardware, request.workload
    return Problem(
        {
            "model": f"{request.model.name} {_hash(request.model)}",
            "hardware": f"{hardware.name} {hardware.sha256[:12] or _hash(hardware)}",
            "memory_cap_bytes": f"{hardware.usable_bytes:.0f}",
            "backend": request.backend,
            "devices": _numbers(request.devices),
            "seq_length": str(workload.seq_length),
            "global_batch": str(workload.global_batch),
            "precision": workload.precision,
            "stack": _hash(workload),
            "axes": _hash(request.axes),
            "objective": "time and memory" if two_objectives(request) else request.objective,
            "kind": "around the screen" if request.method == "auto" else "whole space",
            "version": autodeploy.__version__,
        }
    )


def two_objectives(request: SearchRequest) -> bool:
    return request.objective == "pareto" or request.method == "nsga2"


def _numbers(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values)) if len(values) <= 4 else f"{values[0]}..{values[-1]} ({len(values)} sizes)"


def _hash(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def _short(value: str | None) -> str:
    return "nothing" if value is None else value if len(value) <= SHOWN else value[:SHOWN] + "..."

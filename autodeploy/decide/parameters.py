"""The committed fit: what it holds, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from autodeploy.decide.coverage import Covered, coverage_from
from autodeploy.decide.memory import MemoryModel
from autodeploy.decide.model import ErrorModel
from cost_models.records import record

SCHEMA = "autodeploy.decisions-fit/1"


@record
class Parameters:
    """Everything that a decision needs of the measured runs."""

    model: ErrorModel
    memory: Mapping[str, MemoryModel]
    coverage: tuple[Covered, ...]
    moe_problems: int  # complete measured problems of mixtures of experts


@lru_cache(maxsize=1)
def committed() -> Parameters:
    """What ``scripts/fit_decisions.py`` wrote."""
    file = Path(__file__).with_name("parameters.json")
    return from_document(json.loads(file.read_text(encoding="utf-8")))


def from_document(document: Mapping[str, Any]) -> Parameters:
    fields = document["error_model"]
    return Parameters(
        model=ErrorModel(**{**fields, "by_prior": tuple(fields["by_prior"])}),
        memory={name: MemoryModel(**one) for name, one in document["memory"].items()},
        coverage=coverage_from(document["coverage"]),
        moe_problems=document["data"]["moe_problems"],
    )

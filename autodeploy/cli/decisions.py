"""The options of a decision: how likely a row must fit, and the user's own runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autodeploy.errors import InputError

if TYPE_CHECKING:
    from autodeploy.decide.question import Asked
    from cost_models.case import Case


def asked_of(given: Mapping[str, Any], case: Case, backend: str, devices: int) -> Asked:
    """How the decision is asked for; what ``--measured`` told goes to standard error."""
    from autodeploy.decide.question import Asked

    probability = given.get("fit_probability", 0.9)
    if not 0.0 < probability < 1.0:
        raise InputError("--fit-probability", probability, "a probability between 0 and 1, such as 0.9")
    asked = Asked(fit_probability=probability, seed=given.get("seed", 0))
    if not given.get("measured"):
        return asked
    return _with_runs(asked, given["measured"], case, backend, devices)


def _with_runs(asked: Asked, files: Any, case: Case, backend: str, devices: int) -> Asked:
    from dataclasses import replace

    from autodeploy.cli.case import say
    from autodeploy.decide.measured import evidence_on, is_of_case, memory_given, read_measured

    runs = read_measured(files, case, backend)
    own = sum(is_of_case(run, case, devices) for run in runs)
    died = sum(bool(run.died) for run in runs)
    say(f"--measured: {len(runs)} runs, {own} of this case, {len(runs) - own} of others, {died} died")
    return replace(asked, evidence=evidence_on(runs, case, devices), memory=memory_given(runs, case))

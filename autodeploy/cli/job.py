"""The whole job on the command line of ``search``: several machines, a token budget with limits, failures, the picture."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodeploy.errors import InputError

if TYPE_CHECKING:
    from autodeploy.cli.case import LoadedCase
    from autodeploy.plan.options import Wanted

ONE_MACHINE = ("rejected", "storage", "study")
NEED_TOKENS = ("within", "max_cost", "picture", "mtbf_hours")
RunOne = Callable[[dict[str, Any]], "tuple[dict[str, Any], LoadedCase]"]


def run_job(given: dict[str, Any], run_one: RunOne) -> dict[str, Any]:
    """Searches each machine and joins what they say; with ``--tokens``, the plan too; with ``--phase``, phase after phase."""
    from autodeploy.plan.combine import decided

    if given["phase"]:
        return _phases(given, run_one)
    wanted = _wanted(given)
    joined = _machine_by_machine(given, wanted, run_one)
    if given["picture"] is not None:
        _draw(given["picture"], joined, wanted)
    return decided(joined, wanted)


def _phases(given: dict[str, Any], run_one: RunOne) -> dict[str, Any]:
    """One search per phase; the plan is of the whole job, the rows are of the cluster that it chooses."""
    from autodeploy.plan.combine import decided
    from autodeploy.plan.phases import Phase, whole_job

    if given["tokens"] is not None:
        raise InputError("--tokens", given["tokens"], "left out where --phase says the tokens of each phase")
    phases = [Phase.of(text) for text in given["phase"]]
    documents = []
    for phase in phases:
        changed = {"tokens": phase.tokens, "seq_length": phase.seq_length, "global_batch": phase.global_batch}
        asked = {**given, **{name: value for name, value in changed.items() if value is not None}, "picture": None}
        documents.append(_machine_by_machine(asked, _wanted(asked), run_one))
    total = dataclasses.replace(
        _wanted({**given, "tokens": phases[0].tokens}), tokens=sum(document["tokens"] for document in documents)
    )  # type: ignore[type-var]
    joined = {**documents[0], "options": whole_job([document["options"] for document in documents])}
    if given["picture"] is not None:
        _draw(given["picture"], joined, total)
    document = decided(joined, total)
    chosen = document["plan"]["cheapest"] or document["plan"]["nearest"]
    document["phases"] = [
        {"phase": i, **{key: each[key] for key in ("seq_length", "global_batch", "tokens")}, "ranked": each["ranked"]}
        for i, each in enumerate(documents, start=1)
    ]
    rows = [next((r for r in each.get("sizes", []) + each["ranked"] if _on(r, chosen)), None) for each in documents]
    named = ("seq_length", "global_batch")
    document["ranked"] = [
        {**row, "rank": i, "phase": i, **{key: each[key] for key in named}}
        for i, (row, each) in enumerate(zip(rows, documents, strict=True), start=1)
        if row is not None
    ]
    return document


def _on(row: Mapping[str, Any], cluster: Mapping[str, Any] | None) -> bool:
    return cluster is not None and (row["hardware"], row["devices"]) == (cluster["hardware"], cluster["devices"])


def _machine_by_machine(given: dict[str, Any], wanted: Wanted | None, run_one: RunOne) -> dict[str, Any]:
    """The documents of all machines as one, with the options of the plan."""
    from autodeploy.plan.combine import combined, with_plan
    from autodeploy.plan.options import Machine

    machines = _machines(given)
    prices = _prices(given, machines)
    timed = (
        len(machines) > 1 and given["timeout"] is not None and given["timeout"] > 0
    )  # else: the search says what it allows
    deadline = time.monotonic() + given["timeout"] if timed else None
    documents = []
    for i, name in enumerate(machines):
        asked = {**given, "hardware": name, "price_per_device_hour": prices.get(name)}
        if deadline is not None:  # each machine an equal part of what is left
            asked["timeout"] = max((deadline - time.monotonic()) / (len(machines) - i), 1e-3)
        document, loaded = run_one(asked)
        power = loaded.hardware.power_per_card_w
        machine = Machine(
            name=loaded.hardware.name, price_per_card_hour=loaded.price, power_w_per_card=power if power > 0 else None
        )
        documents.append(with_plan(document, machine, wanted))
        if document["interrupted"]:
            break
    joined = combined(documents, given["objective"], given["top"])
    return joined if wanted is None else {**joined, "tokens": wanted.tokens}


def _machines(given: Mapping[str, Any]) -> tuple[str, ...]:
    machines = tuple(dict.fromkeys(part.strip() for part in given["hardware"].split(",") if part.strip()))
    if not machines:
        raise InputError("--hardware", given["hardware"], "one or more machines, such as h100-sxm,h200")
    if len(machines) > 1:
        for name in ONE_MACHINE:
            if given[name] is not None:
                raise InputError(
                    f"--{name}", str(given[name]), "given with one machine", "search the machines one by one"
                )
    return machines


def _prices(given: Mapping[str, Any], machines: tuple[str, ...]) -> dict[str, str]:
    from autodeploy.plan import limits

    text = given["price_per_device_hour"]
    return {} if text is None else {name: repr(value) for name, value in limits.prices(text, machines).items()}


def _wanted(given: Mapping[str, Any]) -> Wanted | None:
    from autodeploy.cli.case import token_count
    from autodeploy.plan import limits
    from autodeploy.plan.goodput import MTBF_HOURS_PER_CARD, Reliability
    from autodeploy.plan.options import Wanted

    if given["tokens"] is None:
        for name in NEED_TOKENS:
            if given[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise InputError(option, str(given[name]), "given together with --tokens", "add --tokens 1T")
        return None
    mtbf = MTBF_HOURS_PER_CARD if given["mtbf_hours"] is None else given["mtbf_hours"]
    for option, value in (("--mtbf-hours", mtbf), ("--checkpoint-gb-per-s", given["checkpoint_gb_per_s"])):
        if not (math.isfinite(value) and value > 0):
            raise InputError(option, value, "a number > 0")
    if not (math.isfinite(given["restart_s"]) and given["restart_s"] >= 0):
        raise InputError("--restart-s", given["restart_s"], "seconds >= 0")
    return Wanted(
        tokens=token_count(given["tokens"]),
        within_days=None if given["within"] is None else limits.days(given["within"]),
        max_cost=None if given["max_cost"] is None else limits.money(given["max_cost"]),
        reliability=Reliability(
            mtbf_hours_per_card=mtbf,
            checkpoint_bytes_per_s=given["checkpoint_gb_per_s"] * 1e9,
            restart_s=given["restart_s"],
        ),
    )


def _draw(path: Path, document: Mapping[str, Any], wanted: Wanted | None) -> None:
    from autodeploy.cli.output import emit
    from autodeploy.plan.options import plan
    from autodeploy.report.plan_picture import plan_svg

    assert wanted is not None, "--picture needs --tokens"
    emit(plan_svg(plan(document["options"], wanted), document["options"]), path)

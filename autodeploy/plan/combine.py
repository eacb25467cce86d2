"""Documents of ``search`` on several machines as one, and what failures, energy and limits add to a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodeploy.plan.options import Machine, Wanted, option_of, plan

SCORES = {
    "time": lambda entry: entry.get("expected_step_time_s", entry["step_time_s"]),
    "pareto": lambda entry: entry["step_time_s"],
    "tokens": lambda entry: -entry["tokens_per_s_per_device"],
    "cost": lambda entry: entry.get("price", entry["step_time_s"] * entry["devices"]),
    "memory": lambda entry: entry["peak_memory_gib"],
}
ADDED = ("training_days", "goodput_frac", "days_at_worst", "energy_mwh")


def with_plan(document: dict[str, Any], machine: Machine, wanted: Wanted | None) -> dict[str, Any]:
    """The document with its machine in every row and, for a token budget, failures, energy and the options of the plan."""
    parameters = float(document["model"]["parameters"])
    per_step = float(document["seq_length"]) * float(document["global_batch"])

    def told(entry: Mapping[str, Any]) -> dict[str, Any]:
        named = {**entry, "hardware": machine.name}
        if wanted is None:
            return named
        option = option_of(entry, per_step, machine, parameters, wanted)
        return named | {"days_with_failures": option["days"]} | {name: option[name] for name in ADDED}

    document = {**document, "ranked": [told(entry) for entry in document["ranked"]]}
    if "sizes" in document:
        document["sizes"] = [told(entry) for entry in document["sizes"]]
    if wanted is not None:
        best = document.get("sizes") or document["ranked"][:1]
        document["options"] = [option_of(entry, per_step, machine, parameters, wanted) for entry in best]
    return document


def combined(documents: Sequence[dict[str, Any]], objective: str, top: int) -> dict[str, Any]:
    """One document: rows of all machines in one order, the rest of each machine under ``machines``."""
    if len(documents) == 1:
        return documents[0]
    entries = [entry for document in documents for entry in document["ranked"]]
    entries.sort(key=lambda entry: (SCORES[objective](entry), entry["devices"]))
    keys = (
        "hardware",
        "backend",
        "profile_sha256",
        "memory_cap_gib",
        "space",
        "rejected",
        "nearest",
        "timed_out",
        "decision",
    )
    return {
        **documents[0],
        "hardware": ",".join(document["hardware"] for document in documents),
        "machines": [{key: document[key] for key in keys if key in document} for document in documents],
        "decision": None,  # errors of two machines are not compared: each machine's own is under ``machines``
        "timed_out": any(document["timed_out"] for document in documents),
        "interrupted": any(document["interrupted"] for document in documents),
        "space": _summed([document["space"] for document in documents]),
        "ranked": [{**entry, "rank": i} for i, entry in enumerate(entries[:top], start=1)],
        "nearest": [] if entries else [miss for document in documents for miss in document["nearest"]],
        "rejected": _summed([document["rejected"] for document in documents]),
        **({"sizes": [entry for d in documents for entry in d["sizes"]]} if "sizes" in documents[0] else {}),
        **({"options": [o for d in documents for o in d["options"]]} if "options" in documents[0] else {}),
    }


def decided(document: dict[str, Any], wanted: Wanted | None) -> dict[str, Any]:
    """The options of all machines turned into a plan."""
    if wanted is None:
        return document
    options = document.get("options", [])
    return {key: value for key, value in document.items() if key != "options"} | {"plan": plan(options, wanted)}


def _summed(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total

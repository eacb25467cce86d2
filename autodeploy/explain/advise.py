"""``advise``: what runs now and what it costs, the single changes that gain most, the decision, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SINGLES = 3
TRIALS = 3


def advise_document(search: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``autodeploy.advise/1``. ``search``: a search's document; ``steps``: those of ``explain`` from what runs now."""
    head = {
        key: search[key]
        for key in (
            "tool_version", "seed", "profile_sha256", "model", "hardware", "backend", "stack", "precision", "devices",
            "seq_length", "global_batch", "expert_imbalance", "memory_cap_gib",
        )
    }  # fmt: skip
    return {
        "schema": "autodeploy.advise/1",
        **head,
        "now": search.get("own"),
        "single_changes": [dict(row) for row in steps if row["better"]][:SINGLES],
        "decision": search["decision"],
        "trials": trials_of(search),
        "nearest": search["nearest"],
    }


def trials_of(search: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows worth a short run: the simplest of those that cannot be told apart, then the likeliest fastest."""
    rows, decision = search["ranked"], search["decision"]
    if not rows or decision is None:
        return []
    tied = decision["tied_rows"] or [decision["fastest"] or 1]
    by_chance = sorted(tied, key=lambda rank: -rows[rank - 1]["best_probability"])
    return [rows[rank - 1] for rank in list(dict.fromkeys([tied[0], *by_chance]))[:TRIALS]]

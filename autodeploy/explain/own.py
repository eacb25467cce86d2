"""The user's own setting beside the rows of a search of their launch file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autodeploy.explain.pricing import GIB, Setting, price
from autodeploy.strategy.notation import Strategy
from cost_models.case import Case

if TYPE_CHECKING:
    from autodeploy.search import SearchRequest


def own_row(
    strategy: Strategy, case: Case, request: SearchRequest, ranked: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """``place``: where the setting would stand among the rows; None where it does not fit or cannot be run."""
    now = price(strategy, Setting(case=case, devices=max(request.devices), backend=request.backend))
    stands = bool(not now.refused and now.fits and ranked)
    faster = sum(row["step_time_s"] < now.step_s for row in ranked)
    return {
        "strategy": str(strategy),
        "step_time_s": None if now.refused else now.step_s,
        "peak_memory_gib": None if now.refused else now.peak_bytes / GIB,
        "fits": None if now.refused else now.fits,
        "refused": now.refused or None,
        "place": faster + 1 if stands else None,
        "rows": len(ranked),
        "first_faster_frac": 1.0 - ranked[0]["step_time_s"] / now.step_s if stands else None,
    }

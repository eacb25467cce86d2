"""The JSON documents of ``search`` and ``estimate``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import autodeploy
from autodeploy.report.decision import decision_document, decision_keys
from autodeploy.report.entry import GIB, Case, entry, per_rank
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.rules import launchable
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    from autodeploy.decide.ranking import Decision
    from autodeploy.search import SearchResult
    from autodeploy.search.rank import Ranking
    from cost_models.step import StepCost


def head(schema: str, case: Case, seed: int, devices: int) -> dict[str, Any]:
    return {
        "schema": schema,
        "tool_version": autodeploy.__version__,
        "seed": seed,
        "profile_sha256": case.hardware.sha256,
        "model": {
            "name": case.model.name,
            "parameters": case.model.parameters(),
            "active_parameters": case.model.active_parameters(),
            "unread": list(case.model.unread),
        },
        "hardware": case.hardware.name,
        "backend": case.backend,
        "stack": case.stack,
        "precision": case.workload.precision,
        "devices": devices,
        "seq_length": case.workload.seq_length,
        "global_batch": case.workload.global_batch,
        "expert_imbalance": case.workload.expert_imbalance,
        "memory_cap_gib": case.hardware.usable_bytes / GIB,
    }


def document_head(schema: str, case: Case, devices: int) -> dict[str, Any]:
    """What every document says of its case."""
    return head(schema, case, 0, devices)


def search_document(case: Case, result: SearchResult) -> dict[str, Any]:
    """``autodeploy.search/1``."""
    request, counts = result.request, result.counts
    document = head("autodeploy.search/1", case, request.seed, max(request.devices))
    if len(request.devices) > 1:
        document["devices_range"] = list(request.devices)
    document |= {"method": request.method, "objective": request.objective, "timed_out": result.timed_out}
    document["interrupted"] = result.interrupted
    document["space"] = {
        "core": counts.core,
        "enumerated": result.enumerated,
        "screened": result.enumerated,  # with exact memory and a price
        "pruned": counts.pruned,
        "valid": result.enumerated + (0 if request.audit else counts.pruned),
        "feasible": result.feasible,
        "screen_s": result.screen_s,
        "refined": result.refined,
        "refine_s": result.refine_s,
    }
    document["rank_by"] = request.rank_by
    document["decision"] = decision_document(case, result.ranking)
    document["ranked"] = ranked_entries(case, result)
    if len(request.devices) > 1:
        document["space"] |= {"sizes": len(request.devices), "sizes_priced": counts.sizes}
        document["sizes"] = entries_of(case, result.sizes, result.sizes_cost)
    document["nearest"] = [
        {
            "strategy": str(batch_to_strategy(miss.strategy, 0)),
            "short_by_gib": miss.short_by_bytes / GIB,
            "fix": miss.fix,
        }
        for miss in result.misses
    ]
    document["rejected"] = dict(sorted(counts.rejected.items(), key=lambda item: (-item[1], item[0])))
    return document


def ranked_entries(case: Case, result: SearchResult) -> list[dict[str, Any]]:
    return entries_of(case, result.ranking, result.cost)


def entries_of(case: Case, ranking: Ranking | None, cost: StepCost | None) -> list[dict[str, Any]]:
    """Ranked strategies as entries, in order."""
    if ranking is None or cost is None:
        return []
    simulated = [None if math.isnan(seconds) else float(seconds) for seconds in ranking.simulated_s]
    batch = ranking.candidates.batch
    _, reasons = launchable(case.model, case.hardware, case.workload, batch, case.backend)
    entries = [
        entry(case, batch, cost, i, not_launchable=reasons[i], simulated_s=seconds)
        for i, seconds in enumerate(simulated)
    ]
    if ranking.decision is not None and ranking.predicted_rank is not None:
        keys = decision_keys(case.priced, ranking.decision)
        places = ranking.predicted_rank.tolist()
        entries = [
            {**one, "predicted_rank": place, **more} for one, place, more in zip(entries, places, keys, strict=True)
        ]
    return entries


def estimate_document(
    case: Case,
    batch: StrategyBatch,
    cost: StepCost,
    *,
    simulated_s: float | None = None,
    decision: Decision | None = None,
) -> dict[str, Any]:
    """``autodeploy.estimate/1``: one entry, with lists by pipeline rank. The strategy has passed the rules of its back end
    (``price_one``): only of ``any`` is it still open which program launches it."""
    document = head("autodeploy.estimate/1", case, 0, int(batch.devices[0]))
    reason = ""
    if case.backend == "any":
        reason = launchable(case.model, case.hardware, case.workload, batch, case.backend)[1][0]
    document["estimate"] = entry(case, batch, cost, 0, not_launchable=reason, simulated_s=simulated_s) | {
        "per_rank": per_rank(batch, cost, 0)
    }
    if decision is not None:  # of one strategy: what is expected of it, not how it compares
        alone = ("best_probability", "tie")
        told = decision_keys(case.priced, decision)[0]
        document["estimate"] |= {key: value for key, value in told.items() if key not in alone}
    return document

"""A layer plan as plain data: the JSON of ``balance layers`` and the rows of its stage table."""

from __future__ import annotations

from typing import Any

from autodeploy.balance.layers.layout import format_layout
from autodeploy.balance.layers.mindspeed import mindspeed_layers
from autodeploy.balance.layers.plan import Evaluated, LayerPlan

SCHEMA = "autodeploy.balance/1"
STAGE_COLUMNS = ("stage", "rank", "chunk", "holds", "layers", "recompute", "chunk_s", "rank_s", "rank_bytes")


def plan_to_dict(plan: LayerPlan) -> dict[str, Any]:
    """``before``, ``after`` and ``plan``; an argument that cannot be written is null beside its reason."""
    mindspeed = mindspeed_layers(plan)
    return {
        "schema": SCHEMA,
        "kind": "layers",
        "before": _figures(plan.before),
        "after": _figures(plan.after),
        "plan": {
            "pp": plan.problem.pp,
            "vpp": plan.problem.vpp,
            "feasible": plan.feasible,
            "method": plan.method,
            "exact": plan.exact,
            "rank_bound_s": plan.rank_bound_s if plan.feasible else None,
            "chunk_bound_s": plan.chunk_bound_s if plan.feasible else None,
            "rank_gap_frac": plan.rank_gap_frac if plan.feasible else None,
            "chunk_gap_frac": plan.chunk_gap_frac if plan.feasible else None,
            "launchable": plan.launchable,
            "not_launchable_because": plan.not_launchable_because,
            "recompute_by_stage": list(plan.option_of_stage),
            "megatron": {"--pipeline-model-parallel-layout": plan.after.layout if plan.launchable else None},
            "mindspeed": mindspeed.arguments or None,
            "mindspeed_reason": mindspeed.reason,
            "stages": stage_rows(plan),
        },
    }


def stage_rows(plan: LayerPlan) -> list[dict[str, Any]]:
    """One row a virtual stage, in stage order."""
    after, pp = plan.after, plan.problem.pp
    return [
        {
            "stage": s,
            "rank": s % pp,
            "chunk": s // pp,
            "holds": format_layout((symbols,)) or "-",
            "layers": after.placement.counts[s],
            "recompute": plan.option_of_stage[s],
            "chunk_s": float(after.chunk_s[s]),
            "rank_s": float(after.rank_s[s % pp]),
            "rank_bytes": float(after.rank_bytes[s % pp]),
        }
        for s, symbols in enumerate(after.stages)
    ]


def _figures(evaluated: Evaluated) -> dict[str, Any]:
    return {
        "layout": evaluated.layout,
        "largest_rank_s": evaluated.largest_rank_s,
        "rank_imbalance": evaluated.rank_imbalance,
        "largest_chunk_s": evaluated.largest_chunk_s,
        "chunk_imbalance": evaluated.chunk_imbalance,
        "excess_bytes": evaluated.excess_bytes,
        "rank_s": evaluated.rank_s.tolist(),
        "chunk_s": evaluated.chunk_s.tolist(),
        "rank_bytes": evaluated.rank_bytes.tolist(),
    }

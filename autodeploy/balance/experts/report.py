"""A plan and a replay as plain data, for JSON and tables. Seconds, bytes, tokens; lists run over layers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from autodeploy.balance.experts.choose import Task
from autodeploy.balance.experts.placement import F64, Placement, Topology, card_loads, load_bound, max_over_mean
from autodeploy.balance.experts.plan import Plan
from autodeploy.balance.experts.replay import PolicyResult

SCHEMA = "autodeploy.balance/1"
MOVE_COLUMNS = ("layer", "expert", "from_card", "to_card", "slot", "level", "moved_bytes", "seconds", "wave")


def state_document(placement: Placement, loads: F64, recent: F64, task: Task) -> dict[str, Any]:
    """How one placement carries the expected loads [L, E], and how it would have carried the latest steps [K, L, E]."""
    observed = card_loads(placement, recent)
    by_card = card_loads(placement, loads)
    bound = load_bound(loads, placement.cards, placement.slots)
    peak = by_card.max(axis=1)
    spare = placement.slots // placement.cards - -(-placement.experts // placement.cards)
    return {
        "max_over_mean": _numbers(max_over_mean(by_card)),
        "max_over_mean_mean": float(max_over_mean(by_card).mean()),
        "observed_max_over_mean": _numbers(max_over_mean(observed).mean(axis=0)),
        "node_max_over_mean": _numbers(max_over_mean(_node_loads(by_card, task.topology))),
        "largest_card_load": _numbers(peak),
        "bound": _numbers(bound),
        "gap_to_bound_frac": _numbers(np.where(bound > 0, peak / np.where(bound > 0, bound, 1.0) - 1, 0.0)),
        "exposed_s_per_step": float(
            (observed.max(axis=2) - observed.mean(axis=2)).mean(axis=0).sum() * task.seconds_per_token
        ),
        "duplicate_slots": [int(n) for n in placement.duplicates()],
        "redundant_bytes_per_card": float(spare * placement.layers * task.links.bytes_per_expert),
        "placement": placement.slot_expert.tolist(),
    }


def _node_loads(by_card: F64, topology: Topology) -> F64:
    return by_card.reshape(*by_card.shape[:-1], topology.nodes, topology.cards_per_node).sum(axis=-1)


def plan_document(plan: Plan, task: Task) -> dict[str, Any]:
    """``before``, ``after`` and ``plan`` of a JSON result."""
    prediction = {key: _plain(value) for key, value in plan.prediction.items()}
    return {
        "schema": SCHEMA,
        "balancer": "experts",
        "layers": plan.before.layers,
        "experts": plan.before.experts,
        "cards": plan.before.cards,
        "slots": plan.before.slots,
        "before": state_document(plan.before, plan.expected, plan.recent, task),
        "after": state_document(plan.after, plan.expected, plan.recent, task),
        "plan": {
            "reason": plan.reason,
            "layers_moved": [int(i) for i in np.flatnonzero(plan.moved)],
            "saving_s_per_step": _numbers(plan.saving_s),
            "term_steps": [int(n) for n in plan.term],
            "migration_s": float(plan.cost.seconds().sum()),
            "migration_intra_s": float(plan.cost.intra_s.sum()),
            "migration_inter_s": float(plan.cost.inter_s.sum()),
            "moved_bytes": float(plan.cost.moved_bytes.sum()),
            "net_saving_s": plan.total_saving_s(),
            "prediction": prediction,
            "moves": [asdict(move) for move in plan.moves],
        },
    }


def replay_document(results: dict[str, PolicyResult]) -> dict[str, Any]:
    """One entry per policy."""
    static = results["static"].total_s
    return {
        name: {
            "max_over_mean_mean": float(r.max_over_mean.mean()),
            "max_over_mean_median": float(np.median(r.max_over_mean)),
            "exposed_s": r.exposed_s,
            "migration_s": r.migration_s,
            "total_s": r.total_s,
            "total_over_static": r.total_s / static if static > 0 else 1.0,
            "work_s": r.work_s,
            "moved_bytes": r.moved_bytes,
            "moved_copies": r.moved_copies,
            "layer_plans": r.plans,
        }
        for name, r in results.items()
    }


def _numbers(values: F64) -> list[float]:
    return [float(v) for v in values]


def _plain(value: object) -> object:
    """Arrays as lists, what is not a number as null."""
    if isinstance(value, np.ndarray):
        return [None if np.isnan(v) else float(v) for v in value]
    return value

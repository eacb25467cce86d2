"""A placement for given loads as plain data: how it carries them, where its copies are, what leaves a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.balance.experts.nodes import foreign_tokens, groups_on_nodes
from autodeploy.balance.experts.place import hierarchical
from autodeploy.balance.experts.placement import F64, Placement, Topology, card_loads, load_bound, max_over_mean
from autodeploy.balance.experts.report import SCHEMA
from autodeploy.balance.experts.shares import fixed_fractions, shared_card_loads

SAMPLES = 200  # steps at most by which shares and expected peaks are judged


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """What was asked besides the loads."""

    topology: Topology
    groups: int = 1
    relaxed: bool = False
    shares: str = "even"
    token_bytes: float = 0.0  # moved for a token that leaves its group's node, there and back, both passes; 0: unknown
    inter_bytes_per_s: float = 0.0  # per card; 0: unknown

    def mode(self, experts: int) -> str:
        """strict, relaxed or global."""
        if not hierarchical(self.topology, self.groups, experts):
            return "global"
        return "relaxed" if self.relaxed else "strict"


def place_document(history: F64, before: Placement, after: Placement, request: PlaceRequest) -> dict[str, Any]:
    """``before``, ``after`` and ``plan`` for past steps [T, L, E]."""
    steps = history[:: max(1, -(-len(history) // SAMPLES))]
    return {
        "schema": SCHEMA,
        "balancer": "experts",
        "layers": after.layers,
        "experts": after.experts,
        "cards": after.cards,
        "slots": after.slots,
        "steps": len(history),
        "before": _state(history.mean(axis=0), steps, before, request),
        "after": _state(history.mean(axis=0), steps, after, request),
        "plan": {
            "mode": request.mode(after.experts),
            "shares": request.shares,
            "objective": "mean of the largest card load over the steps" if len(history) > 1 else "largest card load",
            "reason": "placed for the given loads; what moving costs was not asked",
            "moved_copies": int((after.hosts() & ~before.hosts()).sum()),
        },
    }


def _state(mean: F64, steps: F64, placement: Placement, request: PlaceRequest) -> dict[str, Any]:
    fractions = fixed_fractions(placement, steps) if request.shares == "fixed" else None
    by_card = shared_card_loads(placement, mean[None], request.shares, fractions)[0]
    observed = shared_card_loads(placement, steps, request.shares, fractions)
    by_node = by_card.reshape(len(by_card), request.topology.nodes, -1).sum(axis=2)
    bound = load_bound(mean, placement.cards, placement.slots)
    document: dict[str, Any] = {
        "max_over_mean": max_over_mean(by_card).tolist(),
        "max_over_mean_mean": float(max_over_mean(by_card).mean()),
        "even_max_over_mean_mean": float(max_over_mean(card_loads(placement, mean)).mean()),
        "observed_max_over_mean": max_over_mean(observed).mean(axis=0).tolist(),
        "observed_max_over_mean_mean": float(max_over_mean(observed).mean()),
        "node_max_over_mean": max_over_mean(by_node).tolist(),
        "largest_card_load": by_card.max(axis=1).tolist(),
        "bound": bound.tolist(),
        "duplicate_slots": placement.duplicates().tolist(),
        "placement": placement.slot_expert.tolist(),
    }
    if fractions is not None:
        document["shares"] = fractions.reshape(placement.slot_expert.shape).tolist()
    if request.mode(placement.experts) != "global":
        document |= _grouped(mean, placement, request)
    return document


def _grouped(mean: F64, placement: Placement, request: PlaceRequest) -> dict[str, Any]:
    """The node-level optimum that no strict placement passes, and the traffic of copies away from their group's node."""
    nodes, groups = request.topology.nodes, request.groups
    group_loads = mean.reshape(len(mean), groups, -1).sum(axis=2)
    best = np.take_along_axis(group_loads, groups_on_nodes(group_loads, nodes).reshape(len(mean), -1), axis=1).reshape(
        len(mean), nodes, -1
    )
    away = foreign_tokens(placement, mean, request.topology, groups)  # [L, N]
    total = mean.sum(axis=1)
    document: dict[str, Any] = {
        "node_optimum_max_over_mean": max_over_mean(best.sum(axis=2)).tolist(),
        "foreign_tokens": away.sum(axis=1).tolist(),
        "foreign_tokens_frac": np.where(total > 0, away.sum(axis=1) / np.where(total > 0, total, 1), 0.0).tolist(),
    }
    if request.token_bytes:
        document["foreign_bytes_per_step"] = float(away.sum() * request.token_bytes)
        if request.inter_bytes_per_s:
            rate = request.topology.cards_per_node * request.inter_bytes_per_s
            document["foreign_s_per_step"] = float(away.max(axis=1).sum() * request.token_bytes / rate)
    return document

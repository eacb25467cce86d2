"""Place experts for given loads: nodes first, then the cards within a node, then local exchange."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.pack import Start, pack, slots_from_bins
from autodeploy.balance.experts.placement import (
    F64,
    I64,
    Placement,
    Topology,
    card_loads,
    check_slots,
    replica_counts,
)
from autodeploy.balance.experts.replicate import expand, replicate
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError

OFFSETS = (0.0, -0.4, -0.3, 0.25)  # divisor methods tried for the replica counts; the best is kept per layer. Negative
# ones give small experts copies too, so that two-slot cards find partners: on Zipf 1.0, 61 x 256 on 256 cards with 512
# slots, max/mean is 1.131, 1.043, 1.045 and 1.198 by offset; on log-normal loads 1.096, 1.045, 1.054 and 1.104.
POLISH = Rules(steps=24)


def place(
    loads: F64, topology: Topology, slots: int | None = None, groups: int = 1, rules: Rules = POLISH
) -> Placement:
    """Placement [L, G, C] with a small largest card load, for loads [L, E].

    ``groups`` > 1 that divide by the nodes keep the first copies of a router group on one node (hierarchical), and
    spare slots of other nodes take further copies. Otherwise every card may hold any expert (global).
    """
    loads = check_loads(loads)
    layers, experts = loads.shape
    per_card, total = check_slots(experts, topology.cards, slots)
    if experts % groups:
        raise InputError("groups", groups, f"a divisor of the {experts} experts")
    if hierarchical(topology, groups, experts):
        return _place_grouped(loads, topology, total, groups)
    offsets = OFFSETS if total > experts else OFFSETS[:1]
    stacked = np.tile(loads, (len(offsets), 1))
    copies = np.concatenate([replicate(loads, total, topology.cards, offset) for offset in offsets])
    flat = expand(copies, total)
    shares = np.take_along_axis(stacked / copies, flat, axis=1)
    bins = pack(shares, flat, topology.cards, per_card, spread=total > experts)
    candidates = slots_from_bins(bins, flat, topology.cards)
    kept = best_of(candidates.reshape(len(offsets), layers, topology.cards, per_card), loads)
    improved, _ = exchange(kept.reshape(layers, -1), loads, topology.cards, rules)
    return Placement(improved.reshape(kept.shape), experts)


def hierarchical(topology: Topology, groups: int, experts: int) -> bool:
    """Whether router groups decide the node of an expert (the rule of EPLB: groups divide by the nodes, else global)."""
    return groups > 1 and topology.nodes > 1 and groups % topology.nodes == 0 and experts % groups == 0


def best_of(candidates: I64, loads: F64) -> I64:
    """Per layer the candidate [K, L, G, C] with the smallest largest card load, for loads [L, E]: [L, G, C]."""
    if len(candidates) == 1:
        return candidates[0]
    peaks = np.stack([card_loads(Placement(c, loads.shape[1]), loads).max(axis=1) for c in candidates])
    return candidates[peaks.argmin(axis=0), np.arange(len(loads))]


def _place_grouped(loads: F64, topology: Topology, slots: int, groups: int) -> Placement:
    """Groups whole onto nodes, further copies onto the least loaded node with a spare slot, then cards within nodes."""
    layers, experts = loads.shape
    nodes = topology.nodes
    home = _home_nodes(loads, nodes, groups)
    options = []
    for offset in OFFSETS if slots > experts else OFFSETS[:1]:
        flat, node_of_slot = _spread_over_nodes(
            loads, home, replicate(loads, slots, topology.cards, offset), slots, nodes
        )
        by_node = slots_from_bins(node_of_slot, flat, nodes).reshape(layers, -1)
        options.append(_cards_within_nodes(by_node, loads, topology))
    placed = best_of(np.stack(options), loads)
    rules = Rules(recount=False, node_of_card=topology.node_of_card())
    improved, _ = exchange(placed.reshape(layers, -1), loads, topology.cards, rules)
    return Placement(improved.reshape(placed.shape), experts)


def _home_nodes(loads: F64, nodes: int, groups: int) -> I64:
    """Node [L, E] of each expert's first copy: its group's, by greedy packing of the groups."""
    layers, experts = loads.shape
    ids = np.tile(np.arange(groups), (layers, 1))
    bins = pack(loads.reshape(layers, groups, -1).sum(axis=2), ids, nodes, groups // nodes, spread=False)
    return np.repeat(bins, experts // groups, axis=1)


def _spread_over_nodes(loads: F64, home: I64, copies: I64, slots: int, nodes: int) -> tuple[I64, I64]:
    """(expert, node) of every slot, each [L, S]: first copies at home, the others by greedy packing over the nodes."""
    layers, experts = loads.shape
    row = np.arange(layers)[:, None]
    share = loads / copies
    held = np.zeros((layers, experts, nodes), dtype=bool)
    held[row, np.arange(experts), home] = True
    start = Start((share[..., None] * held).sum(axis=1), held.sum(axis=1), held)
    first = np.tile(np.arange(experts), (layers, 1))
    if slots == experts:
        return first, home
    further = expand(copies - 1, slots - experts)
    bins = pack(share[row, further], further, nodes, slots // nodes, start)
    return np.concatenate([first, further], axis=1), np.concatenate([home, bins], axis=1)


def _cards_within_nodes(by_node: I64, loads: F64, topology: Topology) -> I64:
    """Slots [L, G, C] from the experts of each node [L, S] (node after node): every node packed on its own cards."""
    layers, slots = by_node.shape
    shares = np.take_along_axis(loads / replica_counts(by_node, loads.shape[1]), by_node, axis=1)
    local = by_node.reshape(layers * topology.nodes, -1)
    bins = pack(shares.reshape(local.shape), local, topology.cards_per_node, slots // topology.cards)
    return slots_from_bins(bins, local, topology.cards_per_node).reshape(layers, topology.cards, -1)

"""Place experts for given loads: nodes first, then the cards within a node, then local exchange."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.nodes import groups_on_nodes
from autodeploy.balance.experts.pack import Start, pack, slots_from_bins
from autodeploy.balance.experts.placement import (
    F64,
    I64,
    Placement,
    Topology,
    card_loads,
    check_slots,
    load_bound,
    replica_counts,
)
from autodeploy.balance.experts.replicate import expand, replicate, replicate_below
from autodeploy.balance.experts.validate import check_loads
from autodeploy.errors import InputError

OFFSETS = (0.0, -0.4, -0.3, 0.25)  # divisor methods tried for the replica counts; the best is kept per layer. Negative
# ones give small experts copies too, so that two-slot cards find partners: on Zipf 1.0, 61 x 256 on 256 cards with 512
# slots, max/mean is 1.131, 1.043, 1.045 and 1.198 by offset; on log-normal loads 1.096, 1.045, 1.054 and 1.104.
POLISH = Rules(steps=40, goal_frac=3e-4)
SHARE_LIMITS = (
    0.85,
    0.8,
    0.9,
    0.75,
    0.7,
)  # of the mean card: where a layer stays above its bound, every expert gets the
# copies that keep its share below, and what is left goes to the lightest experts, which fill slots and carry nothing
_GOOD_ENOUGH = 2e-3  # above the bound
_SIDE_BY_SIDE = 4  # slots of a card from which fillers matter; on cards of two or three they never won


def place(
    loads: F64,
    topology: Topology,
    slots: int | None = None,
    groups: int = 1,
    rules: Rules = POLISH,
    *,
    relaxed: bool = False,
) -> Placement:
    """Placement [L, G, C] with a small largest card load, for loads [L, E].

    ``groups`` > 1 that divide by the nodes keep every copy of a router group on one node (strict). ``relaxed`` keeps
    only the first copies there: spare slots of other nodes take further ones, at the price of cross-node traffic.
    Otherwise every card may hold any expert (global).
    """
    loads = check_loads(loads)
    layers, experts = loads.shape
    per_card, total = check_slots(experts, topology.cards, slots)
    if experts % groups:
        raise InputError("groups", groups, f"a divisor of the {experts} experts")
    if hierarchical(topology, groups, experts):
        if relaxed:
            return _place_relaxed(loads, topology, total, groups)
        return _place_strict(loads, topology, total, groups, rules)
    return Placement(_place_freely(loads, topology.cards, total, rules), experts)


def _place_freely(loads: F64, cards: int, slots: int, rules: Rules) -> I64:
    """Slots [L, G, C] where any card may hold any expert."""
    offsets = OFFSETS if slots > loads.shape[1] else OFFSETS[:1]
    counts = np.stack([replicate(loads, slots, cards, offset) for offset in offsets])
    kept = _packed_and_polished(loads, counts, cards, rules)
    if rules.fillers and slots > loads.shape[1] and slots // cards >= _SIDE_BY_SIDE:
        for share_frac in SHARE_LIMITS:
            poor = _above_bound(kept, loads) > _GOOD_ENOUGH
            counts, possible = replicate_below(loads[poor], slots, cards, share_frac)
            rows = np.flatnonzero(poor)[possible]
            if len(rows):
                other = _packed_and_polished(loads[rows], counts[possible][None], cards, rules)
                repeats = (
                    Placement(other, loads.shape[1]).duplicates() > Placement(kept[rows], loads.shape[1]).duplicates()
                )
                other[repeats] = kept[rows][repeats]
                kept[rows] = best_of(np.stack([kept[rows], other]), loads[rows])
    return kept


def _above_bound(slot_expert: I64, loads: F64) -> F64:
    """How far the largest card load is above the bound, as a share of it [L]."""
    peak = card_loads(Placement(slot_expert, loads.shape[1]), loads).max(axis=1)
    bound = load_bound(loads, slot_expert.shape[1], slot_expert[0].size)
    return np.where(bound > 0, peak / np.where(bound > 0, bound, 1.0) - 1, 0.0)


def _packed_and_polished(loads: F64, counts: I64, cards: int, rules: Rules) -> I64:
    """Slots [L, G, C] of the best of the copies [K, L, E] after greedy packing, improved by exchange."""
    options, layers, experts = counts.shape
    slots = int(counts[0, 0].sum())
    stacked, copies = np.tile(loads, (options, 1)), counts.reshape(-1, experts)
    flat = expand(copies, slots)
    shares = np.take_along_axis(stacked / copies, flat, axis=1)
    bins = pack(shares, flat, cards, slots // cards, spread=slots > experts)
    packed = slots_from_bins(bins, flat, cards)
    kept = best_of(packed.reshape(options, layers, cards, slots // cards), loads)
    improved, _ = exchange(kept.reshape(layers, -1), loads, cards, rules)
    return improved.reshape(kept.shape)


def hierarchical(topology: Topology, groups: int, experts: int) -> bool:
    """Whether router groups decide the node of an expert (the rule of EPLB: groups divide by the nodes, else global)."""
    return groups > 1 and topology.nodes > 1 and groups % topology.nodes == 0 and experts % groups == 0


def best_of(candidates: I64, loads: F64) -> I64:
    """Per layer the candidate [K, L, G, C] with the smallest largest card load, for loads [L, E]: [L, G, C]."""
    if len(candidates) == 1:
        return candidates[0]
    peaks = np.stack([card_loads(Placement(c, loads.shape[1]), loads).max(axis=1) for c in candidates])
    return candidates[peaks.argmin(axis=0), np.arange(len(loads))]


def _place_strict(loads: F64, topology: Topology, slots: int, groups: int, rules: Rules) -> Placement:
    """Groups whole onto nodes so that the heaviest node is lightest; then each node places its own experts freely."""
    layers, experts = loads.shape
    nodes, size = topology.nodes, experts // groups
    by_node = groups_on_nodes(loads.reshape(layers, groups, size).sum(axis=2), nodes)
    ids = (by_node[..., None] * size + np.arange(size)).reshape(layers * nodes, -1)
    own = np.take_along_axis(np.repeat(loads, nodes, axis=0), ids, axis=1)
    local = _place_freely(own, topology.cards_per_node, slots // nodes, rules)
    slot_expert = np.take_along_axis(ids, local.reshape(len(ids), -1), axis=1)
    return Placement(slot_expert.reshape(layers, topology.cards, -1), experts)


def _place_relaxed(loads: F64, topology: Topology, slots: int, groups: int) -> Placement:
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
    """Node [L, E] of each expert's first copy: its group's."""
    layers, experts = loads.shape
    by_node = groups_on_nodes(loads.reshape(layers, groups, -1).sum(axis=2), nodes)
    node = np.empty((layers, groups), dtype=np.int64)
    np.put_along_axis(node, by_node.reshape(layers, -1), np.repeat(np.arange(nodes), groups // nodes)[None], axis=1)
    return np.repeat(node, experts // groups, axis=1)


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

"""A baseline in the manner of EPLB (deepseek-ai/EPLB, 2025), written anew from its description.

Hierarchical: groups of experts are packed whole onto nodes, replicas are made within a node, copies are packed onto
its cards. Global: replicate and pack over all cards. Neither keeps copies of one expert on different cards.
"""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.pack import pack, slots_from_bins
from autodeploy.balance.experts.placement import F64, I64, Placement, Topology, check_slots
from autodeploy.balance.experts.replicate import expand, replicate


def eplb_style(loads: F64, topology: Topology, slots: int, groups: int = 1) -> Placement:
    """Placement [L, G, C] for loads [L, E]; hierarchical where ``groups`` divide by the nodes, else global."""
    layers, experts = loads.shape
    check_slots(experts, topology.cards, slots)
    nodes = topology.nodes if groups % topology.nodes == 0 else 1
    groups = groups if nodes > 1 else 1
    by_node = _groups_on_nodes(loads, nodes, groups)  # [L, N, E/N]
    node_loads = np.take_along_axis(loads, by_node.reshape(layers, -1), axis=1).reshape(layers * nodes, -1)
    copies = replicate(node_loads, slots // nodes, most_copies=slots)
    local = expand(copies, slots // nodes)
    shares = np.take_along_axis(node_loads / copies, local, axis=1)
    cards = topology.cards // nodes
    bins = pack(shares, local, cards, slots // topology.cards, spread=False)
    placed = slots_from_bins(bins, local, cards).reshape(layers * nodes, -1)
    slot_expert = np.take_along_axis(by_node.reshape(layers * nodes, -1), placed, axis=1)
    return Placement(slot_expert.reshape(layers, topology.cards, -1), experts)


def _groups_on_nodes(loads: F64, nodes: int, groups: int) -> I64:
    """Experts [L, N, E/N] of each node, groups of neighbouring experts kept whole."""
    layers, experts = loads.shape
    if nodes == 1:
        return np.tile(np.arange(experts), (layers, 1))[:, None, :]
    size = experts // groups
    ids = np.tile(np.arange(groups), (layers, 1))
    bins = pack(loads.reshape(layers, groups, size).sum(axis=2), ids, nodes, groups // nodes, spread=False)
    group_by_node = slots_from_bins(bins, ids, nodes)  # [L, N, groups/N]
    return (group_by_node[..., None] * size + np.arange(size)).reshape(layers, nodes, -1)

"""Router groups onto nodes: the assignment whose most loaded node carries least, equally many groups to a node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np

from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.pack import pack, slots_from_bins
from autodeploy.balance.experts.placement import F64, I64, Placement, Topology

MOST_PARTITIONS = 20_000  # all are tried up to here (15,400 ways to put 12 groups on 4 nodes)


def partitions(groups: int, nodes: int) -> int:
    """Ways to put ``groups`` on like ``nodes``, equally many to each."""
    per_node = groups // nodes
    return math.factorial(groups) // (math.factorial(per_node) ** nodes * math.factorial(nodes))


def groups_on_nodes(group_loads: F64, nodes: int) -> I64:
    """Groups of each node [L, N, groups/N] for loads [L, groups].

    Exact where the partitions can all be tried, and with two groups a node (heaviest with lightest); otherwise greedy
    packing and swaps until none helps.
    """
    layers, groups = group_loads.shape
    per_node = groups // nodes
    if per_node == 1:
        return np.tile(np.arange(groups)[:, None], (layers, 1, 1))
    if per_node == 2:
        order = np.argsort(-group_loads, axis=1, kind="stable")
        return np.stack([order[:, :nodes], order[:, : nodes - 1 : -1]], axis=2)
    if partitions(groups, nodes) <= MOST_PARTITIONS:
        ways = _all_partitions(groups, nodes)
        return np.stack([ways[row[ways].sum(axis=2).max(axis=1).argmin()] for row in group_loads])
    ids = np.tile(np.arange(groups), (layers, 1))
    packed = slots_from_bins(pack(group_loads, ids, nodes, per_node, spread=False), ids, nodes)
    swapped, _ = exchange(packed.reshape(layers, -1), group_loads, nodes, Rules(steps=200, goal_frac=0.0))
    return swapped.reshape(packed.shape)


@lru_cache(maxsize=8)
def _all_partitions(groups: int, nodes: int) -> I64:
    """Every way [P, N, groups/N]."""
    return np.array(list(_ways(tuple(range(groups)), groups // nodes)))


def _ways(groups: tuple[int, ...], size: int) -> Iterator[list[tuple[int, ...]]]:
    if not groups:
        yield []
        return
    for others in combinations(groups[1:], size - 1):
        left = tuple(g for g in groups[1:] if g not in others)
        for rest in _ways(left, size):
            yield [(groups[0], *others), *rest]


def home_nodes(placement: Placement, topology: Topology, groups: int) -> I64:
    """Node [L, groups] that holds most copies of a group's experts, the lowest on a tie."""
    group = placement.flat() // (placement.experts // groups)  # [L, S]
    node = np.repeat(topology.node_of_card(), placement.slots // placement.cards)
    held = np.zeros((placement.layers, groups, topology.nodes), dtype=np.int64)
    np.add.at(held, (np.arange(placement.layers)[:, None], group, node), 1)
    return held.argmax(axis=2)


def foreign_tokens(placement: Placement, loads: F64, topology: Topology, groups: int) -> F64:
    """Tokens a step [..., L, N] that copies outside their group's node take in, by the node that takes them.

    These cross to a node that their router group did not choose: traffic that a strict placement does not have.
    """
    home = home_nodes(placement, topology, groups)
    group = placement.flat() // (placement.experts // groups)
    node = np.repeat(topology.node_of_card(), placement.slots // placement.cards)
    layer = np.arange(placement.layers)[:, None]
    away = home[layer, group] != node  # [L, S]
    tokens = (loads / placement.counts())[..., layer, placement.flat()] * away
    return tokens.reshape(*loads.shape[:-1], topology.nodes, -1).sum(axis=-1)


def is_strict(placement: Placement, topology: Topology, groups: int) -> bool:
    """Whether every copy lies on the node of its group, in every layer."""
    ones = np.ones((placement.layers, placement.experts))
    return not foreign_tokens(placement, ones, topology, groups).any()

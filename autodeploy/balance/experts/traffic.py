"""Cross-node traffic of token-level choices, and placements that lower it at nearly the same largest card load.

A token travels once to every node that holds one of its experts, so experts chosen together belong together.
"""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.placement import F64, I64, Placement, Topology, card_loads


def coactivation(choices: I64, experts: int) -> F64:
    """Tokens that choose both experts [L, E, E], from choices [T, L, tokens, k]; the diagonal is zero."""
    layers = choices.shape[1]
    together = np.zeros((layers, experts, experts))
    for layer in range(layers):
        picked = choices[:, layer].reshape(-1, choices.shape[3])
        for a in range(picked.shape[1]):
            for b in range(a + 1, picked.shape[1]):
                pair = np.bincount(picked[:, a] * experts + picked[:, b], minlength=experts * experts)
                together[layer] += pair.reshape(experts, experts)
        together[layer] += together[layer].T.copy()
        np.fill_diagonal(together[layer], 0.0)
    return together


def nodes_per_token(choices: I64, placement: Placement, topology: Topology) -> F64:
    """Mean distinct nodes a token visits [L], for choices [T, L, tokens, k]; the copies of an expert take turns."""
    node_of_slot = np.repeat(topology.node_of_card(), placement.slots // placement.cards)
    result = np.empty(placement.layers)
    for layer, flat in enumerate(placement.flat()):
        by_expert = node_of_slot[np.argsort(flat, kind="stable")]
        copies = placement.counts()[layer]
        first = np.cumsum(copies) - copies
        picked = choices[:, layer].reshape(-1, choices.shape[3])
        turn = np.arange(len(picked))[:, None] % copies[picked]
        visited = np.zeros((len(picked), topology.nodes), dtype=bool)
        np.put_along_axis(visited, by_expert[first[picked] + turn], True, axis=1)
        result[layer] = visited.sum(axis=1).mean()
    return result


def reduce_traffic(
    placement: Placement, loads: F64, together: F64, topology: Topology, tolerance_frac: float = 0.02, steps: int = 200
) -> Placement:
    """Swap slots between nodes while that brings experts chosen together [L, E, E] onto one node.

    No card passes (1 + tolerance_frac) x the largest card load of ``placement`` for ``loads`` [L, E].
    """
    limit = card_loads(placement, loads).max(axis=1) * (1 + tolerance_frac)
    share = loads / placement.counts()
    flat = np.stack(
        [
            _cluster(
                placement.flat()[i],
                share[i],
                together[i] / np.outer(*2 * [placement.counts()[i]]),
                topology,
                limit[i],
                steps,
            )
            for i in range(placement.layers)
        ]
    )
    settled, _ = exchange(flat, loads, topology.cards, Rules(recount=False, node_of_card=topology.node_of_card()))
    return Placement(settled.reshape(placement.slot_expert.shape), placement.experts)


def _cluster(slots: I64, share: F64, pair: F64, topology: Topology, limit: float, steps: int) -> I64:
    """One layer: the best swap of slots [S] on different nodes, again and again (Kernighan & Lin, BSTJ 49, 1970)."""
    slots, width = slots.copy(), len(slots) // topology.cards
    card = np.arange(len(slots)) // width
    node = topology.node_of_card()[card]
    for _ in range(steps):
        tokens = share[slots]
        room = limit - np.bincount(card, tokens, minlength=topology.cards)[card]  # [S]
        near = pair[slots][:, slots]  # [S, S]
        to_node = np.stack([near[:, node == n].sum(axis=1) for n in range(topology.nodes)], axis=1)  # [S, N]
        at_home = to_node[np.arange(len(slots)), node]
        toward = to_node[:, node] - at_home[:, None]  # what slot i gains on the node of slot j
        gain = toward + toward.T - 2 * near
        grows = tokens[None, :] - tokens[:, None]  # what the card of i gains in the swap
        held = (slots[:, None, None] == slots.reshape(topology.cards, width)).any(axis=2)[
            :, card
        ]  # i's expert on j's card
        allowed = (grows <= room[:, None]) & (-grows <= room[None, :]) & ~held & ~held.T
        gain = np.where(allowed & (node[:, None] != node[None, :]), gain, 0.0)
        a, b = np.unravel_index(gain.argmax(), gain.shape)
        if gain[a, b] <= 1e-9 * max(float(pair.sum()), 1.0):
            break
        slots[a], slots[b] = slots[b], slots[a]
    return slots

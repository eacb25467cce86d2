"""From one placement to another: which copies must move, over which links, in what time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from autodeploy.balance.experts.placement import F64, I64, Bool, Placement, Topology
from autodeploy.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What one copy of an expert weighs (weights and optimizer state) and how fast a card sends and receives."""

    bytes_per_expert: float
    intra_bytes_per_s: float  # per card, one direction, inside a node
    inter_bytes_per_s: float  # per card, one direction, between nodes

    def __post_init__(self) -> None:
        for name in ("bytes_per_expert", "intra_bytes_per_s", "inter_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"Links.{name}", getattr(self, name), "a number > 0")

    def intra_s(self) -> float:
        """Seconds of one expert inside a node."""
        return self.bytes_per_expert / self.intra_bytes_per_s

    def inter_s(self) -> float:
        """Seconds of one expert between nodes."""
        return self.bytes_per_expert / self.inter_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Price of a migration, each [L]: the busiest card's seconds by level, bytes and copies moved."""

    intra_s: F64
    inter_s: F64
    moved_bytes: F64
    copies: I64

    def seconds(self) -> F64:
        """Both phases, one after the other [L]."""
        return self.intra_s + self.inter_s


def migration_cost(old: Placement, new: Placement, topology: Topology, links: Links) -> Cost:
    """Price, layer by layer, of turning ``old`` into ``new``.

    A card receives each expert it lacks, from its node where a copy is there, else from another node. The copies that
    hold an expert share the sending evenly. A phase lasts as long as its busiest card sends or receives.
    """
    held, wanted = old.hosts(), new.hosts()
    missing = wanted & ~held  # [L, G, E]
    by_node = held.reshape(old.layers, topology.nodes, topology.cards_per_node, -1)
    hosts_in_node = by_node.sum(axis=2)  # [L, N, E]
    near = np.repeat(hosts_in_node > 0, topology.cards_per_node, axis=1)
    intra, inter = missing & near, missing & ~near
    wanted_in_node = intra.reshape(by_node.shape).sum(axis=2)
    send_intra = np.where(by_node, (wanted_in_node / np.maximum(hosts_in_node, 1))[:, :, None, :], 0.0)
    per_host = inter.sum(axis=1) / held.sum(axis=1)  # [L, E]
    send_inter = (held * per_host[:, None, :]).sum(axis=2)
    busiest_intra = np.maximum(intra.sum(axis=2), send_intra.sum(axis=3).reshape(old.layers, -1)).max(axis=1)
    busiest_inter = np.maximum(inter.sum(axis=2), send_inter).max(axis=1)
    copies = missing.sum(axis=(1, 2))
    return Cost(
        intra_s=busiest_intra * links.intra_s(),
        inter_s=busiest_inter * links.inter_s(),
        moved_bytes=copies * links.bytes_per_expert,
        copies=copies,
    )


def relabel(new: Placement, old: Placement, topology: Topology, links: Links, keep_nodes: bool = False) -> Placement:
    """``new`` with its cards renumbered so that as little as can be must move from ``old``: an assignment per layer.

    Cards are alike, so any numbering balances as well. ``keep_nodes`` renumbers whole nodes, then cards inside them,
    for placements whose nodes mean something (router groups, co-activation).
    """
    held, wanted = old.hosts().astype(np.float32), new.hosts().astype(np.float32)
    shape = (old.layers, topology.nodes, topology.cards_per_node, -1)
    node_held = (held.reshape(shape).max(axis=2)).transpose(0, 2, 1)  # [L, E, N]
    same_card = wanted @ held.transpose(0, 2, 1)  # [L, G new, G old]
    node_of_card = topology.node_of_card()
    result = new.slot_expert.copy()
    for layer in range(old.layers):
        same_node = (wanted[layer] @ node_held[layer])[:, node_of_card]
        kept_s = same_card[layer] * links.intra_s() + same_node * max(links.inter_s() - links.intra_s(), 0.0)
        target = _match_nodes_then_cards(kept_s, topology) if keep_nodes else _match(kept_s)
        result[layer, target] = new.slot_expert[layer]
    return Placement(settle(result, old.slot_expert), new.experts)


def _match(kept: F64) -> I64:
    """Old index of each new one so that what is kept [new, old] sums highest."""
    return linear_sum_assignment(kept, maximize=True)[1]


def _match_nodes_then_cards(kept: F64, topology: Topology) -> I64:
    """As ``_match`` on cards, with nodes kept whole."""
    nodes, cards = topology.nodes, topology.cards_per_node
    blocks = kept.reshape(nodes, cards, nodes, cards).transpose(0, 2, 1, 3)
    inner = [[_match(blocks[a, b]) for b in range(nodes)] for a in range(nodes)]
    worth = np.array([[blocks[a, b][np.arange(cards), inner[a][b]].sum() for b in range(nodes)] for a in range(nodes)])
    node = _match(worth)
    return np.concatenate([node[a] * cards + inner[a][node[a]] for a in range(nodes)])


def settle(new: I64, old: I64) -> I64:
    """``new`` [L, G, C] with the slots of each card reordered: an expert that stays keeps its slot."""
    result = new.copy()
    for layer, card in np.argwhere((new != old).any(axis=2)):
        waiting = list(new[layer, card])
        slots = np.full(new.shape[2], -1)
        for slot, expert in enumerate(old[layer, card]):
            if expert in waiting:
                waiting.remove(expert)
                slots[slot] = expert
        slots[slots < 0] = waiting
        result[layer, card] = slots
    return result


@dataclass(frozen=True, slots=True)
class Move:
    """One copy of an expert to receive: it overwrites ``slot`` of ``to_card``."""

    layer: int
    expert: int
    from_card: int
    to_card: int
    slot: int
    level: str  # "intra" or "inter" node
    moved_bytes: float
    seconds: float


def list_moves(old: Placement, new: Placement, topology: Topology, links: Links) -> list[Move]:
    """The moves of a plan, layer by layer; the source is the nearest holder, holders taking turns."""
    held, node = old.hosts(), topology.node_of_card()
    missing: Bool = new.hosts() & ~held
    turns: dict[tuple[int, int, int], int] = {}
    moves = []
    for layer, card, expert in np.argwhere(missing):
        holders = np.flatnonzero(held[layer, :, expert])
        near = holders[node[holders] == node[card]]
        pool = near if len(near) else holders
        key = (int(layer), int(expert), int(node[card]) if len(near) else -1)
        source = pool[turns.get(key, 0) % len(pool)]
        turns[key] = turns.get(key, 0) + 1
        slot = int(np.flatnonzero(new.slot_expert[layer, card] == expert)[0])
        level, seconds = ("intra", links.intra_s()) if len(near) else ("inter", links.inter_s())
        moves.append(
            Move(int(layer), int(expert), int(source), int(card), slot, level, links.bytes_per_expert, seconds)
        )
    return moves

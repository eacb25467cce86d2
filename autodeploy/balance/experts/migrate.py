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
    piece_bytes: float = 4 * 2**20  # in which a relayed copy is passed on: 80 us at 50 GB/s, some ten times a latency

    def __post_init__(self) -> None:
        for name in ("bytes_per_expert", "intra_bytes_per_s", "inter_bytes_per_s", "piece_bytes"):
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
    """Price, layer by layer, of turning ``old`` into ``new``: between nodes first, then inside them.

    A card receives each expert it lacks, from its node where a copy is there. A node without one takes the expert in
    once, on one card, which passes it on. Receivers of an expert stand in chains behind its holders, as many chains
    as holders: each passes on what it takes in, piece by piece, so a chain costs one copy and a piece a further link.
    A phase lasts as long as its busiest card sends or receives.
    """
    held, missing = _split_by_node(old.hosts(), topology), _split_by_node(new.hosts() & ~old.hosts(), topology)
    heads = _heads(missing, held)
    inside = missing & ~heads
    inter_s = _phase_s(heads, held, (1, 2), links, links.inter_bytes_per_s)
    intra_s = _phase_s(inside, held | heads, (2,), links, links.intra_bytes_per_s)
    copies = missing.sum(axis=(1, 2, 3))
    return Cost(intra_s=intra_s, inter_s=inter_s, moved_bytes=copies * links.bytes_per_expert, copies=copies)


def _split_by_node(mask: Bool, topology: Topology) -> Bool:
    """[L, N, cards of a node, E] of [L, G, E]."""
    return mask.reshape(len(mask), topology.nodes, topology.cards_per_node, -1)


def _heads(missing: Bool, held: Bool) -> Bool:
    """Of the cards that lack an expert [L, N, C, E], the one that takes it in for a node without a copy.

    Experts begin their look-out at different cards, so that no card heads them all.
    """
    cards, experts = missing.shape[2:]
    start = np.arange(experts) % cards
    turn = (np.arange(cards)[:, None] - start) % cards  # [C, E]
    first = np.where(missing, turn, cards).argmin(axis=2)  # [L, N, E]
    heads = np.zeros_like(missing)
    np.put_along_axis(heads, first[:, :, None, :], ~held.any(axis=2, keepdims=True), axis=2)
    return heads & missing


def _phase_s(receive: Bool, hold: Bool, axes: tuple[int, ...], links: Links, bytes_per_s: float) -> F64:
    """Seconds [L] of the busiest card; receivers and holders [L, N, C, E] form chains over ``axes``."""
    receivers = receive.sum(axis=axes, keepdims=True)
    holders = np.maximum(hold.sum(axis=axes, keepdims=True), 1)
    chains = np.minimum(receivers, holders)
    some = np.maximum(receivers, 1)
    sent = np.where(hold, chains / holders, 0.0) + np.where(receive, (receivers - chains) / some, 0.0)
    busiest = np.maximum(receive.sum(axis=3), sent.sum(axis=3)).max(axis=(1, 2))
    links_behind = (-(-receivers // np.maximum(chains, 1)) - 1).max(axis=(1, 2, 3)).clip(min=0)
    piece = min(links.piece_bytes, links.bytes_per_expert)
    return (busiest * links.bytes_per_expert + links_behind * piece) / bytes_per_s


def relabel(new: Placement, old: Placement, topology: Topology, links: Links, keep_nodes: bool = False) -> Placement:
    """``new`` with its cards renumbered so that as little as can be must move from ``old``: an assignment per layer.

    Cards are alike, so any numbering balances as well. ``keep_nodes`` renumbers whole nodes, then cards inside them,
    for placements whose nodes mean something (router groups, co-activation).
    """
    held, wanted = old.hosts().astype(np.float32), new.hosts().astype(np.float32)
    shape = (old.layers, topology.nodes, topology.cards_per_node, -1)
    node_held = (held.reshape(shape).max(axis=2)).transpose(0, 2, 1)  # [L, E, N]
    node_of_card = topology.node_of_card()
    result = new.slot_expert.copy()
    for layer in range(old.layers):
        same_node = (wanted[layer] @ node_held[layer])[:, node_of_card]
        same_card = wanted[layer] @ held[layer].T  # [G new, G old]; layer by layer: stacks of transposes miss the BLAS
        kept_s = same_card * links.intra_s() + same_node * max(links.inter_s() - links.intra_s(), 0.0)
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
    """One copy of an expert to receive. When all moves of the layer are done it takes ``slot`` of ``to_card``."""

    layer: int
    expert: int
    from_card: int
    to_card: int
    slot: int
    level: str  # "intra" or "inter" node
    moved_bytes: float
    seconds: float
    wave: int = 0  # the source held the expert before (0), or takes it in one wave earlier and passes it on


def list_moves(old: Placement, new: Placement, topology: Topology, links: Links) -> list[Move]:
    """The moves of a plan, layer by layer, between nodes before inside: the chains that ``migration_cost`` prices."""
    held = _split_by_node(old.hosts(), topology)
    missing = _split_by_node(new.hosts() & ~old.hosts(), topology)
    heads = _heads(missing, held)
    moves = []
    for layer in np.flatnonzero(missing.any(axis=(1, 2, 3))):
        chains = _Chains(int(layer), new.slot_expert[layer], links, topology.cards)
        wide = (topology.cards, -1)
        for expert in np.flatnonzero(heads[layer].any(axis=(0, 1))):
            holders = np.flatnonzero(held[layer].reshape(wide)[:, expert])
            chains.add(int(expert), holders, np.flatnonzero(heads[layer].reshape(wide)[:, expert]), "inter")
        for node, expert in np.argwhere((missing & ~heads)[layer].any(axis=1)):
            first = node * topology.cards_per_node
            holders = first + np.flatnonzero((held | heads)[layer, node, :, expert])
            chains.add(
                int(expert), holders, first + np.flatnonzero((missing & ~heads)[layer, node, :, expert]), "intra"
            )
        moves += chains.moves
    return moves


class _Chains:
    """The moves of one layer as they are laid out."""

    def __init__(self, layer: int, slot_expert: I64, links: Links, cards: int) -> None:
        self.layer, self.slot_expert, self.links = layer, slot_expert, links
        self.sent = np.zeros(cards, dtype=np.int64)
        self.wave: dict[tuple[int, int], int] = {}  # (card, expert): the wave in which it takes the expert in
        self.moves: list[Move] = []

    def add(self, expert: int, holders: I64, receivers: I64, level: str) -> None:
        """Receivers behind the holders in turn, holders that send least first."""
        seconds = self.links.intra_s() if level == "intra" else self.links.inter_s()
        tails = holders[np.argsort(self.sent[holders], kind="stable")][: len(receivers)].tolist()
        for turn, card in enumerate(receivers.tolist()):
            source = tails[turn % len(tails)]
            tails[turn % len(tails)] = card
            wave = self.wave.get((source, expert), -1) + 1
            self.wave[card, expert] = wave
            self.sent[source] += 1
            slot = int(np.flatnonzero(self.slot_expert[card] == expert)[0])
            size = self.links.bytes_per_expert
            self.moves.append(Move(self.layer, expert, source, card, slot, level, size, seconds, wave))

"""Collectives -> seconds over the tiers of the network, for groups of any size and stride.

A group of ``size`` cards ``stride`` apart has, inside a domain of ``c`` cards, w = clip(c / stride, 1, size) members.
Arguments broadcast to [U]; bytes are what nccl-tests calls size (the full vector), so wire bytes are f * size.
"""

from __future__ import annotations

from math import comb

import numpy as np

from cost_models.inputs import FeedForward, HardwareProfile, SoftwareStack, Tier
from cost_models.records import record
from cost_models.strategies import DISPATCHER_CODE, F64, I64

# Rows fp8 recipes still dispatch in 16 bit; wire factors of nccl-tests' PERFORMANCE.md.
WIRE = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


def members(size: F64, stride: F64, tier: Tier) -> F64:
    """Cards of the group inside one domain of the tier."""
    return np.clip(np.floor(tier.cards / stride), 1.0, size)


def network_frac(tier: Tier, hardware: HardwareProfile) -> float:
    """What a training step gets of the tier's benchmarked rate: all of it inside the node, less between nodes."""
    return 1.0 if tier is hardware.tiers[0] else hardware.overheads.network_frac


def tier_rate(tier: Tier, op: str, inside: F64, whole_group: F64, hardware: HardwareProfile) -> F64:
    """Bytes per second and card that a group with ``inside`` members in the domain reaches on this tier."""
    curve = tier.curves[op]
    efficiency = np.full(np.shape(inside), curve.efficiency_frac)
    if curve.pair_efficiency_frac > 0:
        efficiency = np.where(inside == 2, curve.pair_efficiency_frac, efficiency)
    if curve.in_network_ranks:
        switch = (inside >= curve.in_network_ranks) & (inside == whole_group)
        efficiency = np.where(switch, curve.in_network_efficiency_frac, efficiency)
    rate = tier.bandwidth_bytes_per_s * efficiency * network_frac(tier, hardware)
    if tier.full_mesh and tier.cards > 1:
        rate = rate * np.clip((inside - 1) / (tier.cards - 1), 1e-9, 1.0)
    return rate


@record(kw_only=False)
class RingTerms:
    """What a ring costs whatever it carries: t = latency + ideal + ramp sqrt(ideal), ideal = size x seconds per byte."""

    latency_s: F64
    seconds_per_byte: F64
    ramp: F64

    def seconds(self, size_bytes: F64) -> F64:
        """Seconds of ``size_bytes`` full vectors; the terms broadcast against them. Nothing to send costs nothing."""
        ideal = size_bytes * self.seconds_per_byte
        return np.where(ideal > 0, self.latency_s + ideal + self.ramp * np.sqrt(ideal), 0.0)

    def column(self) -> RingTerms:
        """The same for [N, P] sizes."""
        return RingTerms(self.latency_s[:, None], self.seconds_per_byte[:, None], self.ramp[:, None])


def ring_terms(op: str, size: F64, stride: F64, hardware: HardwareProfile) -> RingTerms:
    """All-reduce, all-gather or reduce-scatter. Every card of a node drives its own NIC, so a group with w members in
    the node has w NICs: the slowest of (link, w x NIC, ...) is the bus bandwidth."""
    size = np.asarray(size, dtype=float)
    lower = np.ones_like(size)
    latency, slowest = np.zeros_like(size), np.full_like(size, np.inf)
    ramp = np.zeros_like(size)
    for tier in hardware.tiers:
        inside = members(size, stride, tier)
        crossed = inside > lower
        curve = tier.curves[op]
        rate = tier_rate(tier, op, inside / lower if tier.full_mesh else inside, size, hardware) * lower
        slowest = np.where(crossed, np.minimum(slowest, rate), slowest)
        hops = inside / lower - 1.0
        latency = latency + np.where(crossed, curve.latency_s + curve.latency_per_rank_s * hops, 0.0)
        ramp = np.where(crossed, curve.ramp_sqrt_s, ramp)
        lower = inside
    return RingTerms(latency, WIRE[op] * (size - 1.0) / size / slowest, ramp)


def ring_s(op: str, size_bytes: F64, size: F64, stride: F64, hardware: HardwareProfile) -> F64:
    """Seconds of one ring collective; a group of one costs nothing."""
    return ring_terms(op, size, stride, hardware).seconds(size_bytes)


def all_to_all_tiers_s(size_bytes: F64, size: F64, stride: F64, hardware: HardwareProfile) -> list[F64]:
    """Seconds that a flat all-to-all keeps each tier busy: what leaves a domain crosses the next tier up."""
    size = np.asarray(size, dtype=float)
    lower = np.ones_like(size)
    seconds = []
    for tier in hardware.tiers:
        inside = members(size, stride, tier)
        wire = size_bytes * (inside - lower) / size
        seconds.append(_wire_s("all_to_all", wire, inside, lower, tier, hardware))
        lower = inside
    return seconds


def _wire_s(op: str, wire: F64, inside: F64, lower: F64, tier: Tier, hardware: HardwareProfile) -> F64:
    """Latency, bandwidth and ramp of ``wire`` bytes per card on one tier; 0 where nothing crosses it."""
    curve = tier.curves[op]
    rate = tier_rate(tier, op, inside, inside, hardware)
    ideal = wire / rate
    latency = curve.latency_s + curve.latency_per_rank_s * (inside - lower)
    return np.where(wire > 0, latency + ideal + curve.ramp_sqrt_s * np.sqrt(ideal), 0.0)


def all_to_all_s(size_bytes: F64, size: F64, stride: F64, hardware: HardwareProfile) -> F64:
    """A flat all-to-all uses its tiers at the same time: the slowest decides."""
    return np.max(np.stack(all_to_all_tiers_s(size_bytes, size, stride, hardware)), axis=0)


def _domains_met(domains: F64, experts: int, top_k: int) -> F64:
    """N (1 - C(E - E/N, k) / C(E, k)): of N equal parts of the experts, how many hold one of k experts drawn at random."""
    parts = np.ravel(domains).tolist()
    drawn = comb(experts, top_k)
    met = {n: n * (1 - comb(round(experts - experts / n), top_k) / drawn) for n in set(parts)}
    return np.array([met[n] for n in parts]).reshape(np.shape(domains))


def copies_between_nodes(nodes: F64, experts: int, top_k: int, router_top_groups: int = 0) -> F64:
    """Mean copies of a token that leave its node when each goes once to every node that holds one of its experts; the
    token's own node is one of them in a share 1/N. Node-limited routing caps them."""
    met = _domains_met(nodes, experts, top_k)
    if router_top_groups:
        met = np.minimum(met, router_top_groups)
    return met * (nodes - 1) / nodes


def distinct_domains(domains: F64, ffn: FeedForward, consecutive: bool) -> F64:
    """Mean number of ``domains`` equal parts of the experts that hold one of a token's k experts: any k, or (a balanced gate
    that takes neighbours) a window of k slots, which meets 1 + (k - 1) / (E/N) parts."""
    domains = np.asarray(domains, dtype=float)
    calls = max(1, round(ffn.expert_calls))
    if consecutive:
        return np.minimum(1.0 + (calls - 1) * domains / ffn.experts, np.minimum(domains, calls))
    return _domains_met(domains, ffn.experts, calls)


# A de-duplicating dispatcher (DeepEP, HybridEP) forwards over the node's links while its network transfers run. On H100 with
# DeepEP (operators/h100_sxm_deepep_normal.csv, 7168 wide, top-8 of 256, 2 K to 128 K tokens) two nodes take the longer of
# the two and 0.2 to 0.45 of the shorter, four nodes the longer alone.
DEDUP_CHUNKS = 6


def dispatch_s(
    size_bytes: F64,
    ep: F64,
    stride: F64,
    dispatcher: I64,
    ffn: FeedForward,
    hardware: HardwareProfile,
    stack: SoftwareStack,
) -> tuple[F64, F64, F64]:
    """(total, intra-node, inter-node) seconds of one expert dispatch or combine by dispatcher.

    ``size_bytes`` is what a card sends: tokens x top_k x hidden. intra and inter are the occupations of the two lanes.
    """
    tiers = all_to_all_tiers_s(size_bytes, ep, stride, hardware)
    intra_flat, inter_flat = (
        tiers[0],
        np.sum(np.stack(tiers[1:]), axis=0) if len(tiers) > 1 else np.zeros_like(tiers[0]),
    )
    total_flat = np.max(np.stack(tiers), axis=0)
    inside = members(ep, stride, hardware.tiers[0])
    nodes = ep / inside
    tokens_bytes = size_bytes / ffn.expert_calls
    code = DISPATCHER_CODE
    gathered = ring_s("all_gather", tokens_bytes * ep, ep, stride, hardware)
    copies_a = nodes - 1.0
    dedup = dispatcher == code["hierarchical-dedup"]
    consecutive = stack.consecutive_routing
    met = distinct_domains(nodes, ffn, consecutive)
    if ffn.router_top_groups and not consecutive:
        met = np.minimum(met, ffn.router_top_groups)
    copies = np.where(dedup, met * (nodes - 1.0) / nodes, copies_a)
    inter = _inter_node_s(tokens_bytes * copies, ep, stride, hardware)
    # To a card of the node a de-duplicating dispatcher sends a token once, however many of its experts lie there.
    rows = np.where(dedup, tokens_bytes * distinct_domains(ep, ffn, consecutive), size_bytes)
    fan_out = rows * (inside - 1.0) / inside
    intra = _wire_s(
        "all_to_all", np.where(inside > 1, fan_out, 0.0), inside, np.ones_like(inside), hardware.tiers[0], hardware
    )
    chunks = np.where(dedup, np.maximum(stack.hierarchical_chunks, DEDUP_CHUNKS), max(stack.hierarchical_chunks, 1))
    longer, shorter = np.maximum(inter, intra), np.minimum(inter, intra)
    total = np.where(nodes > 1, longer + shorter / chunks, intra)
    hierarchical = (dispatcher >= code["hierarchical-allgather"]) & (ep > 1)
    all_gather = dispatcher == code["allgather"]
    total = np.where(hierarchical, total, np.where(all_gather, gathered, total_flat))
    one_node = nodes <= 1
    intra_s = np.where(hierarchical, intra, np.where(all_gather, np.where(one_node, gathered, 0.0), intra_flat))
    inter_s = np.where(hierarchical, inter, np.where(all_gather, np.where(one_node, 0.0, gathered), inter_flat))
    return total, intra_s, inter_s


def _inter_node_s(wire: F64, size: F64, stride: F64, hardware: HardwareProfile) -> F64:
    """The step between nodes, among cards of one local rank; spread over the outer tiers by how far the peers are."""
    lower = members(size, stride, hardware.tiers[0])
    nodes = np.maximum(size / lower, 1.0)
    seconds = np.zeros_like(size)
    for tier in hardware.tiers[1:]:
        inside = members(size, stride, tier)
        share = np.where(
            nodes > 1, (inside - lower) / np.maximum(size - members(size, stride, hardware.tiers[0]), 1e-9), 0.0
        )
        seconds = np.maximum(seconds, _wire_s("all_to_all", wire * share, inside, lower, tier, hardware))
        lower = inside
    return seconds


def p2p_s(size_bytes: F64, stride: F64, hardware: HardwareProfile) -> F64:
    """Send to the card ``stride`` ranks away, over the innermost tier that holds both."""
    seconds = np.zeros(np.broadcast(size_bytes, stride).shape)
    done = np.zeros_like(seconds, dtype=bool)
    for tier in hardware.tiers:
        curve = tier.curves["p2p"]
        rate = tier.bandwidth_bytes_per_s * curve.efficiency_frac * network_frac(tier, hardware)
        if tier.full_mesh and tier.cards > 1:
            rate = rate / (tier.cards - 1)
        here = ~done & ((stride < tier.cards) | (tier is hardware.tiers[-1]))
        ideal = size_bytes / rate
        seconds = np.where(here, curve.latency_s + ideal + curve.ramp_sqrt_s * np.sqrt(ideal), seconds)
        done = done | here
    return seconds

"""Fits of the collective curves, one tier and one operation at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodeploy.calibrate.curves import intra_collective_s, wire_factor
from autodeploy.calibrate.fit_compute import take
from autodeploy.calibrate.fitting import FitError, Parameter, apes, fit
from autodeploy.calibrate.measurements import CollectiveTable
from cost_models.inputs import CollectiveCurve, Tier

EXTRA_EFFICIENCY_GAIN = 0.9  # an efficiency of its own is kept where it brings the error below this share
NVLS_MIN_RANKS = 5  # NCCL reduces in the switch for more than four GPUs (stas00/ml-engineering, network page)
LARGE_BYTES = 2**20  # training sends messages of a MiB and more
SMALL_WEIGHT = 0.4  # of the smaller ones in the fit


def fit_intra(table: CollectiveTable, tier: Tier) -> tuple[CollectiveCurve, FitError]:
    """The curve of a tier from tables of groups inside one domain, all group sizes together.

    Groups of two may reach less (fewer links), and large all-reduces more (the switch reduces): an efficiency of their
    own is tried for each and kept where it is clearly better than one for all.
    """
    sizes = [int(ranks) for ranks in np.unique(table.ranks)]
    switches = [size for size in sizes[1:] if table.op == "all_reduce" and size >= NVLS_MIN_RANKS]
    pairs = [True] if sizes[0] == 2 and len(sizes) > 1 else []
    curve, error = _fit_with(table, tier, False, 0)
    for pair, switch in [(True, 0) for _ in pairs] + [(bool(pairs), size) for size in switches]:
        other, other_error = _fit_with(table, tier, pair, switch)
        if _large_error(other, table, tier) < EXTRA_EFFICIENCY_GAIN * _large_error(curve, table, tier):
            curve, error = other, other_error
    return curve, error


def _large_error(curve: CollectiveCurve, table: CollectiveTable, tier: Tier) -> float:
    """Mean error over the large messages (all, if none is large)."""
    rows = np.flatnonzero(table.message_bytes >= LARGE_BYTES)
    part = take(table, rows) if rows.size else table
    predicted = intra_collective_s(curve, part, tier.bandwidth_bytes_per_s, tier.cards, tier.full_mesh)
    return float(np.mean(apes(predicted, part.seconds)))


def _fit_with(table: CollectiveTable, tier: Tier, pair: bool, switch: int) -> tuple[CollectiveCurve, FitError]:
    """``pair``: groups of two have their own efficiency; ``switch``: so have groups from this size on (0: none)."""
    parameters = [
        Parameter(name="latency_s", start=10e-6, low=0, high=2e-3),
        Parameter(name="efficiency_frac", start=0.8, low=0.02, high=1.5),
        Parameter(name="ramp_sqrt_s", start=3e-3, low=0, high=0.1),
    ]
    if np.unique(table.ranks).size > 1:
        parameters.append(Parameter(name="latency_per_rank_s", start=1e-6, low=0, high=50e-6))
    if pair:
        parameters.append(Parameter(name="pair_efficiency_frac", start=0.6, low=0.02, high=1.5))
    if switch:
        parameters.append(Parameter(name="in_network_efficiency_frac", start=1.0, low=0.1, high=2.0))

    def curve(values) -> CollectiveCurve:
        named: dict[str, Any] = dict(zip((p.name for p in parameters), map(float, values), strict=True))
        return CollectiveCurve(in_network_ranks=switch, **named)

    values, error = fit(
        lambda values, rows: intra_collective_s(
            curve(values), take(table, rows), tier.bandwidth_bytes_per_s, tier.cards, tier.full_mesh
        ),
        parameters,
        table.seconds,
        weights=np.where(table.message_bytes >= LARGE_BYTES, 1.0, SMALL_WEIGHT),
    )
    return curve(values.values()), error


def fit_inter(
    tables: Sequence[CollectiveTable], tier: Tier, inner: Tier, inner_curve: CollectiveCurve
) -> tuple[CollectiveCurve, FitError]:
    """The curve of the tier between nodes, from tables over several nodes, whole nodes taking part.

    Ring convention, as cost_models.communication prices it: each of a node's w cards drives its NIC, so the ring has
    w NICs, W = f(n) S bytes cross them, and the slower of link and NICs sets the pace. Latencies of both tiers add up.
    """
    op = tables[0].op
    ranks = np.concatenate([table.ranks for table in tables])
    nodes = np.concatenate([np.full(table.ranks.shape, float(table.nodes)) for table in tables])
    measured = np.concatenate([table.seconds for table in tables])
    cards = ranks / nodes
    wire = wire_factor(op, ranks) * np.concatenate([table.message_bytes for table in tables])
    inside_rate = inner.bandwidth_bytes_per_s * max(inner_curve.efficiency_frac, inner_curve.in_network_efficiency_frac)
    inside_latency = inner_curve.latency_s + inner_curve.latency_per_rank_s * (cards - 1)
    parameters = [
        Parameter(name="latency_s", start=40e-6, low=0, high=2e-3),
        Parameter(name="efficiency_frac", start=0.9, low=0.02, high=1.3),  # 2 nodes: trees beat the ring
        Parameter(name="ramp_sqrt_s", start=3e-3, low=0, high=0.1),
    ]
    if np.unique(nodes).size > 1:
        parameters.append(Parameter(name="latency_per_rank_s", start=10e-6, low=0, high=200e-6))

    def seconds(values, rows):
        latency, efficiency, ramp, per_node = (*(float(value) for value in values), 0.0)[:4]
        ideal = wire[rows] / np.minimum(inside_rate, cards[rows] * tier.bandwidth_bytes_per_s * efficiency)
        return inside_latency[rows] + latency + per_node * (nodes[rows] - 1) + ideal + ramp * np.sqrt(ideal)

    values, error = fit(seconds, parameters, measured)
    per_node = values.pop("latency_per_rank_s", 0.0)
    curve = CollectiveCurve(
        latency_s=values["latency_s"],
        efficiency_frac=values["efficiency_frac"],
        ramp_sqrt_s=values["ramp_sqrt_s"],
        latency_per_rank_s=per_node,
    )
    return curve, error

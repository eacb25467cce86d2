"""Fits of the collective curves, one tier and one operation at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autodeploy.calibrate.curves import intra_collective_s, wire_factor
from autodeploy.calibrate.fit_compute import take
from autodeploy.calibrate.fitting import FitError, Parameter, fit
from autodeploy.calibrate.measurements import CollectiveTable
from cost_models.inputs import CollectiveCurve, Tier

IN_NETWORK_GAIN = 1.06  # the switch reduces where the large groups' efficiency passes the small ones' by this factor


def fit_intra(table: CollectiveTable, tier: Tier) -> tuple[CollectiveCurve, FitError]:
    """The curve of a tier from tables of groups inside one domain, all group sizes together."""
    many = np.unique(table.ranks).size > 1
    in_network = _in_network_ranks(table)
    parameters = [
        Parameter(name="latency_s", start=10e-6, low=0, high=2e-3),
        Parameter(name="efficiency_frac", start=0.8, low=0.02, high=1.5),
        Parameter(name="ramp_sqrt_s", start=3e-3, low=0, high=0.1),
    ]
    if many:
        parameters.append(Parameter(name="latency_per_rank_s", start=1e-6, low=0, high=50e-6))
    if in_network:
        parameters.append(Parameter(name="in_network_efficiency_frac", start=1.0, low=0.1, high=2.0))

    def curve(values) -> CollectiveCurve:
        named = {parameter.name: float(value) for parameter, value in zip(parameters, values, strict=True)}
        return CollectiveCurve(in_network_ranks=in_network, **named)

    values, error = fit(
        lambda values, rows: intra_collective_s(
            curve(values), take(table, rows), tier.bandwidth_bytes_per_s, tier.cards, tier.full_mesh
        ),
        parameters,
        table.seconds,
    )
    return curve(values.values()), error


def _in_network_ranks(table: CollectiveTable) -> int:
    """The smallest group whose large-message all-reduce rate jumps over that of the smaller groups; 0 if none does."""
    if table.op != "all_reduce":
        return 0
    rates = {}
    for ranks in np.unique(table.ranks):
        rows = take(table, np.flatnonzero(table.ranks == ranks))
        rates[int(ranks)] = float(np.max(2 * (ranks - 1) / ranks * rows.message_bytes / rows.seconds))
    sizes = sorted(rates)
    for below, size in zip(sizes, sizes[1:], strict=False):
        if size > 4 and rates[size] > IN_NETWORK_GAIN * rates[below]:
            return size
    return 0


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

"""Every placement of a small case, for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, product

import numpy as np

from autodeploy.balance.layers.problem import LayerProblem, Placement, price


def every_placement(problem: LayerProblem) -> Iterator[Placement]:
    stages, layers = problem.stages, problem.items.num_layers
    for inner in combinations_with_replacement(range(layers + 1), stages - 1):
        counts = tuple(b - a for a, b in pairwise((0, *inner, layers)))
        for mtp_stage in problem.mtp_stages or (-1,):
            if mtp_stage >= 0 and sum(counts[mtp_stage + 1 :]):
                continue
            for options in product(range(len(problem.items.options)), repeat=stages):
                yield Placement(counts=counts, mtp_stage=mtp_stage, options=options)


def best_by_brute_force(problem: LayerProblem) -> tuple[float, float] | None:
    """(largest rank sum, largest chunk) of the best placement that fits, rank sums within 1e-6 counted equal."""
    found = []
    for placement in every_placement(problem):
        priced = price(problem, np.array([placement.counts]), placement.mtp_stage, np.array(placement.options))
        if priced.excess_bytes[0] <= 0:
            found.append((float(priced.rank_s.max()), float(priced.chunk_s.max())))
    if not found:
        return None
    rank = min(found)[0]
    return rank, min(chunk for r, chunk in found if r <= rank * (1 + 1e-6))

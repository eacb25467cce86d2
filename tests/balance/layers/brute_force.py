"""Every placement of a small case, for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, pairwise, product

from autodeploy.balance.layers.problem import LayerProblem, Placement


def every_placement(problem: LayerProblem) -> Iterator[Placement]:
    stages, layers = problem.stages, problem.items.num_layers
    for inner in combinations_with_replacement(range(layers + 1), stages - 1):
        counts = tuple(b - a for a, b in pairwise((0, *inner, layers)))
        for mtp_stage in problem.mtp_stages or (-1,):
            if mtp_stage >= 0 and sum(counts[mtp_stage + 1 :]):
                continue
            for options in product(range(len(problem.items.options)), repeat=stages):
                yield Placement(counts=counts, mtp_stage=mtp_stage, options=options)


def plain_figures(problem: LayerProblem, placement: Placement) -> tuple[bool, float, float]:
    """(fits, largest rank sum, largest chunk), item by item, apart from the code under test."""
    items, pp = problem.items, problem.pp
    decoder = 1
    rank_s, static = [0.0] * pp, [0.0] * pp
    chunks: list[list[float]] = [[] for _ in range(pp)]
    largest_chunk = 0.0
    for s, count in enumerate(placement.counts):
        held = [0] if s == 0 else []
        held += range(decoder, decoder + count)
        decoder += count
        if s == placement.mtp_stage:
            held += range(1 + items.num_layers, 1 + items.num_layers + items.mtp_modules)
            static[s % pp] += 0.0 if s == problem.stages - 1 else items.mtp_apart_bytes
        held += [len(items.kinds) - 1] if s == problem.stages - 1 else []
        option = placement.options[s]
        chunk = sum(float(items.forward_s[option, i] + items.backward_s[option, i]) for i in held)
        rank_s[s % pp] += chunk
        largest_chunk = max(largest_chunk, chunk)
        static[s % pp] += sum(float(items.static_bytes[i]) for i in held)
        chunks[s % pp].append(sum(float(items.activation_bytes[option, i]) for i in held))
    fits = all(
        static[r] + sum(n * a for n, a in zip(row, chunks[r], strict=True)) <= problem.memory_cap_bytes[r]
        for r in range(pp)
        for row in problem.in_flight.rows[r].tolist()
    )
    return fits, max(rank_s), largest_chunk


def best_by_brute_force(problem: LayerProblem) -> tuple[float, float] | None:
    """(largest rank sum, largest chunk) of the best placement that fits, rank sums within 1e-6 counted equal."""
    figures = [plain_figures(problem, placement) for placement in every_placement(problem)]
    found = [(rank, chunk) for fits, rank, chunk in figures if fits]
    if not found:
        return None
    rank = min(found)[0]
    return rank, min(chunk for r, chunk in found if r <= rank * (1 + 1e-6))

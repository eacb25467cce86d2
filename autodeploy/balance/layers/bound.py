"""A lower bound on the largest rank sum that forgets the order of layers and the memory: a cutting-stock problem.

A rank holds a multiset of layers (a pattern). With few kinds of layers, the patterns under a limit T are few, and
whether P of them cover all layers is a small integer program. Tight where layers of two kinds alternate.
Source of the idea: Gilmore & Gomory, Operations Research 9(6), 1961.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from autodeploy.balance.layers.problem import LayerProblem

MAX_KINDS = 4
MAX_PATTERNS = 20_000
SOLVE_LIMIT_S = 1.0
SLACK = 1e-9


def order_free_bound_s(problem: LayerProblem, upper_s: float) -> float:
    """Seconds: no placement has a smaller largest rank sum. At most ``upper_s``, which some placement reaches."""
    fastest = problem.items.seconds.min(axis=0)
    costs, counts = np.unique(fastest[problem.items.decoder], return_counts=True)
    if not np.isfinite(upper_s) or costs[0] <= 0 or len(costs) > MAX_KINDS:
        return problem.mean_rank_s
    if float(np.prod(np.minimum(counts, upper_s / costs) + 1)) > MAX_PATTERNS:
        return problem.mean_rank_s
    cases = _rank_offsets(problem)
    sums = np.array(
        [
            np.dot(take, costs)
            for take in product(*(range(int(min(n, upper_s / c)) + 1) for n, c in zip(counts, costs, strict=True)))
        ]
    )
    offsets = np.unique([offset for case in cases for offset, _ in case])
    limits = np.unique(sums[:, None] + offsets)
    limits = limits[(limits >= problem.mean_rank_s * (1 - SLACK)) & (limits < upper_s * (1 - SLACK))]
    low, high = 0, len(limits)  # the first limit that cannot be ruled out, in [low, high]
    while low < high:
        middle = (low + high) // 2
        if any(_covers(limits[middle], costs, counts, case) for case in cases):
            high = middle
        else:
            low = middle + 1
    return float(limits[low]) if low < len(limits) else upper_s


def _rank_offsets(problem: LayerProblem) -> list[list[tuple[float, int]]]:
    """(seconds of what is not a decoder layer, ranks that hold it), for each place of the MTP modules."""
    items, pp = problem.items, problem.pp
    fastest = items.seconds.min(axis=0)
    mtp = float(fastest[items.mtp].sum())
    first, last = float(fastest[0]), float(fastest[-1])
    cases = [[(first, 1), (last + mtp, 1), (0.0, pp - 2)]]
    if len(problem.mtp_stages) > 1:
        cases.append([(first, 1), (last, 1), (mtp, 1), (0.0, pp - 3)])
    return [[(offset, ranks) for offset, ranks in case if ranks > 0] for case in cases]


def _covers(limit_s: float, costs: np.ndarray, counts: np.ndarray, ranks: list[tuple[float, int]]) -> bool:
    """Whether full patterns under the limit can hold all layers; True also where the solver ran out of time."""
    columns, of_type = [], []
    for t, (offset, _) in enumerate(ranks):
        if offset > limit_s * (1 + SLACK):
            return False
        patterns = _full_patterns(limit_s - offset, costs, counts)
        columns += patterns
        of_type += [t] * len(patterns)
    matrix = np.array(columns).T  # [kinds, patterns]
    types = np.equal.outer(np.arange(len(ranks)), of_type).astype(float)
    available = np.array([number for _, number in ranks], dtype=float)
    from scipy.optimize import Bounds, LinearConstraint, milp  # here: 0.2 s that most commands do not need

    constraints = [LinearConstraint(matrix, counts, np.inf), LinearConstraint(types, available, available)]
    size = matrix.shape[1]
    result = milp(
        np.zeros(size),
        integrality=np.ones(size),
        bounds=Bounds(0, np.inf),
        constraints=constraints,
        options={"time_limit": SOLVE_LIMIT_S},
    )
    return bool(result.status != 2)


def _full_patterns(room_s: float, costs: np.ndarray, counts: np.ndarray) -> list[tuple[int, ...]]:
    """Layers of each kind that fit ``room_s`` together, with as many of the last kind as still fit."""
    most = [range(int(min(n, room_s / c + SLACK * 1e3)) + 1) for n, c in zip(counts[:-1], costs[:-1], strict=True)]
    patterns = []
    for taken in product(*most):
        left = room_s - float(np.dot(taken, costs[:-1]))
        if left >= -SLACK * room_s:
            patterns.append((*taken, int(min(counts[-1], max(0.0, left) / costs[-1] + SLACK * 1e3))))
    return patterns

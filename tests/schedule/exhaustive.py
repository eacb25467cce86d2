"""Every lane order of one forward-backward pair of a MoE layer, as the yardstick of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from autodeploy.schedule.operations import B, F
from autodeploy.schedule.pricing import SlotCosts, transfer_matrices
from autodeploy.schedule.segments import SEGMENTS, Segment, Streams, build_streams
from autodeploy.schedule.templates import LANES, Template, make_template

FORWARD = [Segment(k) for k in range(6)]
BACKWARD = [Segment(k) for k in range(12, 20)]
MASK = sum(1 << k for k in (*FORWARD, *BACKWARD))


def merges(first: list[int], second: list[int]) -> Iterator[list[int]]:
    """All ways to riffle two lists."""
    total = len(first) + len(second)
    for places in combinations(range(total), len(first)):
        a, b = iter(first), iter(second)
        yield [next(a) if at in places else next(b) for at in range(total)]


def backward_compute_orders(nodes: dict[Segment, int]) -> list[list[int]]:
    """Linear extensions of E_b < A_b, E_b < E_w, A_b < A_w."""
    e, a = nodes[Segment.EXPERTS_B], nodes[Segment.ATTENTION_B]
    we, wa = nodes[Segment.EXPERTS_W], nodes[Segment.ATTENTION_W]
    return [[e, we, a, wa], [e, a, we, wa], [e, a, wa, we]]


def topological(streams: Streams, lane_lists: tuple[list[int], ...]) -> tuple[int, ...] | None:
    """A sequence that keeps the lane lists and the dependencies; None if they wait in a circle."""
    after = [set(node.after) for node in streams.nodes]
    for lane in lane_lists:
        for before, node in zip(lane, lane[1:], strict=False):
            after[node].add(before)
    sequence: list[int] = []
    while len(sequence) < len(after):
        ready = [n for n in range(len(after)) if n not in sequence and after[n] <= set(sequence)]
        if not ready:
            return None
        sequence += ready
    return tuple(sequence)


def all_templates() -> Iterator[Template]:
    """Templates of all lane orders of the pair."""
    streams = build_streams((F, B), ((MASK,), (MASK,)), early_gradient=True)
    forward = {Segment(n.segment): at for at, n in enumerate(streams.nodes) if n.stream == 0}
    backward = {Segment(n.segment): at for at, n in enumerate(streams.nodes) if n.stream == 1}
    f_compute = [forward[Segment.ATTENTION_F], forward[Segment.EXPERTS_F]]
    computes = [m for order in backward_compute_orders(backward) for m in merges(f_compute, order)]
    inters = merges(
        [forward[Segment.DISPATCH_INTER_F], forward[Segment.COMBINE_INTER_F]],
        [backward[Segment.COMBINE_INTER_B], backward[Segment.DISPATCH_INTER_B]],
    )
    intras = merges(
        [forward[Segment.DISPATCH_INTRA_F], forward[Segment.COMBINE_INTRA_F]],
        [backward[Segment.COMBINE_INTRA_B], backward[Segment.DISPATCH_INTRA_B]],
    )
    for lanes in product(computes, list(intras), list(inters)):
        sequence = topological(streams, lanes)
        if sequence is not None:
            yield make_template(streams, sequence, blocking=False)


def rate_s(template: Template, seconds: np.ndarray, rounds: int = 4) -> np.ndarray:
    """Seconds a pair adds when pairs follow each other, inputs there in time; `seconds` [K, N]."""
    costs = SlotCosts(seconds=seconds, at=np.zeros((1, 2), dtype=np.int64))
    matrix = transfer_matrices([template], costs, range(LANES))[:, :, 0]
    clocks = np.zeros((LANES, seconds.shape[1]))
    ends = []
    for _ in range(rounds):
        clocks = (matrix + clocks[:, None]).max(axis=0)
        ends.append(clocks.max(axis=0))
    return ends[-1] - ends[-2]


def random_layers(scenarios: int, seed: int) -> np.ndarray:
    """[K, N]: compute 0.5 to 1.5, all-to-alls up to as long as the compute that could hide them."""
    rng = np.random.default_rng(seed)
    seconds = np.zeros((SEGMENTS, scenarios))
    for k in (*FORWARD, *BACKWARD):
        seconds[k] = rng.uniform(0.5, 1.5, scenarios)
    load = rng.uniform(0.1, 1.0, scenarios)
    for k in (*FORWARD, *BACKWARD):
        if "INTER" in k.name:
            seconds[k] *= load
        elif "INTRA" in k.name:
            seconds[k] *= 0.5 * load
    return seconds

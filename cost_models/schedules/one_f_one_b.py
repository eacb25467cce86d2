"""1F1B, PipeDream-flush (Narayanan et al. 2021, arXiv 2104.04473): the longest of a few families of paths.

A path that stays on rank q takes its whole work; it may start and end through the ranks before it (fill, drain) and
after it (the first backward needs every later stage); paths that go to and fro between two neighbours carry two hops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, PipelineCosts, Schedule
from cost_models.schedules.program import B, F, Op, Orders, by_micro_batches, part, work_through


def one_f_one_b_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    """Operations of each rank: p-1-r warm-up forwards, then a forward and a backward in turn."""
    ranks = []
    for rank in range(pp):
        warm_up = min(micro_batches, pp - rank - 1)
        order = [(F, rank, i) for i in range(warm_up)]
        for i in range(micro_batches - warm_up):
            order += [(F, rank, warm_up + i), (B, rank, i)]
        ranks.append(order + [(B, rank, i) for i in range(micro_batches - warm_up, micro_batches)])
    return ranks


def one_f_one_b_s(c: PipelineCosts) -> F64:
    """Seconds [N]: paths on one rank, and to and fro between two neighbours; unfilled pipelines are worked through."""
    return filled_or_worked_through(
        c, lambda own: steady_paths(own, own.forward_s, own.input_s + own.weight_s), one_f_one_b_orders
    )


def filled_or_worked_through(c: PipelineCosts, formula: Callable[[PipelineCosts], F64], orders: Orders) -> F64:
    """`formula` where there are as many micro-batches as ranks, else the order itself, [N]."""
    few = c.micro_batches < c.pp
    if not few.any():
        return formula(c)
    out = np.empty(len(few))
    some, rest = np.flatnonzero(few), np.flatnonzero(~few)
    out[some] = by_micro_batches(part(c, some), lambda own, m, g: work_through(orders, own, m, 0))
    if len(rest):
        out[rest] = formula(part(c, rest))
    return out


def steady_paths(c: PipelineCosts, forward: F64, backward: F64) -> F64:
    """Longest path of the 1F1B order, [N].

    Rank q holds w = p-1-q more forwards than its successor needs. A path comes down to q (fill), does its w forwards or
    follows the first micro-batch to the end and back (D), then m-w turns of F and B, and likewise at the end. Between
    neighbours q-1 and q a turn of C(q-1) + C(q) + 2t serves two micro-batches.
    """
    m, hop = c.micro_batches, c.p2p_s
    both = forward + backward
    before, after = ends_of_way(both + 2 * hop)
    w = np.minimum(m - 1, c.pp - 1 - np.arange(c.pp)[:, None])
    ends = np.maximum(w * forward, after) + np.maximum(w * backward, after)
    alone = before + (m - w) * both + ends
    turns, left = (m - w[1:] - 1) >> 1, (m - w[1:] - 1) & 1
    turn = both[:-1] + both[1:] + 2 * hop
    pair = before[:-1] + (1 + turns) * turn + left * np.maximum(both[:-1], both[1:]) + ends[1:]
    return np.asarray(np.maximum(alone.max(axis=0), pair.max(axis=0)))


def ends_of_way(seconds: F64) -> tuple[F64, F64]:
    """Sums of `seconds` [P, N] over the ranks before each, and over those after it."""
    past = np.cumsum(seconds, axis=0)
    return past - seconds, past[-1] - past


ONE_F_ONE_B = Schedule(
    name="1f1b",
    torch_class="1F1B",
    closed_form=one_f_one_b_s,
    in_flight=lambda s: s.pp - s.rank,
    order="one_f_one_b:one_f_one_b",
    launched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    searched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan", "any"),
)

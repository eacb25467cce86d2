"""ZB-V, V-Half and V-Min: zero bubble folded as a V (Qi et al. 2024, arXiv 2405.15362)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cost_models.schedules.facts import F64, Chunks, PipelineCosts, Schedule, steady_limit
from cost_models.schedules.one_f_one_b import ends_of_way
from cost_models.schedules.program import F, I, Op, W, by_micro_batches, work_through


def zb_v_limit(pp: int) -> int:
    """Half-stage chunks that ZB-V holds at most: 2p, the memory of 1F1B."""
    return 2 * pp


def half_limit(pp: int) -> int:
    """V-Half: p + 2, half of 1F1B and one micro-batch."""
    return pp + 2


def min_limit(pp: int) -> int:
    """V-Min: about a third of 1F1B: 3, 4, 12 at 2, 4, 16 ranks, as the published generator holds."""
    return max(3, 2 * (pp // 3 + 1))


def zb_v_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    """ZB-V as torch.distributed.pipelining runs it (ScheduleZBVZeroBubble): one order whatever the costs.

    Forwards of the first chunk until the first micro-batch is back, of both chunks in turn until the fold feeds the rank,
    then second-chunk turns; steady turns of both chunks; at the end the weight parts that rank r held back fill its waits.
    Orders of fewer than 2p - 1 micro-batches are that of 2p - 1 without the rest.
    """
    whole = max(2 * pp - 1, micro_batches)
    orders = []
    for rank in range(pp):
        lane = _Lane((rank, 2 * pp - 1 - rank))
        for _ in range(2 * (pp - rank) - 1):
            lane.run(F, 0)
        for _ in range(rank):
            lane.run(F, 1)
            lane.run(F, 0)
        for _ in range(pp - rank):
            lane.turn(1)
        while lane.done[F, 1] < whole:
            if lane.done[F, 0] < whole:
                lane.run(F, 0)
            lane.run(I, 0)
            lane.run(W, 0)
            lane.turn(1)
        for _ in range(rank):
            lane.run(I, 0)
            lane.run(I, 1)
        for _ in range(pp - rank):
            lane.run(I, 0)
            lane.run(W, 0)
        for chunk in (1, 0):
            while lane.done[W, chunk] < lane.done[I, chunk]:
                lane.run(W, chunk)
        orders.append([op for op in lane.ops if op[2] < micro_batches])
    return orders


class _Lane:
    """The operations of a rank with two chunks, micro-batches counted up by kind and chunk."""

    def __init__(self, stages: tuple[int, int]) -> None:
        self.stages = stages
        self.done = {(kind, chunk): 0 for kind in (F, I, W) for chunk in (0, 1)}
        self.ops: list[Op] = []

    def run(self, kind: int, chunk: int) -> None:
        self.ops.append((kind, self.stages[chunk], self.done[kind, chunk]))
        self.done[kind, chunk] += 1

    def turn(self, chunk: int) -> None:
        for kind in (F, I, W):
            self.run(kind, chunk)


def zb_v_s(c: PipelineCosts) -> F64:
    """Seconds [N]: the order worked through; beyond 2p + 2 micro-batches the slowest rank sets the pace."""
    filled = 2 * c.pp + 2
    work = c.forward_s + c.input_s + c.weight_s
    pace = (work[: c.pp] + _second(work)).max(axis=0)
    extra = np.maximum(c.micro_batches - filled, 0)
    short = replace(c, micro_batches=np.minimum(c.micro_batches, filled), group=np.zeros_like(c.group))
    return by_micro_batches(short, lambda own, m, g: work_through(zb_v_orders, own, m, g)) + extra * pace


def _v_shaped(limit: Callable[[int], int], ends: float, latency: float) -> Callable[[PipelineCosts], F64]:
    """ZB-V and its kin, stages r and 2p-1-r on rank r, at most `limit(p)` chunks held.

    Rank q starts after the way down to it; it waits if its first backward comes back later than the forwards it may hold
    take, and mirrored at the end (`ends`: the share of these waits that weight parts do not fill). A micro-batch costs
    at least the work of the rank, and `latency` x the time its chunks are held / limit (memory binds V-Min). `ends`
    and `latency` are fitted to the simulator: 150 random shapes each, see `scripts/closed_form_vs_simulator.py`.
    """

    def seconds(c: PipelineCosts) -> F64:
        p, hop = c.pp, c.p2p_s
        (past, forward_after), (_, backward_after) = ends_of_way(c.forward_s), ends_of_way(c.input_s)
        forward, backward = c.forward_s[:p] + _second(c.forward_s), c.input_s[:p] + _second(c.input_s)
        hops = 2 * (p - 1) * hop  # from a rank to the last stage, and from there to its second
        out = forward_after[:p] + _second(backward_after) + hops
        back = backward_after[:p] + _second(forward_after) + hops
        held = np.minimum(limit(p), 2 * c.micro_batches) - 1
        waits = np.maximum(0.0, out - held * forward / 2) + np.maximum(0.0, back - held * backward / 2)
        lives = out + back + forward + backward
        pace = np.maximum(forward + backward + c.weight_s[:p] + _second(c.weight_s), latency * lives / limit(p))
        fill = past[:p] + np.arange(p)[:, None] * hop
        return np.asarray((fill + ends * waits + c.micro_batches * pace).max(axis=0))

    return seconds


def _second(costs: F64) -> F64:
    """Of the second stage of each rank, [P, N]."""
    return costs[: len(costs) // 2 - 1 : -1]


ZB_V = Schedule(
    name="zb-v",
    torch_class="ZBVZeroBubble",
    closed_form=zb_v_s,
    in_flight=lambda s: np.minimum(s.micro_batches, 2 * s.pp - 1 - s.rank) + np.minimum(s.micro_batches, s.rank + 1),
    order="zb_v:zero_bubble_v",
    splits_backward=True,
    chunks=Chunks(2, 2),
    placement="v",
    launched_by=("torchtitan",),
    searched_by=("torchtitan", "any"),
    aliases=("zbvzerobubble",),
)

ZB_V_AUTO = Schedule(
    name="zb-v-auto",
    closed_form=_v_shaped(zb_v_limit, ends=0.5, latency=0.0),
    in_flight=steady_limit(zb_v_limit),
    limit_only=True,
    order="zb_v_auto:zero_bubble_v_auto",
    splits_backward=True,
    chunks=Chunks(2, 2),
    placement="v",
    plans_with_costs=True,
    aliases=("zbv", "zbv-formatted"),
)

ZB_V_HALF = Schedule(
    name="zb-v-half",
    closed_form=_v_shaped(half_limit, ends=1.0, latency=0.0),
    in_flight=steady_limit(half_limit),
    limit_only=True,
    order="zb_v_memory:v_half",
    splits_backward=True,
    chunks=Chunks(2, 2),
    placement="v",
    plans_with_costs=True,
    aliases=("v-half",),
)

ZB_V_MIN = Schedule(
    name="zb-v-min",
    closed_form=_v_shaped(min_limit, ends=1.0, latency=1.4),
    in_flight=steady_limit(min_limit),
    limit_only=True,
    order="zb_v_memory:v_min",
    splits_backward=True,
    chunks=Chunks(2, 2),
    placement="v",
    plans_with_costs=True,
    aliases=("v-min",),
)

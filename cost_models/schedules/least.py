"""What a pipeline takes at least, whatever its schedule: from sums over each rank's stages, without its order.

    ranks = rank_seconds(schedule, costs)          # or from sums that the caller has: of distinct ranks only
    least_pipeline_s(schedule, ranks, micro_batches).max(axis=0)

A rank starts when the first micro-batch has come down to it (fill), does its own work of all micro-batches, and its last
gradient goes back up to the first stage (drain). Where weight parts may be put off they may fill the way up.

Axes: any that broadcast together; N strategies, P ranks, S virtual stages.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from cost_models.records import record
from cost_models.schedules.facts import F64, I64, Bool, PipelineCosts, Schedule
from cost_models.schedules.lanes import LaneCosts


@record(eq=False)
class RankSeconds:
    """Ranks, any of them in any order; sums over all chunks of a rank for one micro-batch.

    With placement "both-ends" a rank holds a stage and its mirror, each for half of the micro-batches: their mean.
    On lanes `whole_s` and `chain_s` are those of the fullest lane (compute, between nodes with sends, inside the node).
    """

    whole_s: F64  # forward, backward for the input, weights
    chain_s: F64  # without weights
    fill_s: F64  # forwards, and hops, of the stages before its first
    drain_s: F64  # backwards, and hops, of the same stages: inputs alone where the schedule splits backwards


def least_pipeline_s(schedule: Schedule, ranks: RankSeconds, micro_batches: I64) -> F64:
    """No more than the closed form of any of `ranks`; elementwise."""
    facts = (np.array(schedule.splits_backward), np.array(schedule.plans_with_costs))
    return least_of_ranks_s(ranks, micro_batches, *facts)


def least_of_ranks_s(ranks: RankSeconds, micro_batches: I64, splits_backward: Bool, plans_with_costs: Bool) -> F64:
    """The same of mixed schedules, by the facts of each."""
    whole = ranks.fill_s + micro_batches * ranks.whole_s
    ends = whole + ranks.drain_s
    if splits_backward.any():
        put_off = np.maximum(whole, ranks.fill_s + micro_batches * ranks.chain_s + ranks.drain_s)
        ends = np.where(splits_backward, put_off, ends)
    # An order planned with the costs has a fitted closed form, and may take any way up.
    return np.where(plans_with_costs, whole, ends) if plans_with_costs.any() else ends


def stages_of_ranks(schedule: Schedule, pp: int, vpp: int) -> I64:
    """[P, V]; of "both-ends" [P, 2]: the stage of either direction. The first is the first that work comes down to."""
    rank = np.arange(pp)[:, None]
    if schedule.placement == "both-ends":
        return np.sort(np.concatenate([rank, pp - 1 - rank], axis=1))
    if schedule.v_shaped:
        return np.concatenate([rank, 2 * pp - 1 - rank], axis=1)
    return rank + pp * np.arange(vpp)


def rank_seconds(schedule: Schedule, c: PipelineCosts) -> RankSeconds:
    """Of all ranks, [P, N]."""
    if c.lanes is None:
        return _serial(schedule, c)
    overlapped = _on_lanes(schedule, c, c.lanes)
    few = schedule.grouped & (c.micro_batches < c.pp)  # priced one after the other
    if not few.any():
        return overlapped
    serial, names = _serial(schedule, c), (field.name for field in fields(RankSeconds))
    return RankSeconds(**{name: np.where(few, getattr(serial, name), getattr(overlapped, name)) for name in names})


def _serial(schedule: Schedule, c: PipelineCosts) -> RankSeconds:
    of_rank = _Ranks(schedule, c)
    chain = of_rank.sums(c.forward_s + c.input_s)
    backward = c.input_s if schedule.splits_backward else c.input_s + c.weight_s
    return RankSeconds(
        whole_s=chain + of_rank.sums(c.weight_s), chain_s=chain, fill_s=of_rank.before(c.forward_s),
        drain_s=of_rank.before(backward),
    )  # fmt: skip


def _on_lanes(schedule: Schedule, c: PipelineCosts, lanes: LaneCosts) -> RankSeconds:
    f, b, again = lanes.forward, lanes.backward, lanes.again
    of_rank = _Ranks(schedule, c)
    compute = of_rank.sums(f.compute_s + b.compute_s + again.compute_s)
    wires = np.maximum(
        of_rank.sums(f.inter_s + f.send_s + b.inter_s + again.inter_s + b.send_s),
        of_rank.sums(f.intra_s + b.intra_s + again.intra_s),
    )
    return RankSeconds(
        whole_s=np.maximum(compute + of_rank.sums(lanes.weight_s), wires),
        chain_s=np.maximum(compute, wires),
        fill_s=of_rank.before(f.alone_s),
        drain_s=of_rank.before(lanes.input_s) if schedule.splits_backward else _early_drain_s(of_rank, lanes),
    )


def _early_drain_s(of_rank: _Ranks, lanes: LaneCosts) -> F64:
    """A rank's last gradient leaves before the weight part of its last layer; the first rank's last one is done after it."""
    gradient, own = lanes.gradient_s, (lanes.weight_s / lanes.layers)[: of_rank.pp]
    last = np.maximum(lanes.backward_compute_s[0] - gradient[0], 0.0)
    drain = of_rank.before(gradient) + last - own
    drain[0] = 0.0
    return np.maximum(drain, 0.0)


class _Ranks:
    """Sums over stages, [S, N] -> [P, N]."""

    def __init__(self, schedule: Schedule, c: PipelineCosts) -> None:
        self.pp, self.loop, self.hop_s = c.pp, schedule.placement == "loop", c.p2p_s
        self.stages, self.share = stages_of_ranks(schedule, c.pp, c.vpp), 1.0 / schedule.weight_copies

    def sums(self, seconds: F64) -> F64:
        """Over the stages of each rank."""
        if self.loop:
            return seconds.reshape(-1, self.pp, seconds.shape[1]).sum(axis=0)
        return seconds[self.stages].sum(axis=1) * self.share

    def before(self, seconds: F64) -> F64:
        """Over the stages before the first of each rank, and the hops between."""
        way = seconds[: self.pp] + self.hop_s
        past = np.cumsum(way, axis=0) - way
        return np.asarray(past if self.share == 1.0 else past[self.stages[:, 0]])

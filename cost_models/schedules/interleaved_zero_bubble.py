"""Interleaved zero bubble, as torch.distributed.pipelining runs it (ScheduleInterleavedZeroBubble, ZB-1P of arXiv 2401.10241).

One fixed order: interleaved 1F1B with a lead of p-1-r + (v-1)G forwards, half of Megatron's for the way down, and weight
parts that rank r holds back by r turns.
"""

from __future__ import annotations

from dataclasses import replace

from cost_models.schedules.facts import F64, Chunks, PipelineCosts, Schedule
from cost_models.schedules.interleaved import chunk_table, in_rounds
from cost_models.schedules.program import F, I, Op, W, by_micro_batches, work_through


def interleaved_zero_bubble_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    """Operations of each rank."""
    table, ranks = chunk_table(vpp, micro_batches, group), []
    for rank in range(pp):
        forwards = [(F, chunk * pp + rank, i) for chunk, i in table]
        inputs = [(I, (vpp - 1 - chunk) * pp + rank, i) for chunk, i in table]
        weights = [(W, stage, i) for _, stage, i in inputs]
        lead = min(len(table), (vpp - 1) * group + pp - 1 - rank)
        order, held = forwards[:lead], 0
        for turn, backward in enumerate(inputs):
            order += forwards[lead + turn : lead + turn + 1]
            order.append(backward)
            if turn >= rank:
                order.append(weights[held])
                held += 1
        ranks.append(order + weights[held:])
    return ranks


def interleaved_zero_bubble_s(c: PipelineCosts) -> F64:
    """Seconds [N]; shapes that torch refuses are priced as one group of all micro-batches. Rounds that are not worked through
    take as long as the last one that is."""
    group, worked = in_rounds(c)

    def seconds(own: PipelineCosts, micro_batches: int, group: int) -> F64:
        worked_s = work_through(interleaved_zero_bubble_orders, own, micro_batches, group)
        skipped = (own.micro_batches - micro_batches) // group
        if not skipped.any():
            return worked_s
        return worked_s + skipped * (
            worked_s - work_through(interleaved_zero_bubble_orders, own, micro_batches - group, group)
        )

    return by_micro_batches(replace(c, group=group), seconds, worked)


INTERLEAVED_ZERO_BUBBLE = Schedule(
    name="interleaved-zero-bubble",
    closed_form=interleaved_zero_bubble_s,
    in_flight=lambda s: (s.vpp - 1) * s.group + s.pp - s.rank,
    order="interleaved_zero_bubble:interleaved_zero_bubble",
    splits_backward=True,
    chunks=Chunks(2, None),
    grouped=True,
    launched_by=("torchtitan",),
    searched_by=("torchtitan",),
    torch_class="InterleavedZeroBubble",
    aliases=("interleavedzerobubble",),
)

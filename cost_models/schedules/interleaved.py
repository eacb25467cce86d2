"""Interleaved 1F1B (Megatron-LM, Narayanan et al. 2021) and Adaptive Pipe, its overlap of expert communication."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, I64, Chunks, PipelineCosts, Schedule, Shape
from cost_models.schedules.interleaved_waves import ChunkCosts, interleaved_s
from cost_models.schedules.one_f_one_b import one_f_one_b_s
from cost_models.schedules.program import B, F, Op, by_micro_batches, work_through


def runs_in_groups(pp: int, micro_batches: int, group: int) -> bool:
    """Megatron's rule: p <= G <= m, and the last group is whole or at least p long; or one group of all (torch's for m < p)."""
    last = micro_batches % group
    return group == micro_batches or (pp <= group <= micro_batches and (last == 0 or last >= pp))


def chunk_table(vpp: int, micro_batches: int, group: int) -> list[tuple[int, int]]:
    """(chunk, micro-batch) of each forward, the same on all ranks: groups of G, chunk by chunk."""
    table = []
    for first in range(0, micro_batches, group):
        last = min(first + group, micro_batches)
        table += [(chunk, i) for chunk in range(vpp) for i in range(first, last)]
    return table


def interleaved_orders(pp: int, vpp: int, micro_batches: int, group: int, extra: int = 0) -> list[list[Op]]:
    """Operations of each rank: `extra` + 2(p-r-1) + (v-1)G warm-up forwards, then a forward and a backward in turn."""
    table, ranks = chunk_table(vpp, micro_batches, group), []
    for rank in range(pp):
        forwards = [(F, chunk * pp + rank, i) for chunk, i in table]
        backwards = [(B, (vpp - 1 - chunk) * pp + rank, i) for chunk, i in table]
        warm_up = min(len(table), 2 * (pp - rank - 1) + (vpp - 1) * group + extra)
        order = forwards[:warm_up]
        for pair in zip(forwards[warm_up:], backwards, strict=False):
            order += pair
        ranks.append(order + backwards[len(table) - warm_up :])
    return ranks


def overlapped_orders(pp: int, vpp: int, micro_batches: int, group: int) -> list[list[Op]]:
    return interleaved_orders(pp, vpp, micro_batches, group, extra=1)


def _interleaved(c: PipelineCosts) -> F64:
    return one_f_one_b_s(c) if c.vpp == 1 else by_micro_batches(c, lambda own, m, g: _looped_s(own, m, g, extra=0))


def _adaptive_pipe(c: PipelineCosts) -> F64:
    """Interleaved with one more warm-up chunk."""
    return by_micro_batches(c, lambda own, m, g: _looped_s(own, m, g, extra=1))


def _looped_s(c: PipelineCosts, micro_batches: int, group: int, extra: int) -> F64:
    """Seconds [N]. A shape that no program runs is priced as one group of all its micro-batches."""
    group = group if runs_in_groups(c.pp, micro_batches, group) else micro_batches
    if group < c.pp:  # a few micro-batches: lanes or not, ranks mostly wait for one another
        return work_through(overlapped_orders if extra else interleaved_orders, c, micro_batches, group)
    backward = c.input_s + c.weight_s
    costs = ChunkCosts(forward_s=c.forward_s, backward_s=backward, p2p_s=c.p2p_s, lanes=c.lanes)
    return interleaved_s(costs, pp=c.pp, micro_batches=micro_batches, group=group, extra=extra)


def _held(extra: int) -> Callable[[Shape], I64]:
    """Megatron's warm-up, `extra` chunks more, and the one in work."""

    def chunks(s: Shape) -> I64:
        if s.vpp == 1:
            return np.asarray(s.pp - s.rank + extra + 0 * s.micro_batches)
        return np.asarray(2 * (s.pp - s.rank - 1) + (s.vpp - 1) * s.group + 1 + extra)

    return chunks


INTERLEAVED = Schedule(
    name="interleaved",
    torch_class="Interleaved1F1B",
    aliases=("interleaved1f1b",),
    closed_form=_interleaved,
    in_flight=_held(0),
    order="interleaved:interleaved",
    chunks=Chunks(2, None),
    grouped=True,
    overlapped_as="adaptive-pipe",
    launched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    searched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan", "any"),
)

ADAPTIVE_PIPE = Schedule(
    name="adaptive-pipe",
    closed_form=_adaptive_pipe,
    in_flight=_held(1),
    order="adaptive_pipe:adaptive_pipe",
    chunks=Chunks(2, None),
    grouped=True,
    pairs="early",
    pairs_ends=True,
    needs_overlap=True,
    overlapped_as="adaptive-pipe",
    searched_by=("any",),
)

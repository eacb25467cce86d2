"""Interleaved 1F1B (Megatron-LM, Narayanan et al. 2021) and Adaptive Pipe, its overlap of expert communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cost_models.schedules.facts import F64, I64, Bool, Chunks, PipelineCosts, Schedule, Shape
from cost_models.schedules.interleaved_waves import ROUNDS, Block, block, program, worked_through
from cost_models.schedules.one_f_one_b import one_f_one_b_s
from cost_models.schedules.program import B, F, Op, by_shape, part, work_through


def runs_in_groups(pp: int, micro_batches: I64 | int, group: I64 | int) -> Bool:
    """Megatron's rule: p <= G <= m, and the last group is whole or at least p long; or one group of all (torch's for m < p)."""
    last = micro_batches % group
    whole = (pp <= group) & (group <= micro_batches) & ((last == 0) | (last >= pp))
    return np.asarray(whole | (group == micro_batches))


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


def _interleaved(parts: Sequence[PipelineCosts]) -> list[F64]:
    if parts[0].vpp == 1:
        return [one_f_one_b_s(c) for c in parts]
    return _looped_s(parts, extra=0)


def _adaptive_pipe(parts: Sequence[PipelineCosts]) -> list[F64]:
    """Interleaved with one more warm-up chunk."""
    return _looped_s(parts, extra=1)


def _looped_s(parts: Sequence[PipelineCosts], extra: int) -> list[F64]:
    """Seconds [N] of each. A shape that no program runs is priced as one group of all its micro-batches."""
    found = [np.empty(len(c.p2p_s)) for c in parts]
    blocks: list[Block] = []
    places: list[tuple[F64, I64, I64]] = []
    for c, out in zip(parts, found, strict=True):
        group, worked = in_rounds(c)
        for (m, g), at in by_shape(worked, group):
            if g < c.pp:  # a few micro-batches: lanes or not, ranks mostly wait for one another
                out[at] = work_through(overlapped_orders if extra else interleaved_orders, part(c, at), m, g)
                continue
            blocks.append(block(program(c.pp, c.vpp, m, g, extra, c.lanes is not None), c, at))
            places.append((out, at, (c.micro_batches[at] - m) // g))
    if blocks:
        ends = worked_through(blocks, parts[0].lanes is not None)
        for (out, at, skipped), (worked_s, round_s) in zip(places, ends, strict=True):
            out[at] = worked_s + skipped * round_s
    return found


def in_rounds(c: PipelineCosts) -> tuple[I64, I64]:
    """Group sizes that are run, and the micro-batches that are worked through: `ROUNDS` groups and a last one, [N] each."""
    m = c.micro_batches
    group = np.where(runs_in_groups(c.pp, m, c.group), c.group, m)
    return group, m - np.maximum(0, m // group - ROUNDS) * group


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
    closed_form=lambda c: _interleaved([c])[0],
    closed_forms=_interleaved,
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
    closed_form=lambda c: _adaptive_pipe([c])[0],
    closed_forms=_adaptive_pipe,
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

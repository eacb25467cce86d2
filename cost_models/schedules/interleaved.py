"""Interleaved 1F1B (Megatron-LM, Narayanan et al. 2021) and Adaptive Pipe, its overlap of expert communication."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, I64, Chunks, PipelineCosts, Schedule, Shape
from cost_models.schedules.interleaved_waves import ChunkCosts, interleaved_s
from cost_models.schedules.one_f_one_b import one_f_one_b_s
from cost_models.schedules.program import by_micro_batches


def _interleaved(c: PipelineCosts) -> F64:
    if c.vpp == 1:
        return one_f_one_b_s(c)
    return by_micro_batches(c, lambda own, m, g: _waves_s(own, m, g, own.input_s + own.weight_s, extra=0))


def _adaptive_pipe(c: PipelineCosts) -> F64:
    """Interleaved with one more warm-up chunk."""
    return by_micro_batches(c, lambda own, m, g: _waves_s(own, m, g, own.input_s + own.weight_s, extra=1))


def _waves_s(c: PipelineCosts, micro_batches: int, group: int, gradient_s: F64, extra: int) -> F64:
    costs = ChunkCosts(forward_s=c.forward_s, backward_s=c.input_s + c.weight_s, gradient_s=gradient_s, p2p_s=c.p2p_s)
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
    closed_form=_interleaved,
    in_flight=_held(0),
    order="interleaved:interleaved",
    chunks=Chunks(2, None),
    grouped=True,
    overlapped_as="adaptive-pipe",
    launched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    searched=True,
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
    searched=True,
)

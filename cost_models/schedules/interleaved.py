"""Interleaved 1F1B (Megatron-LM, Narayanan et al. 2021) and Adaptive Pipe, its overlap of expert communication."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.schedules.facts import F64, I64, Chunks, PipelineCosts, Schedule, Shape
from cost_models.schedules.interleaved_rounds import interleaved_s
from cost_models.schedules.one_f_one_b import one_f_one_b_s


def _interleaved(c: PipelineCosts) -> F64:
    if c.vpp == 1:
        return one_f_one_b_s(c)
    backward = c.input_s + c.weight_s
    return _by_shape(
        c,
        lambda at, m, g: interleaved_s(
            c.forward_s[:, at],
            backward[:, at],
            backward[:, at],
            c.p2p_s[at],
            pp=c.pp,
            micro_batches=m,
            group=g,
            extra=0,
        ),
    )


def _adaptive_pipe(c: PipelineCosts) -> F64:
    """Interleaved with one more warm-up chunk; the gradient leaves before the weight part."""
    backward = c.input_s + c.weight_s
    return _by_shape(
        c,
        lambda at, m, g: interleaved_s(
            c.forward_s[:, at],
            backward[:, at],
            c.input_s[:, at],
            c.p2p_s[at],
            pp=c.pp,
            micro_batches=m,
            group=g,
            extra=1,
        ),
    )


def _by_shape(c: PipelineCosts, price: Callable[[I64 | slice, int, int], F64]) -> F64:
    """Applies `price` to the strategies of each (micro-batches, group) in turn."""
    m, g = c.micro_batches, c.group
    if (m == m[0]).all() and (g == g[0]).all():
        return price(slice(None), int(m[0]), int(g[0]))
    out = np.empty(len(m))
    for shape in sorted(set(zip(m.tolist(), g.tolist(), strict=True))):
        at = np.flatnonzero((m == shape[0]) & (g == shape[1]))
        out[at] = price(at, *shape)
    return out


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

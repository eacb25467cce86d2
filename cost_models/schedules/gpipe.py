"""GPipe (Huang et al. 2019, arXiv 1811.06965), and no pipeline at all."""

from __future__ import annotations

import numpy as np

from cost_models.schedules.facts import F64, PipelineCosts, Schedule


def one_rank_s(c: PipelineCosts) -> F64:
    """No pipeline: all work of all micro-batches, [N]."""
    return np.asarray(c.micro_batches * (c.forward_s + c.input_s + c.weight_s).sum(axis=0))


def gpipe_s(c: PipelineCosts) -> F64:
    """All stages once, then the slowest forward and the slowest backward m-1 times, [N].  Exact."""
    backward = c.input_s + c.weight_s
    once = c.forward_s.sum(0) + backward.sum(0) + 2 * (c.pp - 1) * c.p2p_s
    return np.asarray(once + (c.micro_batches - 1) * (c.forward_s.max(0) + backward.max(0)))


NONE = Schedule(
    name="none",
    closed_form=one_rank_s,
    in_flight=lambda s: np.ones_like(s.rank),
    order="one_f_one_b:one_f_one_b",
    replayed_as="1f1b",
    launched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    searched_by=("megatron", "megatron-bridge", "mindspeed", "torchtitan", "any"),
)

GPIPE = Schedule(
    name="gpipe",
    torch_class="GPipe",
    closed_form=gpipe_s,
    in_flight=lambda s: s.micro_batches * np.ones_like(s.rank),
    order="gpipe:gpipe",
    launched_by=("torchtitan",),
)

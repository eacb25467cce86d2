"""Closed-form time of one step's pipeline and the chunks that ranks hold, for screening; uneven stages included.

`tests/schedule` and `scripts/closed_form_vs_simulator.py` hold every closed form against the event simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from cost_models.errors import ConfigError
from cost_models.schedules.facts import F64, PipelineCosts, Schedule, Shape
from cost_models.schedules.gpipe import one_rank_s
from cost_models.schedules.interleaved_waves import ROUNDS
from cost_models.schedules.lanes import LaneCosts
from cost_models.schedules.least import least_pipeline_s, rank_seconds
from cost_models.schedules.program import part
from cost_models.schedules.table import SCHEDULE_TABLE

BLOCK = 512  # strategies worked on at a time: the arrays of a block stay in cache
JOINT = 1 << 11  # strategies x ranks of different shapes that go together


def closed_form_step_s(
    schedule: str,
    forward_s: F64,
    backward_input_s: F64,
    backward_weight_s: F64,
    p2p_s: F64,
    pp: int,
    vpp: int,
    micro_batches: ArrayLike,
    group: ArrayLike = 0,
    lanes: LaneCosts | None = None,
) -> F64:
    """Seconds from the first operation of any rank to the last of any rank, [N].

    Costs [N, S] in model order; `p2p_s`, `micro_batches`, `group` (0: pp) broadcast to [N].
    `lanes`: for the schedule that overlaps expert communication; the costs are then those of nothing hidden.
    """
    if schedule not in SCHEDULE_TABLE:
        raise ConfigError("schedule", schedule, f"one of {', '.join(SCHEDULE_TABLE)}")
    count, stages = forward_s.shape
    if stages != pp * vpp:
        raise ConfigError("forward_s", f"{stages} stages", f"pp x vpp = {pp} x {vpp} = {pp * vpp} stages")
    size = np.broadcast_to(np.asarray(group, np.int64), count)
    costs = PipelineCosts(
        forward_s=np.ascontiguousarray(forward_s.T), input_s=np.ascontiguousarray(backward_input_s.T),
        weight_s=np.ascontiguousarray(backward_weight_s.T), p2p_s=np.broadcast_to(np.asarray(p2p_s, np.float64), count),
        micro_batches=np.broadcast_to(np.asarray(micro_batches, np.int64), count), group=np.where(size == 0, pp, size),
        pp=pp, vpp=vpp, lanes=lanes,
    )  # fmt: skip
    return closed_forms_s([(SCHEDULE_TABLE[schedule], costs)])[0]


def closed_forms_s(asked: Sequence[tuple[Schedule, PipelineCosts]]) -> list[F64]:
    """The same of many schedules and shapes, [N] each; those that one propagation can price go together."""
    out = [np.empty(len(costs.p2p_s)) for _, costs in asked]
    joint: dict[tuple[str, bool, bool, bool], list[tuple[F64, PipelineCosts]]] = {}
    for (schedule, costs), seconds in zip(asked, out, strict=True):
        key = (schedule.name, costs.pp == 1, costs.vpp == 1, costs.lanes is None)
        for at in range(0, len(seconds), BLOCK):
            own = slice(at, at + BLOCK)
            joint.setdefault(key, []).append((seconds[own], part(costs, own)))
    for (name, *_), parts in joint.items():
        for some in _together(parts):
            for (seconds, _), found in zip(
                some, _seconds(SCHEDULE_TABLE[name], [costs for _, costs in some]), strict=True
            ):
                seconds[:] = found
    return out


def _together(parts: list[tuple[F64, PipelineCosts]]) -> Iterator[list[tuple[F64, PipelineCosts]]]:
    """As many at a time as the cache holds, those with nearly as many ranks beside each other."""
    some, count = parts[:0], 0
    for one in sorted(parts, key=lambda part: part[1].pp):
        count += len(one[0])
        if some and count * one[1].pp > JOINT:
            yield some
            some, count = [], len(one[0])
        some.append(one)
    yield some


def _seconds(schedule: Schedule, parts: list[PipelineCosts]) -> list[F64]:
    if parts[0].pp == 1:
        return [one_rank_s(costs) for costs in parts]
    found = schedule.closed_forms(parts) if schedule.closed_forms else [schedule.closed_form(costs) for costs in parts]
    if schedule.grouped:
        return [_floored(schedule, costs, seconds) for costs, seconds in zip(parts, found, strict=True)]
    return found


def _floored(schedule: Schedule, costs: PipelineCosts, seconds: F64) -> F64:
    """Rounds of groups that pass at the pace of the last one worked through still take what each rank has to do."""
    skips = costs.micro_batches > ROUNDS * costs.group
    if not skips.any():
        return seconds
    least = least_pipeline_s(schedule, rank_seconds(schedule, costs), costs.micro_batches).max(axis=0)
    return np.maximum(seconds, np.where(skips, least, 0.0))


def in_flight_chunks(schedule: str, pp: int, vpp: int, micro_batches: ArrayLike, group: ArrayLike = 0) -> F64:
    """Most chunks (micro-batches x virtual stages) that each rank holds, [N, P]; the limit for automatic schedules.

    Sources: Megatron-LM (interleaved), Qi et al. 2401.10241 and 2405.15362 (ZB, V), DeepSeek-V3 (DualPipe).
    """
    if schedule not in SCHEDULE_TABLE:
        raise ConfigError("schedule", schedule, f"one of {', '.join(SCHEDULE_TABLE)}")
    m, g = np.broadcast_arrays(np.atleast_1d(micro_batches), np.atleast_1d(group))
    m, g = m[:, None], np.where(g == 0, pp, g)[:, None]
    shape = Shape(micro_batches=m, group=g, rank=np.arange(pp)[None, :], pp=pp, vpp=vpp)
    return np.minimum(m * vpp, SCHEDULE_TABLE[schedule].in_flight(shape)).astype(np.float64)

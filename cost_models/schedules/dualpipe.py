"""DualPipe and DualPipeV: the fixed order for 2p micro-batches worked through, then m - 2p more at the slowest rank's pace.

The order is that of deepseek-ai/DualPipe; here only as codes, so that a block of strategies runs through it at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cost_models.records import record
from cost_models.schedules.facts import F64, Chunks, PipelineCosts, Schedule, steady_limit
from cost_models.schedules.levels import Levels, end_s, levels_of

# An operation of a rank: (forward phase or -1, backward phase or -1, split backward, weight part)
Step = tuple[int, int, bool, bool]


def rank_steps(depth: int, rank: int, micro_batches: int) -> list[Step]:
    """The eight steps of the published program for one rank, `depth` ranks before the fold."""
    left = depth - rank - 1
    steps: list[Step] = [(0, -1, False, False)] * (2 * left)
    steps += [(0, -1, False, False), (1, -1, False, False)] * (rank + 1)
    steps += [(-1, 1, True, False), (-1, -1, False, True), (1, -1, False, False)] * left
    for i in range(micro_batches - 2 * depth + rank + 1):
        if i == 0 and left == 0:
            steps += [(0, -1, False, False), (-1, 1, False, False)]
        else:
            steps.append((0, 1, False, False))
        steps.append((1, 0, False, False))
    steps += [(-1, 1, False, False), (1, 0, False, False)] * left
    split = False
    for i in range(rank + 1):
        split = split or (i == (rank + 1) // 2 and rank % 2 == 1)
        steps.append((-1, 1, split, False))
        split = split or (i == (rank + 1) // 2 and rank % 2 == 0)
        steps.append((-1, 0, split, False))
    steps += [(-1, -1, False, True), (-1, 0, True, False)] * left
    return steps + [(-1, -1, False, True)] * (sum(s[2] for s in steps) - sum(s[3] for s in steps))


@lru_cache(maxsize=256)
def compiled(depth: int, fold_hop: bool) -> Levels:
    """The levels of 2 depth micro-batches through the stages 0 .. 2 depth - 1 folded on `depth` ranks.

    DualPipeV is that; of DualPipe it is one half of the ranks: rank r meets its mirror p-1-r, which does the same with
    directions swapped, so that a hop lies at the fold too. Costs are those of F, I, B, W and a pair's forward of each stage;
    delays none, a hop, and both after each pair's forward.
    """
    stages, per_phase = 2 * depth, 2 * depth
    programs = [_operations(depth, rank, per_phase) for rank in range(depth)]
    forward, i, backward, j, cost = np.array([row for program in programs for row in program]).T
    made = np.full((2, stages + 2, per_phase), -1)  # one stage on: no input before the first, nor after the last
    at = np.arange(len(cost))
    made[0, forward + 1, i] = np.where(forward >= 0, at, -1)
    made[1, backward + 1, j] = np.where(backward >= 0, at, -1)
    made[:, 0] = made[:, -1] = -1
    makers = np.stack(
        [np.where(forward >= 0, made[0, forward, i], -1), np.where(backward >= 0, made[1, backward + 2, j], -1)]
    )
    # both outputs of a pair cross ranks, or neither does
    crosses = fold_hop | np.where(forward >= 0, forward != depth - 1, backward != depth)
    delay = np.where(cost >= 4 * stages, 2 + 2 * forward, 0) + crosses
    return levels_of([len(program) for program in programs], makers, cost, delay)


def _operations(depth: int, rank: int, micro_batches: int) -> list[tuple[int, int, int, int, int]]:
    """Of one rank: forward stage (-1 none), its micro-batch, backward stage (-1 none), its micro-batch, row of the costs."""
    stage_of, stages = (rank, 2 * depth - 1 - rank, -1), 2 * depth
    done: dict[tuple[str, int], int] = dict.fromkeys([(way, phase) for way in "FB" for phase in (0, 1, -1)], 0)
    put_off: list[int] = []
    rows = []
    for forward, backward, split, weight in rank_steps(depth, rank, micro_batches):
        f, b = stage_of[forward], stage_of[backward]
        if weight:
            row = 3 * stages + put_off.pop(0)
        elif backward < 0:
            row = f
        elif forward < 0:
            row = (1 if split else 2) * stages + b
        else:
            row = 4 * stages + f
        rows.append((f, done["F", forward], b, done["B", backward], row))
        done["F", forward] += forward >= 0
        done["B", backward] += backward >= 0
        if split:
            put_off.append(b)
    return rows


@record
class _Times:
    """Seconds of what a rank runs, [S, N]; of a pair by its forward, whose backward is that of the rank's other stage."""

    forward_s: F64
    input_s: F64
    backward_s: F64
    weight_s: F64
    pair_s: F64
    sent_after_s: F64  # both outputs of a pair leave together, after its end

    def pace_s(self) -> F64:
        """Of the slowest rank, a micro-batch through both of its stages, [N]."""
        return np.asarray((self.pair_s + self.pair_s[::-1]).max(axis=0))

    def end_s(self, depth: int, hop_s: F64, fold_hop: bool) -> F64:
        """End of the last operation for 2 depth micro-batches, [N]."""
        costs = (self.forward_s, self.input_s, self.backward_s, self.weight_s, self.pair_s)
        after = np.stack([self.sent_after_s, self.sent_after_s + hop_s], axis=1).reshape(4 * depth, -1)
        delays = np.concatenate([np.zeros((1, len(hop_s))), hop_s[None], after])
        return end_s(compiled(depth, fold_hop), np.concatenate(costs), delays)


def _times(c: PipelineCosts) -> _Times:
    lanes = c.lanes
    if lanes is None:
        backward_s = c.input_s + c.weight_s
        return _Times(
            forward_s=c.forward_s, input_s=c.input_s, backward_s=backward_s, weight_s=c.weight_s,
            pair_s=c.forward_s + backward_s[::-1], sent_after_s=np.zeros_like(c.forward_s),
        )  # fmt: skip
    stage = np.arange(len(c.forward_s))
    return _Times(
        forward_s=lanes.forward.alone_s, input_s=lanes.input_s, weight_s=lanes.weight_s,
        backward_s=np.maximum(lanes.input_s, lanes.backward_compute_s), pair_s=lanes.pair_s(stage, stage[::-1]),
        sent_after_s=np.maximum(lanes.forward.send_s, lanes.backward.send_s[::-1]),
    )  # fmt: skip


def _dualpipev(c: PipelineCosts) -> F64:
    """Seconds [N]; costs [2p, N]."""
    times = _times(c)
    return times.end_s(c.pp, c.p2p_s, fold_hop=False) + (c.micro_batches - 2 * c.pp) * times.pace_s()


def _dualpipe(c: PipelineCosts) -> F64:
    """Seconds [N]; costs [p, N]. One direction of p stages folds like DualPipeV on p/2 ranks with m/2 micro-batches.

    Rank r and its mirror p-1-r run the same program with directions swapped, so each is as far as the other at any
    time: the partner of the middle rank hands over to itself across the fold, with one hop.
    """
    times = _times(c)
    return times.end_s(c.pp // 2, c.p2p_s, fold_hop=True) + (c.micro_batches / 2 - c.pp) * times.pace_s()


DUALPIPE = Schedule(
    name="dualpipe",
    closed_form=_dualpipe,
    in_flight=steady_limit(lambda p: p + 1),
    order="dualpipe:dualpipe",
    splits_backward=True,
    placement="both-ends",
    weight_copies=2,
    least_turns=2,
    even=True,
    pairs="joint",
    overlapped_as="dualpipe",
)

DUALPIPEV = Schedule(
    name="dualpipev",
    torch_class="DualPipeV",
    closed_form=_dualpipev,
    in_flight=steady_limit(lambda p: 2 * p + 1),
    order="dualpipe:dualpipev",
    splits_backward=True,
    chunks=Chunks(2, 2),
    placement="v",
    least_turns=2,
    pairs="joint",
    overlapped_as="dualpipev",
    launched_by=("mindspeed", "torchtitan"),
    searched_by=("mindspeed", "torchtitan", "any"),
)

"""DualPipe and DualPipeV: the fixed order for 2p micro-batches worked through, then m - 2p more at the slowest rank's pace.

The order is that of deepseek-ai/DualPipe; here only as codes, so that a block of strategies runs through it at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cost_models.schedules.facts import F64, Chunks, PipelineCosts, Schedule, steady_limit

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


@lru_cache(maxsize=64)
def _sequence(depth: int, folded: bool) -> tuple[tuple[int, int, int, int, int, bool, int], ...]:
    """An order in which all ranks' operations can be worked through.

    Rows: rank, forward stage (-1 none), its micro-batch, backward stage (-1 none), its micro-batch, split, weight stage.
    `folded`: DualPipeV, stages 0 .. 2 depth - 1 on `depth` ranks. Else DualPipe, of which one half of the ranks is
    worked through: rank r meets its mirror p-1-r, which does the same with directions swapped.
    """
    stages = 2 * depth
    per_phase = 2 * depth
    programs = [rank_steps(depth, rank, per_phase) for rank in range(depth)]
    done_f, done_b, at = [[0, 0] for _ in programs], [[0, 0] for _ in programs], [0] * depth
    made_f: set[tuple[int, int]] = set()
    made_b: set[tuple[int, int]] = set()
    pending: list[list[int]] = [[] for _ in programs]
    rows = []
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            while at[rank] < len(program):
                f, b, split, weight = program[at[rank]]
                f_stage = -1 if f < 0 else (rank if f == 0 else stages - 1 - rank)
                b_stage = -1 if b < 0 else (rank if b == 0 else stages - 1 - rank)
                i = done_f[rank][f] if f >= 0 else 0
                j = done_b[rank][b] if b >= 0 else 0
                if f > -1 and f_stage and (f_stage - 1, i) not in made_f:
                    break
                need = (b_stage, j) if b_stage == stages - 1 else (b_stage + 1, j)
                if b > -1 and need not in (made_f if b_stage == stages - 1 else made_b):
                    break
                if f >= 0:
                    done_f[rank][f] += 1
                    made_f.add((f_stage, i))
                if b >= 0:
                    done_b[rank][b] += 1
                    made_b.add((b_stage, j))
                    if split:
                        pending[rank].append(b_stage)
                w_stage = pending[rank].pop(0) if weight else -1
                rows.append((rank, f_stage, i, b_stage, j, split, w_stage))
                at[rank] += 1
                moved = True
    if any(a < len(program) for a, program in zip(at, programs, strict=True)):
        raise ValueError(f"dualpipe: depth {depth} waits in a circle")
    return tuple(rows)


class _Times:
    """Seconds of what a rank runs: [S, N] of an operation alone, [N] of a pair."""

    def __init__(self, c: PipelineCosts) -> None:
        self.costs, self.lanes = c, c.lanes
        self.weight_s = c.weight_s
        self.pairs: dict[tuple[int, int], F64] = {}
        if c.lanes is None:
            self.forward_s, self.input_s, self.backward_s = c.forward_s, c.input_s, c.input_s + c.weight_s
            return
        self.weight_s = c.lanes.weight_s
        self.forward_s, self.input_s = c.lanes.forward.alone_s, c.lanes.input_s
        self.backward_s = np.maximum(self.input_s, c.lanes.backward_compute_s)

    def pair_s(self, forward: int, backward: int) -> F64:
        if self.lanes is None:
            return self.forward_s[forward] + self.backward_s[backward]
        if (forward, backward) not in self.pairs:
            self.pairs[forward, backward] = self.lanes.pair_s(np.array([forward]), np.array([backward]))[0]
        return self.pairs[forward, backward]

    def sent_after_s(self, forward: int, backward: int) -> F64 | float:
        """Both outputs of a pair leave together, after its end."""
        if self.lanes is None:
            return 0.0
        return np.maximum(self.lanes.forward.send_s[forward], self.lanes.backward.send_s[backward])

    def pace_s(self) -> F64:
        """Of the slowest rank, a micro-batch through both of its stages, [N]."""
        last = len(self.forward_s) - 1
        turns = [self.pair_s(rank, last - rank) + self.pair_s(last - rank, rank) for rank in range((last + 1) // 2)]
        return np.asarray(np.max(turns, axis=0))


def _dualpipev(c: PipelineCosts) -> F64:
    """Seconds [N]; costs [2p, N]."""
    times = _Times(c)
    return np.asarray(_work_through(c.pp, times, fold_hop=False) + (c.micro_batches - 2 * c.pp) * times.pace_s())


def _dualpipe(c: PipelineCosts) -> F64:
    """Seconds [N]; costs [p, N]. One direction of p stages folds like DualPipeV on p/2 ranks with m/2 micro-batches.

    Rank r and its mirror p-1-r run the same program with directions swapped, so each is as far as the other at any
    time: the partner of the middle rank hands over to itself across the fold, with one hop.
    """
    times = _Times(c)
    return np.asarray(_work_through(c.pp // 2, times, fold_hop=True) + (c.micro_batches / 2 - c.pp) * times.pace_s())


def _work_through(depth: int, times: _Times, fold_hop: bool) -> F64:
    """End of the last operation for 2 depth micro-batches, [N]."""
    stages, hop_s = 2 * depth, times.costs.p2p_s
    made_f: dict[tuple[int, int], F64] = {}
    made_b: dict[tuple[int, int], F64] = {}
    clock = [np.zeros_like(hop_s)] * depth
    for rank, f_stage, i, b_stage, j, split, w_stage in _sequence(depth, True):
        end = clock[rank]
        if w_stage >= 0:
            clock[rank] = end + times.weight_s[w_stage]
            continue
        if f_stage > 0:
            ready = made_f.pop((f_stage - 1, i))
            end = np.maximum(end, ready + hop_s if fold_hop or f_stage != depth else ready)
        if 0 <= b_stage < stages - 1:
            ready = made_b.pop((b_stage + 1, j))
            end = np.maximum(end, ready + hop_s if fold_hop or b_stage != depth - 1 else ready)
        sent: F64 | None = None
        if b_stage < 0:
            end = end + times.forward_s[f_stage]
        elif f_stage < 0:
            end = end + (times.input_s if split else times.backward_s)[b_stage]
        else:
            end = end + times.pair_s(f_stage, b_stage)
            sent = end + times.sent_after_s(f_stage, b_stage)
        if f_stage >= 0 and f_stage < stages - 1:
            made_f[f_stage, i] = end if sent is None else sent
        if b_stage >= 0:
            made_b[b_stage, j] = end if sent is None else sent
        clock[rank] = end
    return np.asarray(np.max(clock, axis=0))


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

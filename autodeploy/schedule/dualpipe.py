"""DualPipe and DualPipeV (DeepSeek-V3, arXiv 2412.19437; order of deepseek-ai/DualPipe, dualpipe.py, dualpipev.py).

Both share one program: phase 0 is the stream a rank starts with, phase 1 the other. DualPipe feeds micro-batches from
both ends of the pipeline and holds two copies of the weights; DualPipeV cuts it in half and folds the model as a V.
"""

from __future__ import annotations

from collections import deque

from autodeploy.schedule.operations import (
    B,
    F,
    I,
    Op,
    PipelineShape,
    Schedule,
    ScheduleError,
    Slot,
    W,
    one_direction,
    require_single_chunk,
    require_two_chunks,
    slot_arrays,
    v_placement,
)


def dualpipe(shape: PipelineShape) -> Schedule:
    """Bubble (p/2-1)(F&B+B-3W); p+1 micro-batches in flight; two copies of the weights."""
    require_single_chunk("dualpipe", shape)
    p, m = shape.pp, shape.micro_batches
    if p % 2:
        raise ScheduleError("dualpipe: pp", p, "even (micro-batches enter from both ends)")
    if m % 2 or m < 2 * p:
        raise ScheduleError("dualpipe: micro_batches", m, f"even and at least 2 pp = {2 * p}")
    orders = []
    for rank in range(p):
        second_half = rank >= p // 2
        directions = (1, 0) if second_half else (0, 1)
        program = _Program(
            stages=tuple(p - 1 - rank if d else rank for d in directions),
            first_micro_batch=tuple(d * (m // 2) for d in directions),
        )
        half_rank = min(rank, p - 1 - rank)
        orders.append(_run(program, p // 2, half_rank, m // 2))
    ops, first = slot_arrays(orders)
    return Schedule(
        name="dualpipe",
        pp=p,
        stages=p,
        micro_batches=m,
        rank_of=(tuple(range(p)), tuple(range(p - 1, -1, -1))),
        ops=ops,
        first=first,
        direction_of=(0,) * (m // 2) + (1,) * (m // 2),
        weight_copies=2,
    )


def dualpipev(shape: PipelineShape) -> Schedule:
    """On p ranks, per half-stage chunk: bubble (p-1)(F&B+B-3W), 2p+1 chunks in flight; one copy of the weights."""
    require_two_chunks("dualpipev", shape)
    p, m = shape.pp, shape.micro_batches
    if m < 2 * p:
        raise ScheduleError("dualpipev: micro_batches", m, f"at least 2 pp = {2 * p}")
    orders = []
    for rank in range(p):
        program = _Program(stages=(rank, 2 * p - 1 - rank), first_micro_batch=(0, 0))
        orders.append(_run(program, p, rank, m))
    return one_direction("dualpipev", shape, v_placement(p), orders)


class _Program:
    """Collects the slots of one rank; counts micro-batches per phase as the published code does."""

    def __init__(self, stages: tuple[int, ...], first_micro_batch: tuple[int, ...]) -> None:
        self.stages = stages
        self.next_forward = list(first_micro_batch)
        self.next_backward = list(first_micro_batch)
        self.pending_weights: deque[Op] = deque()
        self.order: list[Slot] = []

    def _forward_op(self, phase: int) -> Op:
        self.next_forward[phase] += 1
        return (F, self.stages[phase], self.next_forward[phase] - 1)

    def _backward_op(self, phase: int, split: bool) -> Op:
        self.next_backward[phase] += 1
        micro_batch = self.next_backward[phase] - 1
        if split:
            self.pending_weights.append((W, self.stages[phase], micro_batch))
        return (I if split else B, self.stages[phase], micro_batch)

    def forward(self, phase: int) -> None:
        self.order.append((self._forward_op(phase),))

    def backward(self, phase: int, split: bool = False) -> None:
        self.order.append((self._backward_op(phase, split),))

    def weight(self) -> None:
        self.order.append((self.pending_weights.popleft(),))

    def pair(self, forward_phase: int, backward_phase: int) -> None:
        self.order.append((self._forward_op(forward_phase), self._backward_op(backward_phase, split=False)))


def _run(program: _Program, depth: int, rank: int, micro_batches: int) -> list[Slot]:
    """The eight published steps; `depth` ranks before the fold, `micro_batches` per phase."""
    before_fold = depth - rank - 1
    for _ in range(2 * before_fold):  # 1: nF0
        program.forward(0)
    for _ in range(rank + 1):  # 2: nF0F1
        program.forward(0)
        program.forward(1)
    for _ in range(before_fold):  # 3: nB1W1F1
        program.backward(1, split=True)
        program.weight()
        program.forward(1)
    for i in range(micro_batches - 2 * depth + rank + 1):  # 4: nF0B1F1B0, the main step
        if i == 0 and before_fold == 0:  # not overlapped: shortens the bubble
            program.forward(0)
            program.backward(1)
        else:
            program.pair(0, 1)
        program.pair(1, 0)
    for _ in range(before_fold):  # 5: nB1F1B0
        program.backward(1)
        program.pair(1, 0)
    split = False
    for i in range(rank + 1):  # 6: nB1B0, the second half of the chunks split
        split = split or (i == (rank + 1) // 2 and rank % 2 == 1)
        program.backward(1, split)
        split = split or (i == (rank + 1) // 2 and rank % 2 == 0)
        program.backward(0, split)
    for _ in range(before_fold):  # 7: nWB0
        program.weight()
        program.backward(0, split=True)
    while program.pending_weights:  # 8: nW
        program.weight()
    return program.order

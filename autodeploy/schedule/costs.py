"""What the simulator is told: costs per virtual stage, in seconds and bytes, for a batch of N scenarios."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.operations import ScheduleError
from autodeploy.schedule.segments import IS_EP, LANE_OF, SEGMENTS, Segment, Structure
from cost_models.records import record

F64 = NDArray[np.float64]
ALL_TO_ALL_PAIRS = tuple(
    (Segment[f"{part}_INTER_{way}"], Segment[f"{part}_INTRA_{way}"])
    for part in ("DISPATCH", "COMBINE")
    for way in "FRB"
)


@record
class StageCosts:
    """Whole-stage costs, [N, S] in model order; for schedules without overlap of communication."""

    forward_s: F64
    backward_input_s: F64
    backward_weight_s: F64

    def segments(self) -> LayerSegments:
        """The same as one layer a stage with compute parts only."""
        seconds = np.zeros((*self.forward_s.shape, 1, SEGMENTS))
        seconds[:, :, 0, Segment.ATTENTION_F] = self.forward_s
        seconds[:, :, 0, Segment.ATTENTION_B] = self.backward_input_s
        seconds[:, :, 0, Segment.ATTENTION_W] = self.backward_weight_s
        return LayerSegments(seconds=seconds)


@record
class LayerSegments:
    """Seconds of every segment of every layer: [N, S, L, K], K as in `Segment`; 0 where a layer lacks the segment."""

    seconds: F64

    def __post_init__(self) -> None:
        shape = self.seconds.shape
        if len(shape) != 4 or shape[3] != SEGMENTS:
            raise ScheduleError("LayerSegments.seconds", shape, f"of shape [N, S, L, {SEGMENTS}]")
        if not (np.isfinite(self.seconds).all() and (self.seconds >= 0).all()):
            raise ScheduleError("LayerSegments.seconds", "has negative or non-finite entries", "seconds >= 0")

    def structures(self) -> tuple[Structure, ...]:
        """For each stage the segments its layers have in any scenario; trailing empty layers dropped."""
        present = (self.seconds > 0).any(axis=0)
        masks = (present.astype(np.int64) << np.arange(SEGMENTS)).sum(axis=2)
        return tuple(tuple(int(mask) for mask in row if mask) or (0,) for row in masks)

    def packed(self) -> F64:
        """[S, L, K, N] with each stage's empty layers moved to the end, as `structures` counts layers."""
        present = np.asarray((self.seconds > 0).any(axis=(0, 3)))
        moved = self.seconds
        if (present[:, 1:] & ~present[:, :-1]).any():
            order = np.argsort(~present, axis=1, kind="stable")
            moved = np.take_along_axis(self.seconds, order[None, :, :, None], axis=2)
        return np.ascontiguousarray(np.moveaxis(moved, 0, -1))

    def without_ep(self) -> LayerSegments:
        """All-to-alls take no time."""
        return LayerSegments(seconds=np.where(np.array(IS_EP), 0.0, self.seconds))

    def with_pipelined_all_to_all(self, pieces: int) -> LayerSegments:
        """For `overlap="none"`: the steps between and inside nodes run chunk-wise pipelined instead of in series.

        a then b cut into `pieces` takes max(a, b) + min(a, b) / pieces, so the shorter step is cut to that share. With
        overlap use a lane order that cuts in pieces: there both lanes keep their whole work.
        """
        seconds = self.seconds.copy()
        for inter, intra in ALL_TO_ALL_PAIRS:
            first, second = self.seconds[..., inter], self.seconds[..., intra]
            seconds[..., inter] = np.where(first < second, first / pieces, first)
            seconds[..., intra] = np.where(first < second, second, second / pieces)
        return LayerSegments(seconds=seconds)

    def stage_costs(self) -> StageCosts:
        """Sums per stage with nothing overlapped; recompute counts to the input backward."""
        total = self.seconds.sum(axis=2)
        return StageCosts(
            forward_s=total[:, :, 0:6].sum(axis=2),
            backward_input_s=total[:, :, 6:18].sum(axis=2),
            backward_weight_s=total[:, :, 18:20].sum(axis=2),
        )

    @property
    def ep_s(self) -> F64:
        """Seconds of all-to-all per stage and micro-batch, both directions, [N, S]."""
        return np.asarray(self.seconds[..., np.array(IS_EP)].sum(axis=(2, 3)))

    @property
    def lanes(self) -> tuple[int, ...]:
        """Lanes that any segment uses."""
        used = (self.seconds > 0).any(axis=(0, 1, 2))
        return tuple(sorted({LANE_OF[k] for k in np.flatnonzero(used)}))


@record
class StepTail:
    """What follows the last backward of a rank; [N, P] or broadcastable to it. Exposed seconds only."""

    gradient_reduction_s: F64 | float = 0.0
    parameter_gather_s: F64 | float = 0.0
    optimizer_s: F64 | float = 0.0


@record
class StageMemory:
    """Activation bytes of one micro-batch per virtual stage [N, S], and what stays for all of the step [N, P]."""

    activation_bytes: F64
    static_bytes: F64 | float = 0.0
    weight_kept_frac: float = 0.5  # of the activations, from I to W

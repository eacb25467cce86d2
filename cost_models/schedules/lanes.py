"""A forward and a backward side by side on three lanes (compute, between nodes, inside the node), in closed form.

Axes: N strategies, S virtual stages. Replayed segment by segment, a pair keeps its fullest lane busy all the time, or is as
long as the longer of its two chains; a direction alone runs its all-to-alls and experts in pieces, one beside the other.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cost_models.records import record

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# Lanes that are equally full hold each other up: fitted, power and share, to the pace of 748 replayed pairs of random
# strategies of six models on six machines (0.4% too short at the median without, 0.3% with; 1% of them 6% too short).
BALANCED_LANES_FRAC = 1.0 / 16.0
TINY_S = float(np.finfo(float).tiny)
PIECES = 4  # the finest cut of the replay's lane orders, which it nearly always chooses


@record(eq=False)
class Direction:
    """Seconds of one direction of each stage on each lane, [S, N]; `experts_s` is part of `compute_s`.

    Of a backward without its recomputed and weight parts: these need no gradient to start, and none waits for them.
    """

    compute_s: F64
    experts_s: F64
    inter_s: F64
    intra_s: F64
    send_s: F64  # to the next stage, on the lane between nodes, after all else

    def take(self, at: I64 | slice) -> Direction:
        """The strategies at `at`."""
        return Direction(
            compute_s=self.compute_s[:, at], experts_s=self.experts_s[:, at], inter_s=self.inter_s[:, at],
            intra_s=self.intra_s[:, at], send_s=self.send_s[:, at],
        )  # fmt: skip

    @cached_property
    def chain_s(self) -> F64:
        """One part after the other."""
        return self.compute_s + self.inter_s + self.intra_s + self.send_s

    @cached_property
    def alone_s(self) -> F64:
        """From the arrival of its input to its output with nothing beside it: all-to-alls and experts in pieces.

        A lane that is busy all the time, or the way of a first piece to it and of a last piece from it.
        """
        x, a, e = self.inter_s, self.intra_s, self.experts_s
        between = np.maximum(x, x / 2 + (a + e + x / 2) / PIECES)
        inside, experts = a + x / PIECES, e + (x + a) / PIECES
        return self.compute_s - e + np.maximum(between, np.maximum(inside, experts)) + self.send_s


@record(eq=False)
class LaneCosts:
    """Both directions of each stage, and what a backward has beside its chain."""

    forward: Direction
    backward: Direction
    again: Direction  # recomputed parts
    weight_s: F64
    layers: F64  # at least 1; [S, N], or [S, 1] of one layout

    def take(self, at: I64 | slice) -> LaneCosts:
        """The strategies at `at`."""
        return LaneCosts(
            forward=self.forward.take(at), backward=self.backward.take(at), again=self.again.take(at),
            weight_s=self.weight_s[:, at],
            layers=self.layers[:, at] if self.layers.shape[1] > 1 else self.layers,
        )  # fmt: skip

    @cached_property
    def backward_compute_s(self) -> F64:
        return self.backward.compute_s + self.again.compute_s + self.weight_s

    @cached_property
    def input_s(self) -> F64:
        """A backward for the input alone: its chain behind one layer's recompute, or its fullest lane."""
        b, again = self.backward, self.again
        chain = b.alone_s + again.alone_s / self.layers
        lanes = np.maximum(b.inter_s + again.inter_s + b.send_s, b.intra_s + again.intra_s)
        return np.asarray(np.maximum(chain, np.maximum(lanes, b.compute_s + again.compute_s + b.send_s)))

    @cached_property
    def gradient_s(self) -> F64:
        """A whole backward alone until its gradient leaves: weight parts of all layers but the last go before it."""
        compute = self.backward_compute_s - self.weight_s / self.layers + self.backward.send_s
        return np.asarray(np.maximum(self.input_s, compute))

    def pair_s(self, forward: I64, backward: I64) -> F64:
        """Seconds of a pair of the forward of stages `forward` and the backward of stages `backward`, [rows, N]."""
        f, b, again = self.forward, self.backward, self.again
        lanes = (
            f.compute_s[forward] + self.backward_compute_s[backward],
            (f.inter_s + f.send_s)[forward] + (b.inter_s + again.inter_s + b.send_s)[backward],
            f.intra_s[forward] + (b.intra_s + again.intra_s)[backward],
        )
        fullest = np.maximum(lanes[0], np.maximum(lanes[1], lanes[2]))
        any_s = np.maximum(fullest, TINY_S)  # a stage may be empty
        held_up = sum(_twelfth_power(lane / any_s) for lane in lanes) - 1.0
        chains = np.maximum(f.alone_s[forward], self.input_s[backward])
        return np.asarray(np.maximum(fullest * (1.0 + BALANCED_LANES_FRAC * held_up), chains))


def _twelfth_power(x: F64) -> F64:
    fourth = x * x * x * x
    return fourth * fourth * fourth

"""Interleaved 1F1B worked through in waves, exact on whole stages: in a wave every rank does one turn of its own order.

Rank r leads with W(r) = 2(p-1-r) + (v-1)G + extra forwards, then takes turns of forward W(r)+j and backward j. Wave w of
the lead does forward w-r on rank r, wave u of the turns does turn u-(p-1-r): what a rank waits for was then made in the
wave before, by a neighbour, or earlier, so that all ranks go at once. It takes groups of at least p micro-batches.

Axes: N strategies, P ranks, V chunks a rank; arrays [P, N].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.schedules.facts import F64, I64
from cost_models.schedules.lanes import LaneCosts

ROUNDS = 4  # groups of micro-batches that are worked through; the others pass at the pace of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCosts:
    """Seconds of each chunk, [V x P, N] in model order."""

    forward_s: F64
    backward_s: F64
    p2p_s: F64
    lanes: LaneCosts | None = None  # then forwards and backwards of a turn run side by side


def interleaved_s(costs: ChunkCosts, *, pp: int, micro_batches: int, group: int, extra: int) -> F64:
    """Seconds [N]. `extra`: forwards beyond Megatron's lead of 2(p-r-1) + (v-1)G."""
    skipped = max(0, micro_batches // group - ROUNDS)
    waves = _Waves(costs, pp, micro_batches - skipped * group, group, extra)
    worked = waves.run()
    return worked + skipped * waves.pace_s() if skipped else worked


class _Waves:
    def __init__(self, costs: ChunkCosts, pp: int, micro_batches: int, group: int, extra: int) -> None:
        self.costs, self.pp = costs, pp
        self.chunks = len(costs.forward_s) // pp
        self.sizes = [min(group, micro_batches - at) for at in range(0, micro_batches, group)]
        self.total = micro_batches * self.chunks
        chunk = [np.repeat(np.arange(self.chunks), size) for size in self.sizes]
        self.chunk_at = np.concatenate(chunk)  # of the forward at each place of the order; of backwards v-1-this
        self.size_at = np.repeat(self.sizes, [size * self.chunks for size in self.sizes])
        self.constant = (self.chunks - 1) * group + extra
        self.lead = np.minimum(self.constant + 2 * (pp - 1 - np.arange(pp)), self.total)
        self.forward_alone_s = costs.lanes.forward.alone_s if costs.lanes else costs.forward_s
        if costs.lanes:
            self.backward_alone_s = costs.lanes.backward.alone_s
            self.gradient_s = costs.lanes.gradient_s
            self.pairs_s = self._all_pairs_s(costs.lanes)
            self.backward_compute_s = costs.lanes.backward_compute_s
        self.clock = np.zeros((pp, costs.forward_s.shape[1]))
        self.led: list[F64] = []  # forward ends by wave of the lead
        self.forwards: list[F64] = []  # forward ends by wave of the turns
        self.gradients: list[F64] = []  # when gradients leave, by wave of the turns
        self.per_round = group * self.chunks
        last = min(self.total - int(self.lead[0]), (ROUNDS - 1) * self.per_round)
        self.marks_at = (last - self.per_round, last)  # turns of the first rank, in its steady phase
        self.marks: list[F64] = []

    def run(self) -> F64:
        for wave in range(int((self.lead + np.arange(self.pp)).max())):
            self._lead(wave)
        for wave in range(self.total + self.pp - 1):
            if wave - self.pp + 1 in self.marks_at:
                self.marks.append(self.clock[0])
            self._turn(wave)
        return np.asarray(self.clock.max(axis=0))

    def pace_s(self) -> F64:
        """Seconds of a round in the steady phase, at the first rank."""
        before, after = self.marks
        return after - before

    def _lead(self, wave: int) -> None:
        """Forward wave - r on each rank r that has one in its lead."""
        low = max(0, wave - self.total + 1)
        high = min(self.pp, wave + 1)
        while low < high and wave - low >= self.lead[low]:
            low += 1
        while high > low and wave - high + 1 >= self.lead[high - 1]:
            high -= 1
        ends = np.empty_like(self.clock)
        self.led.append(ends)
        if low >= high:
            return
        start = ends[low:high]
        if low:
            np.add(self.led[-2][low - 1 : high - 1], self.costs.p2p_s, out=start)
        else:
            start[0] = self._wrapped_forward(wave)
            if high > 1:
                np.add(self.led[-2][: high - 1], self.costs.p2p_s, out=start[1:])
        np.maximum(start, self.clock[low:high], out=start)
        start += self.forward_alone_s[self._rows(wave - np.arange(low, high), low, high)]
        self.clock = self._renewed(start, low, high)

    def _turn(self, wave: int) -> None:
        """Turn wave - (p-1-r) on each rank r that has one: its forward, if any is left, then its backward."""
        low, high = max(0, self.pp - 1 - wave), min(self.pp, self.total - wave + self.pp - 1)
        first = max(low, self.constant + wave + self.pp - self.total)  # ranks from here on have forwards left
        ends, leaves = np.empty_like(self.clock), np.empty_like(self.clock)
        place = self.constant + wave + self.pp - 1 - np.arange(first, high)
        if first < high:
            self._forward_inputs(wave, first, high, ends[first:high])
        self.forwards.append(ends)
        start = leaves[low:high]
        inner = min(high, self.pp - 1)
        if inner > low:
            np.add(self.gradients[-1][low + 1 : inner + 1], self.costs.p2p_s, out=start[: inner - low])
        if high == self.pp:
            start[-1] = self._wrapped_gradient(wave)
        turn = wave - self.pp + 1 + np.arange(low, high)
        backwards = (self.chunks - 1 - self.chunk_at[turn]) * self.pp + np.arange(low, high)
        run = self._side_by_side if self.costs.lanes else self._one_by_one
        run(ends[first:high], start, self._rows(place, first, high), backwards, low)
        self.gradients.append(leaves)

    def _one_by_one(self, forward: F64, gradient: F64, forwards: I64, backwards: I64, low: int) -> None:
        """From arrivals to ends of a turn, in place: the forward, then the backward. Forwards are of the last ranks."""
        high = low + len(gradient)
        if len(forward):
            first = high - len(forward)
            np.maximum(forward, self.clock[first:high], out=forward)
            forward += self.costs.forward_s[forwards]
            self.clock = self._renewed(forward, first, high)
        np.maximum(gradient, self.clock[low:high], out=gradient)
        gradient += self.costs.backward_s[backwards]
        self.clock = self._renewed(gradient, low, high)

    def _side_by_side(self, forward: F64, gradient: F64, forwards: I64, backwards: I64, low: int) -> None:
        """As `_one_by_one`, on lanes: a pair is done when its fullest lane is, or an input and its chain. A backward alone
        runs what needs no gradient while it waits for it."""
        high, count = low + len(gradient), len(gradient) - len(forward)
        clock = self.clock[low:high].copy()
        alone, pair = backwards[:count], backwards[count:]
        if count:
            ready = np.maximum(gradient[:count], clock[:count])
            np.add(ready, self.gradient_s[alone], out=gradient[:count])
            np.maximum(ready + self.backward_compute_s[alone], gradient[:count], out=clock[:count])
        if len(forward):
            done = clock[count:] + self.pairs_s[(forwards // self.pp) * len(self.gradient_s) + pair]
            forward += self.forward_alone_s[forwards]
            gradient[count:] += self.backward_alone_s[pair]
            np.maximum(done, np.maximum(forward, gradient[count:]), out=clock[count:])
            np.maximum(forward, done, out=forward)
            np.maximum(gradient[count:], done, out=gradient[count:])
        self.clock = self._renewed(clock, low, high)

    def _all_pairs_s(self, lanes: LaneCosts) -> F64:
        """Of each chunk's forward with each chunk's backward on the same rank: row chunk x stages + backward stage."""
        backward = np.tile(np.arange(self.chunks * self.pp), self.chunks)
        forward = np.repeat(np.arange(self.chunks), self.chunks * self.pp) * self.pp + backward % self.pp
        return lanes.pair_s(forward, backward)

    def _renewed(self, ends: F64, low: int, high: int) -> F64:
        """The clock with the ranks low..high-1 moved on; earlier clocks stay as they were."""
        if high - low == self.pp:
            return ends
        clock = self.clock.copy()
        clock[low:high] = ends
        return clock

    def _rows(self, place: I64, low: int, high: int) -> I64:
        """Rows of the costs of the forwards at `place` of the order, on ranks low..high-1."""
        return np.asarray(self.chunk_at[place] * self.pp + np.arange(low, high))

    def _forward_inputs(self, wave: int, first: int, high: int, into: F64) -> None:
        hop = self.costs.p2p_s
        for rank in range(first, high):
            turn = wave - self.pp + 1 + rank
            if turn >= 2 and rank:
                np.add(self.forwards[-1][rank - 1 : high - 1], hop, out=into[rank - first :])
                return
            place = int(self.lead[rank]) + turn
            if rank == 0:
                into[0] = self._wrapped_forward(place)
            else:
                np.add(self.led[place + rank - 1][rank - 1], hop, out=into[rank - first])

    def _wrapped_forward(self, place: int) -> F64 | float:
        """When the input of the first rank's forward arrives from the last rank, a chunk earlier."""
        if self.chunk_at[place] == 0:
            return 0.0
        before = place - int(self.size_at[place])
        turn = before - int(self.lead[-1])
        made = self.led[before + self.pp - 1] if turn < 0 else self.forwards[turn]
        return made[-1] + self.costs.p2p_s

    def _wrapped_gradient(self, turn: int) -> F64 | float:
        """When the gradient of the last rank's backward arrives from the first rank, a chunk later."""
        if self.chunk_at[turn] == 0:
            return 0.0
        before = turn - int(self.size_at[turn])
        return self.gradients[before + self.pp - 1][0] + self.costs.p2p_s

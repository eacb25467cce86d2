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

ROUNDS = 4  # groups of micro-batches that are worked through; the others pass at the pace of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCosts:
    """Seconds of each chunk, [V x P, N] in model order; `gradient_s`: of the backward, until its gradient leaves."""

    forward_s: F64
    backward_s: F64
    gradient_s: F64
    p2p_s: F64


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
        start += self.costs.forward_s[self._rows(wave - np.arange(low, high), low, high)]
        self.clock = self._renewed(start, low, high)

    def _turn(self, wave: int) -> None:
        """Turn wave - (p-1-r) on each rank r that has one: its forward, if any is left, then its backward."""
        low, high = max(0, self.pp - 1 - wave), min(self.pp, self.total - wave + self.pp - 1)
        first = max(low, self.constant + wave + self.pp - self.total)  # ranks from here on have forwards left
        ends, leaves = np.empty_like(self.clock), np.empty_like(self.clock)
        if first < high:
            start = ends[first:high]
            self._forward_inputs(wave, first, high, start)
            np.maximum(start, self.clock[first:high], out=start)
            place = self.constant + wave + self.pp - 1 - np.arange(first, high)
            start += self.costs.forward_s[self._rows(place, first, high)]
            self.clock = self._renewed(start, first, high)
        self.forwards.append(ends)
        start = leaves[low:high]
        inner = min(high, self.pp - 1)
        if inner > low:
            np.add(self.gradients[-1][low + 1 : inner + 1], self.costs.p2p_s, out=start[: inner - low])
        if high == self.pp:
            start[-1] = self._wrapped_gradient(wave)
        np.maximum(start, self.clock[low:high], out=start)
        turn = wave - self.pp + 1 + np.arange(low, high)
        rows = (self.chunks - 1 - self.chunk_at[turn]) * self.pp + np.arange(low, high)
        self.clock = self._renewed(start + self.costs.backward_s[rows], low, high)
        start += self.costs.gradient_s[rows]
        self.gradients.append(leaves)

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

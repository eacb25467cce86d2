"""Interleaved 1F1B worked through in waves, exact on whole stages: in a wave every rank does one turn of its own order.

Rank r leads with C + 2(p-1-r) forwards, C = (v-1)G + extra, then takes turns of a forward and a backward. In wave t it does its
forward t - r, then its backward t - D + r, D = C + 2p - 2: what these wait for was made in the wave before, by a neighbour, or
earlier, so that all ranks go at once. It takes groups of at least p micro-batches.

Axes: N strategies, P ranks, V chunks a rank, T waves, O forwards (or backwards) of a rank. Ranks are counted from the last to
the first: the forwards of a wave are then a window of the order, and its backwards a window of the order from the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cost_models.schedules.facts import F64, I64, Bool
from cost_models.schedules.lanes import LaneCosts

ROUNDS = 4  # groups of micro-batches that are worked through; the others pass at the pace of the last
LAID_OUT = (
    1 << 15
)  # costs that are put in the order of the waves at a time: all of a few strategies, a few waves of many


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCosts:
    """Seconds of each chunk, [V x P, N] in model order."""

    forward_s: F64
    backward_s: F64
    p2p_s: F64
    lanes: LaneCosts | None = None  # then forwards and backwards of a turn run side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What each rank does in each wave. `forward`, `backward`, `pair`: rows of costs [T, P], any where a rank does nothing."""

    pp: int
    total: int  # O
    turned: int  # D: wave of the first rank's first backward
    next_chunk: list[int]  # [O] place of the same micro-batch's next chunk, 0 for none
    round_waves: tuple[int, int]  # in the steady phase, a round apart
    forward: I64
    backward: I64
    pair: I64
    paired: tuple[I64, I64]  # stages of the forward and of the backward of each pair that there is

    @property
    def waves(self) -> int:
        return self.turned + self.total

    def laid_out(self, first: int, last: int, *costs: tuple[F64, I64]) -> Iterator[tuple[F64, ...]]:
        """Of each wave, costs of its ranks, [P, N] each; from costs by row, and rows [T, P]."""
        step = max(1, LAID_OUT // (self.pp * costs[0][0].shape[1]))
        for at in range(first, last, step):
            to = min(at + step, last)
            yield from zip(*(seconds.take(rows[at:to], axis=0) for seconds, rows in costs), strict=True)


@lru_cache(maxsize=128)
def program(pp: int, chunks: int, micro_batches: int, group: int, extra: int) -> Program:
    """`extra`: forwards beyond Megatron's lead of 2(p-r-1) + (v-1)G."""
    sizes = [min(group, micro_batches - at) for at in range(0, micro_batches, group)]
    chunk_at = np.concatenate([np.repeat(np.arange(chunks), size) for size in sizes])  # of the forward at each place
    size_at = np.repeat(sizes, [size * chunks for size in sizes])
    total = micro_batches * chunks
    lead = min((chunks - 1) * group + extra, total)
    turned, per_round = lead + 2 * pp - 2, group * chunks
    wave, rank = np.arange(turned + total)[:, None], np.arange(pp)[::-1]
    forwards, backwards = wave - rank, wave - turned + rank
    both = (forwards >= 0) & (forwards < total) & (backwards >= 0) & (backwards < total)
    forward_chunk = chunk_at[np.clip(forwards, 0, total - 1)]
    backward = (chunks - 1 - chunk_at[np.clip(backwards, 0, total - 1)]) * pp + rank
    pair, paired = _numbered(forward_chunk * (chunks * pp) + backward, both)
    steady = turned + min(total - min(turned, total), (ROUNDS - 1) * per_round)
    return Program(
        pp=pp, total=total, turned=turned, round_waves=(steady - per_round, steady),
        next_chunk=np.where(chunk_at < chunks - 1, np.arange(total) + size_at, 0).tolist(),
        forward=forward_chunk * pp + rank, backward=backward, pair=pair,
        paired=(paired // (chunks * pp) * pp + paired % pp, paired % (chunks * pp)),
    )  # fmt: skip


def _numbered(codes: I64, used: Bool) -> tuple[I64, I64]:
    """`codes` counted from 0 among those used, and the codes that are."""
    seen = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    seen[codes[used]] = 1
    return (np.cumsum(seen) - 1)[codes], np.flatnonzero(seen)


def interleaved_s(costs: ChunkCosts, order: Program) -> tuple[F64, F64]:
    """Seconds, and those of a round in the steady phase at the first rank where there are `ROUNDS`, [N] each."""
    work = _OneByOne(costs, order) if costs.lanes is None else _SideBySide(costs, costs.lanes, order)
    work.run()
    return np.asarray(work.clock.max(axis=0)), work.round_s


class _Waves:
    """`forwards`, `gradients` [O, N]: when the input of a place of the order reaches the rank that needs it next; gradients from
    the end of the order. A wave's window of either starts at the last rank's place, with ranks that do nothing outside."""

    def __init__(self, hop_s: F64, order: Program) -> None:
        self.order, self.pp, self.total = order, order.pp, order.total
        self.clock = np.zeros((order.pp, len(hop_s)))
        self.hop_s = np.tile(hop_s, (order.pp, 1))  # adds faster than a row
        self.sends = bool(hop_s.any())
        self.forwards, self.gradients = np.zeros((order.total, len(hop_s))), np.zeros((order.total, len(hop_s)))
        self.round_s = np.zeros(len(hop_s))

    def forward_window(self, wave: int) -> int:
        return wave - self.pp + 1

    def backward_window(self, wave: int) -> int:
        return self.order.waves - self.pp - wave

    def ranks(self, window: int) -> tuple[int, int]:
        """Low and high of those that have a place in it."""
        return max(0, -window), min(self.pp, self.total - window)

    def mark(self, wave: int) -> None:
        if wave in self.order.round_waves:
            self.round_s = self.clock[-1] - self.round_s

    def move_on(self, low: int, high: int, arrives: F64, seconds: F64) -> None:
        """Ranks low..high-1 do one operation: from the arrivals of their inputs to those of their outputs."""
        clock, hop_s = self.clock, self.hop_s
        if high - low < self.pp:
            clock, seconds, hop_s = clock[low:high], seconds[low:high], hop_s[low:high]
        np.maximum(clock, arrives, out=clock)
        np.add(clock, seconds, clock)
        np.add(clock, hop_s, arrives)

    def wrap_forward(self, window: int) -> None:
        """From the last rank to the first, a chunk later."""
        if window >= 0:
            place = self.order.next_chunk[window]
            if place:
                self.forwards[place] = self.forwards[window]

    def wrap_gradient(self, window: int) -> None:
        """From the first rank to the last, a chunk earlier."""
        turn = self.total - self.pp - window
        if turn >= 0:
            place = self.order.next_chunk[turn]
            if place:
                self.gradients[-1 - place] = self.gradients[-1 - turn]


class _OneByOne(_Waves):
    """A turn is its forward, then its backward."""

    def __init__(self, costs: ChunkCosts, order: Program) -> None:
        super().__init__(costs.p2p_s, order)
        self.costs = costs

    def run(self) -> None:
        order, costs = self.order, self.costs
        laid_out = order.laid_out(0, order.waves, (costs.forward_s, order.forward), (costs.backward_s, order.backward))
        for wave, (forward_s, backward_s) in enumerate(laid_out):
            self.mark(wave)
            window = self.forward_window(wave)
            if window < self.total:
                low, high = self.ranks(window)
                self.move_on(low, high, self.forwards[window + low : window + high], forward_s)
                self.wrap_forward(window)
            window = self.backward_window(wave)
            if window < self.total:
                low, high = self.ranks(window)
                self.move_on(low, high, self.gradients[window + low : window + high], backward_s)
                self.wrap_gradient(window)


class _SideBySide(_Waves):
    """On lanes: a pair is done when its fullest lane is, or an input and its chain. A backward alone runs what needs no
    gradient while it waits for it."""

    def __init__(self, costs: ChunkCosts, lanes: LaneCosts, order: Program) -> None:
        super().__init__(costs.p2p_s, order)
        self.pair = (lanes.pair_s(*order.paired), order.pair)
        self.forward, self.backward = (lanes.forward.alone_s, order.forward), (lanes.backward.alone_s, order.backward)
        self.gradient, self.compute = (lanes.gradient_s, order.backward), (lanes.backward_compute_s, order.backward)

    def run(self) -> None:
        """Leads; pairs beside the rest of the leads or the first backwards alone; backwards alone."""
        order, leads, pairs = self.order, self.order.turned - self.pp + 1, self.total + self.pp - 1
        for wave, (forward_s,) in enumerate(order.laid_out(0, min(leads, pairs), self.forward)):
            self._lead(self.forward_window(wave), 0, forward_s)
        parts = (self.pair, self.forward, self.backward, self.gradient, self.compute)
        for wave, seconds in enumerate(order.laid_out(leads, pairs, *parts), leads):
            self.mark(wave)
            self._turn(self.forward_window(wave), self.backward_window(wave), seconds)
        leads = max(leads, pairs)
        for wave, seconds in enumerate(order.laid_out(leads, order.waves, self.gradient, self.compute), leads):
            self._alone(self.backward_window(wave), 0, *seconds)

    def _turn(self, window: int, back: int, seconds: tuple[F64, ...]) -> None:
        """The last ranks do pairs, those before them what there is: forwards of the lead, or backwards."""
        pairs = min(self.pp, self.total - window, self.total - back)
        self._pairs(self.forwards[window : window + pairs], self.gradients[back : back + pairs], seconds[:3])
        if self.total - window > pairs < self.pp:
            self._lead(window, pairs, seconds[1])
        elif self.total - back > pairs < self.pp:
            self._alone(back, pairs, *seconds[3:])
        self.wrap_forward(window)
        self.wrap_gradient(back)

    def _pairs(self, forwards: F64, gradients: F64, seconds: tuple[F64, ...]) -> None:
        pairs, clock, (pair_s, forward_s, backward_s) = len(forwards), self.clock, seconds
        if pairs < self.pp:
            clock, pair_s, forward_s, backward_s = clock[:pairs], pair_s[:pairs], forward_s[:pairs], backward_s[:pairs]
        np.add(clock, pair_s, clock)
        np.add(forwards, forward_s, forwards)
        np.maximum(forwards, clock, out=forwards)
        np.add(gradients, backward_s, gradients)
        np.maximum(gradients, clock, out=gradients)
        np.maximum(forwards, gradients, out=clock)
        if self.sends:
            np.add(forwards, self.hop_s[:pairs], forwards)
            np.add(gradients, self.hop_s[:pairs], gradients)

    def _lead(self, window: int, least: int, seconds: F64) -> None:
        """Forwards of the ranks from `least` on."""
        low, high = self.ranks(window)
        low = max(low, least)
        self.move_on(low, high, self.forwards[window + low : window + high], seconds)
        if not least:
            self.wrap_forward(window)

    def _alone(self, window: int, least: int, gradient_s: F64, compute_s: F64) -> None:
        """Backwards of the ranks from `least` on."""
        low, high = self.ranks(window)
        low = max(low, least)
        clock, arrives = self.clock[low:high], self.gradients[window + low : window + high]
        np.maximum(clock, arrives, out=clock)  # the gradient is there, and the rank free
        np.add(clock, gradient_s[low:high], arrives)
        np.add(clock, compute_s[low:high], clock)
        np.maximum(clock, arrives, out=clock)
        if self.sends:
            np.add(arrives, self.hop_s[low:high], arrives)
        if not least:
            self.wrap_gradient(window)

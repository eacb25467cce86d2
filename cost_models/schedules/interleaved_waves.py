"""Interleaved 1F1B worked through in waves, exact on whole stages: in a wave every rank does one turn of its own order.

Rank r leads with C + 2(p-1-r) forwards, C = (v-1)G + extra, then takes turns of a forward and a backward. In wave t it does its
forward t - r, then its backward t - D + r, D = C + 2p - 2: what these wait for was made in the wave before, by a neighbour, or
earlier, so that all ranks go at once. It takes groups of at least p micro-batches.

Axes: N strategies, P ranks, V chunks a rank, T waves, O forwards (or backwards) of a rank. Ranks are counted from the last to
the first: the forwards of a wave are then a window of the order, and its backwards a window of the order from the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from cost_models.records import record
from cost_models.schedules.facts import F64, I64, Bool
from cost_models.schedules.lanes import LaneCosts

ROUNDS = 4  # groups of micro-batches that are worked through; the others pass at the pace of the last
LAID_OUT = 1 << 15  # costs put in the order of the waves at a time: all of a few strategies, a few waves of many


@record
class ChunkCosts:
    """Seconds of each chunk, [V x P, N] in model order."""

    forward_s: F64
    backward_s: F64
    p2p_s: F64
    lanes: LaneCosts | None = None  # then forwards and backwards of a turn run side by side


@record
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
    the end of the order. A wave's window of either starts at the last rank's place; ranks outside do nothing."""

    def __init__(self, hop_s: F64, order: Program) -> None:
        self.order, self.pp, self.total = order, order.pp, order.total
        self.clock = np.zeros((order.pp, len(hop_s)))
        self.hop_s = np.tile(hop_s, (order.pp, 1))  # adds faster than a row
        self.sends = bool(hop_s.any())
        self.forwards, self.gradients = np.zeros((order.total, len(hop_s))), np.zeros((order.total, len(hop_s)))
        self.round_s = np.zeros(len(hop_s))

    def mark(self) -> None:
        self.round_s = self.clock[-1] - self.round_s

    def move_on(self, places: F64, window: int, seconds: F64, least: int = 0) -> None:
        """Ranks from `least` on do one operation: from the arrivals of their inputs to those of their outputs."""
        low, high = max(least, -window), min(self.pp, self.total - window)
        clock, hop_s, arrives = self.clock, self.hop_s, places[window + low : window + high]
        if high - low < self.pp:
            clock, seconds, hop_s = clock[low:high], seconds[low:high], hop_s[low:high]
        np.maximum(clock, arrives, out=clock)
        np.add(clock, seconds, clock)
        np.add(clock, hop_s, arrives)

    def wrap(self, place: int, turn: int) -> None:
        """Of the last rank's forward the output to the first, a chunk later; of the first's backward to the last."""
        if 0 <= place < self.total:
            later = self.order.next_chunk[place]
            if later:
                self.forwards[later] = self.forwards[place]
        if turn >= 0:
            later = self.order.next_chunk[turn]
            if later:
                self.gradients[-1 - later] = self.gradients[-1 - turn]


class _OneByOne(_Waves):
    """A turn is its forward, then its backward."""

    def __init__(self, costs: ChunkCosts, order: Program) -> None:
        super().__init__(costs.p2p_s, order)
        self.costs = ((costs.forward_s, order.forward), (costs.backward_s, order.backward))

    def run(self) -> None:
        order, total = self.order, self.total
        window, back = 1 - self.pp, order.waves - self.pp
        for wave, (forward_s, backward_s) in enumerate(order.laid_out(0, order.waves, *self.costs)):
            if wave in order.round_waves:
                self.mark()
            if window < total:
                self.move_on(self.forwards, window, forward_s)
            if back < total:
                self.move_on(self.gradients, back, backward_s)
            self.wrap(window, wave - order.turned)
            window, back = window + 1, back - 1


class _SideBySide(_Waves):
    """On lanes: a pair is done when its fullest lane is, or an input and its chain. A backward alone runs what needs no
    gradient while it waits for it."""

    def __init__(self, costs: ChunkCosts, lanes: LaneCosts, order: Program) -> None:
        super().__init__(costs.p2p_s, order)
        self.forward, self.backward = (lanes.forward.alone_s, order.forward), (lanes.backward.alone_s, order.backward)
        self.pair = ((lanes.pair_s(*order.paired), order.pair), self.forward, self.backward)
        self.alone = ((lanes.gradient_s, order.backward), (lanes.backward_compute_s, order.backward))

    def run(self) -> None:
        """Leads; then the last ranks do pairs, those before them the rest of the lead, or their backwards; and these."""
        order, first, last = self.order, self.order.turned - self.pp + 1, self.total + self.pp - 1
        for wave, (forward_s,) in enumerate(order.laid_out(0, min(first, last), self.forward)):
            self.move_on(self.forwards, wave - self.pp + 1, forward_s)
            self.wrap(wave - self.pp + 1, -1)
        self._turns(first, last)
        alone = max(first, last)
        for wave, (gradient_s, compute_s) in enumerate(order.laid_out(alone, order.waves, *self.alone), alone):
            self._go_back(order.waves - self.pp - wave, gradient_s, compute_s)
            self.wrap(self.total, wave - order.turned)

    def _turns(self, first: int, last: int) -> None:
        order, pp, total = self.order, self.pp, self.total
        window, back = first - pp + 1, order.waves - pp - first
        for wave, (*own_s, gradient_s, compute_s) in enumerate(
            order.laid_out(first, last, *self.pair, *self.alone), first
        ):
            if wave in order.round_waves:
                self.mark()
            pairs = min(pp, total - window, total - back)
            self._pair(pairs, self.forwards[window : window + pairs], self.gradients[back : back + pairs], own_s)
            if pairs < pp and total - window > pairs:
                self.move_on(self.forwards, window, own_s[1], least=pairs)
            elif pairs < pp and total - back > pairs:
                self._go_back(back, gradient_s, compute_s, least=pairs)
            self.wrap(window, wave - order.turned)
            window, back = window + 1, back - 1

    def _pair(self, pairs: int, forwards: F64, gradients: F64, seconds: list[F64]) -> None:
        clock, hop_s, (pair_s, forward_s, backward_s) = self.clock, self.hop_s, seconds
        if pairs < self.pp:
            clock, hop_s, pair_s = clock[:pairs], hop_s[:pairs], pair_s[:pairs]
            forward_s, backward_s = forward_s[:pairs], backward_s[:pairs]
        np.add(clock, pair_s, clock)
        np.add(forwards, forward_s, forwards)
        np.maximum(forwards, clock, out=forwards)
        np.add(gradients, backward_s, gradients)
        np.maximum(gradients, clock, out=gradients)
        np.maximum(forwards, gradients, out=clock)
        if self.sends:
            np.add(forwards, hop_s, forwards)
            np.add(gradients, hop_s, gradients)

    def _go_back(self, window: int, gradient_s: F64, compute_s: F64, least: int = 0) -> None:
        """Backwards alone of the ranks from `least` on."""
        low, high = max(least, -window), min(self.pp, self.total - window)
        clock, arrives = self.clock[low:high], self.gradients[window + low : window + high]
        np.maximum(clock, arrives, out=clock)  # the gradient is there, and the rank free
        np.add(clock, gradient_s[low:high], arrives)
        np.add(clock, compute_s[low:high], clock)
        np.maximum(clock, arrives, out=clock)
        if self.sends:
            np.add(arrives, self.hop_s[low:high], arrives)

"""Interleaved 1F1B worked through in waves, exact on whole stages: in a wave every rank does one turn of its own order.

Rank r leads with C + 2(p-1-r) forwards, C = (v-1)G + extra, then takes turns of a forward and a backward. In wave t it does its
forward t - r, then its backward t - D + r, D = C + 2p - 2: what these wait for was made in the wave before, by a neighbour, or
earlier, so that all ranks go at once. It takes groups of at least p micro-batches.

Orders of any ranks, chunks, micro-batches and groups go together, so that their backwards begin in one wave. What a rank does
not do, or is not there to do, costs minus infinity: nothing waits for it.

Axes: N strategies, P ranks, V chunks a rank, T waves, O forwards (or backwards) of a rank. Ranks are counted from the last to
the first: the forwards of a wave are then a window of the order, and its backwards a window of the order from the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cost_models.records import record
from cost_models.schedules.facts import F64, I64, Bool, PipelineCosts

ROUNDS = 4  # groups of micro-batches that are worked through; the others pass at the pace of the last
LAID_OUT = 1 << 16  # costs put in the order of the waves at a time: all of a few strategies, a few waves of many


@record
class Program:
    """What each rank does in each wave. `rows` [T, P] each: of its forward and of its backward, rows of the costs [F, B, none].

    On lanes of five: what a forward takes from its arrival, and from the rank's clock; the same of a backward; and computing
    of a backward alone; of the costs [forward, backward, gradient, compute, pairs, none].
    """

    pp: int
    total: int  # O
    turned: int  # D: wave of the first rank's first backward
    next_chunk: I64  # [O] place of the same micro-batch's next chunk, 0 for none
    round_waves: tuple[int, int]  # in the steady phase, a round apart
    rows: tuple[NDArray[np.int32], ...]
    pairs: tuple[I64, I64]  # stages of the forward and of the backward of each pair that there is

    @property
    def waves(self) -> int:
        return self.turned + self.total


@lru_cache(maxsize=256)
def program(pp: int, chunks: int, micro_batches: int, group: int, extra: int, on_lanes: bool) -> Program:
    """`extra`: forwards beyond Megatron's lead of 2(p-r-1) + (v-1)G."""
    sizes = [min(group, micro_batches - at) for at in range(0, micro_batches, group)]
    chunk_at = np.concatenate([np.repeat(np.arange(chunks), size) for size in sizes])  # of the forward at each place
    total, per_round = micro_batches * chunks, group * chunks
    later = np.arange(total) + np.repeat(sizes, [size * chunks for size in sizes])
    turned = min((chunks - 1) * group + extra, total) + 2 * pp - 2
    wave, rank = np.arange(turned + total)[:, None], np.arange(pp)[::-1]
    forwards, backwards = wave - rank, wave - turned + rank
    does_forward, does_backward = ((place >= 0) & (place < total) for place in (forwards, backwards))
    forward = chunk_at[np.clip(forwards, 0, total - 1)] * pp + rank
    backward = (chunks - 1 - chunk_at[np.clip(backwards, 0, total - 1)]) * pp + rank
    rows, pairs = (_on_lanes if on_lanes else _one_by_one)(forward, backward, does_forward, does_backward, chunks * pp)
    steady = turned + min(total - min(turned, total), (ROUNDS - 1) * per_round)
    return Program(
        pp=pp, total=total, turned=turned, next_chunk=np.where(chunk_at < chunks - 1, later, 0),
        round_waves=(steady - per_round, steady), rows=tuple(of.astype(np.int32) for of in rows), pairs=pairs,
    )  # fmt: skip


Rows = tuple[tuple[I64, ...], tuple[I64, I64]]


def _one_by_one(forward: I64, backward: I64, does_forward: Bool, does_backward: Bool, stages: int) -> Rows:
    none, empty = 2 * stages, np.arange(0)
    return (np.where(does_forward, forward, none), np.where(does_backward, stages + backward, none)), (empty, empty)


def _on_lanes(forward: I64, backward: I64, does_forward: Bool, does_backward: Bool, stages: int) -> Rows:
    both, alone = does_forward & does_backward, does_backward & ~does_forward
    seen = np.zeros(stages * stages, dtype=np.int64)
    seen[(forward * stages + backward)[both]] = 1
    pair = 4 * stages + (np.cumsum(seen) - 1)[forward * stages + backward]
    pairs = np.flatnonzero(seen)
    none = 4 * stages + len(pairs)
    rows = (
        np.where(does_forward, forward, none),
        np.where(both, pair, np.where(does_forward, forward, none)),
        np.where(both, stages + backward, np.where(alone, 2 * stages + backward, none)),
        np.where(both, pair, np.where(alone, 2 * stages + backward, none)),
        np.where(alone, 3 * stages + backward, none),
    )
    return rows, (pairs // stages, pairs % stages)


@record
class Block:
    """Strategies of one order, and its costs [rows, N]."""

    order: Program
    costs: F64
    hop_s: F64


def block(order: Program, c: PipelineCosts, at: I64) -> Block:
    """The strategies at `at`. With lanes forwards and backwards of a turn run side by side."""
    lanes = c.lanes
    if lanes is None:
        parts = [c.forward_s, c.input_s + c.weight_s]
    else:
        parts = [lanes.forward.alone_s, lanes.backward.alone_s, lanes.gradient_s, lanes.backward_compute_s]
        parts.append(lanes.pair_s(*order.pairs))
    costs = np.concatenate([*parts, np.full((1, len(c.p2p_s)), -np.inf)])
    every = len(at) == len(c.p2p_s)
    return Block(order=order, costs=costs if every else costs[:, at], hop_s=c.p2p_s[at])


def worked_through(blocks: Sequence[Block], on_lanes: bool) -> list[tuple[F64, F64]]:
    """Of each block the seconds, and those of a round in the steady phase at the first rank where there are `ROUNDS`, [N]."""
    waves = (_SideBySide if on_lanes else _OneByOne)(blocks)
    waves.run()
    end_s = waves.clock.max(axis=0)
    return [(end_s[columns], waves.round_s[columns]) for columns in waves.columns]


class _Waves:
    """`forwards`, `gradients`: when the input of a place of the order reaches the rank that needs it next; gradients from the
    end of the order. Rows beyond the order are nobody's; the last takes what goes nowhere."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.pp = pp = max(block.order.pp for block in blocks)
        self.blocks = blocks
        edges = np.cumsum([0, *(len(block.hop_s) for block in blocks)]).tolist()
        self.columns = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        self.turned, self.total = (max(getattr(block.order, name) for block in blocks) for name in ("turned", "total"))
        self.waves = self.turned + self.total
        self.shifts = [self.turned - block.order.turned for block in blocks]
        self.led = pp - 1 + max(s + block.order.total for s, block in zip(self.shifts, blocks, strict=True))
        self.clock, self.round_s = np.zeros((pp, edges[-1])), np.zeros(edges[-1])
        self.hop_s = np.tile(np.concatenate([block.hop_s for block in blocks]), (pp, 1))  # adds faster than a row
        self.sends = bool(self.hop_s.any())
        self.forwards = np.zeros((self.led + pp, edges[-1]))
        self.gradients = np.zeros((self.total + 2 * pp - 1, edges[-1]))
        self.flat = self.forwards.reshape(-1), self.gradients.reshape(-1)
        ends = np.repeat([pp - block.order.pp for block in blocks], np.diff(edges))  # the last rank, of a window
        self.last_rank = ends * edges[-1] + np.arange(edges[-1])
        self.marks: dict[int, list[slice]] = {}
        self.wraps = self._wraps()
        self.wrapped = [
            (rows < places.size - edges[-1]).any(axis=1).tolist()
            for rows, places in zip(self.wraps, self.flat, strict=True)
        ]

    def _wraps(self) -> tuple[I64, I64]:
        """Places laid flat, [T, N]: where the last rank's forward of a wave goes, a chunk later on the first rank; and, from the
        first backward on, which of the first rank's the last one's next comes from, a chunk later. (It is fetched when it is
        needed: ranks that are not there pass over its place before.)"""
        count, pp = self.clock.shape[1], self.pp
        forwards = np.full((self.led, count), len(self.forwards) - 1)
        gradients = np.full((self.total + pp, count), len(self.gradients) - 1)
        for block, shift, columns in zip(self.blocks, self.shifts, self.columns, strict=True):
            order, later = block.order, block.order.next_chunk
            first = shift + order.pp - 1
            places = slice(first, first + order.total)
            forwards[places, columns] = np.where(later, later + shift + pp - 1, len(self.forwards) - 1)[:, None]
            made = np.flatnonzero(later)
            gradients[pp - order.pp + later[made], columns] = (self.total + pp - 2 - made)[:, None]
            for wave in order.round_waves:
                self.marks.setdefault(wave + shift, []).append(columns)
        return forwards * count + np.arange(count), gradients * count + np.arange(count)

    def mark(self, wave: int) -> None:
        for columns in self.marks[wave]:
            self.round_s[columns] = self.clock[-1, columns] - self.round_s[columns]

    def forward_window(self, wave: int) -> F64:
        return self.forwards[wave : wave + self.pp]

    def gradient_window(self, wave: int) -> F64:
        back = self.waves - 1 - wave
        return self.gradients[back : back + self.pp]

    def wrap_forwards(self, wave: int) -> None:
        if self.wrapped[0][wave]:
            self.flat[0][self.wraps[0][wave]] = self.flat[0].take(self.last_rank + wave * self.clock.shape[1])

    def wrap_gradients(self, wave: int) -> None:
        turn = wave - self.turned + self.pp
        if self.wrapped[1][turn]:
            next_place = self.last_rank + (self.waves - 2 - wave) * self.clock.shape[1]
            self.flat[1][next_place] = self.flat[1].take(self.wraps[1][turn])

    def laid_out(self, first: int, last: int, *rows: int) -> Iterator[tuple[F64, ...]]:
        """Of each wave, costs of its ranks, [P, N] each."""
        step = max(1, LAID_OUT // self.clock.size)
        for at in range(first, last, step):
            yield from zip(*(self._costs(at, min(at + step, last), of) for of in rows), strict=True)

    def _costs(self, first: int, last: int, of: int) -> F64:
        if len(self.blocks) == 1:
            return self.blocks[0].costs.take(self.blocks[0].order.rows[of][first:last], axis=0)
        out = np.full((last - first, *self.clock.shape), -np.inf)
        for block, shift, columns in zip(self.blocks, self.shifts, self.columns, strict=True):
            low, high = max(first, shift), min(last, shift + block.order.waves)
            if low < high:
                rows = block.order.rows[of][low - shift : high - shift]
                out[low - first : high - first, self.pp - block.order.pp :, columns] = block.costs.take(rows, axis=0)
        return out

    def do_forwards(self, wave: int, seconds: F64) -> None:
        window = self.forward_window(wave)
        self._move_on(window, seconds)
        self.wrap_forwards(wave)

    def do_backwards(self, wave: int, seconds: F64) -> None:
        window = self.gradient_window(wave)
        self._move_on(window, seconds)
        self.wrap_gradients(wave)

    def _move_on(self, arrives: F64, seconds: F64) -> None:
        """An operation of each rank that has one, from the arrival of its input to that of its output."""
        clock = self.clock
        np.maximum(arrives, clock, out=arrives)
        np.add(arrives, seconds, arrives)
        np.maximum(clock, arrives, out=clock)
        if self.sends:
            np.add(arrives, self.hop_s, arrives)


class _OneByOne(_Waves):
    """A turn is its forward, then its backward."""

    def run(self) -> None:
        lead = min(self.turned - self.pp + 1, self.led)
        for wave, (seconds,) in enumerate(self.laid_out(0, lead, 0)):
            self.do_forwards(wave, seconds)
        for wave, (forward_s, backward_s) in enumerate(self.laid_out(lead, self.led, 0, 1), lead):
            if wave in self.marks:
                self.mark(wave)
            self.do_forwards(wave, forward_s)
            self.do_backwards(wave, backward_s)
        for wave, (seconds,) in enumerate(self.laid_out(self.led, self.waves, 1), self.led):
            self.do_backwards(wave, seconds)


class _SideBySide(_Waves):
    """On lanes: a pair is done when its fullest lane is, or an input and its chain. A backward alone runs what needs no
    gradient while it waits for it."""

    def run(self) -> None:
        first = min(self.turned - self.pp + 1, self.led)
        alone = max(first, min(s + block.order.total for s, block in zip(self.shifts, self.blocks, strict=True)))
        pairs = min(max(first, self.turned), alone)
        for wave, (forward_s,) in enumerate(self.laid_out(0, first, 0)):
            self.do_forwards(wave, forward_s)
        for wave, seconds in enumerate(self.laid_out(first, pairs, 0, 1, 2, 3), first):
            self._turn(wave, seconds)
        for wave, seconds in enumerate(self.laid_out(pairs, alone, 0, 1, 2), pairs):
            if wave in self.marks:
                self.mark(wave)
            self._pairs(wave, *seconds)
        for wave, seconds in enumerate(self.laid_out(alone, self.led, 0, 1, 2, 3, 4), alone):
            if wave in self.marks:
                self.mark(wave)
            self._turn(wave, seconds)
        for wave, (gradient_s, compute_s) in enumerate(self.laid_out(self.led, self.waves, 3, 4), self.led):
            self._alone(wave, gradient_s, compute_s)

    def _pairs(self, wave: int, forward_s: F64, pair_s: F64, backward_s: F64) -> None:
        """On every rank."""
        forwards, gradients, clock = self.forward_window(wave), self.gradient_window(wave), self.clock
        np.add(clock, pair_s, clock)
        np.add(forwards, forward_s, forwards)
        np.maximum(forwards, clock, out=forwards)
        np.add(gradients, backward_s, gradients)
        np.maximum(gradients, clock, out=gradients)
        np.maximum(forwards, gradients, out=clock)
        self._hand_on(wave, forwards, gradients)

    def _turn(self, wave: int, seconds: tuple[F64, ...]) -> None:
        """A fifth, computing, where backwards alone are among the turns."""
        forward_s, led_s, backward_s, turned_s, *compute_s = seconds
        forwards, gradients, clock = self.forward_window(wave), self.gradient_window(wave), self.clock
        alone = [np.maximum(clock, gradients) + part for part in compute_s]
        np.add(forwards, forward_s, forwards)
        np.maximum(forwards, clock + led_s, out=forwards)
        np.add(gradients, backward_s, gradients)
        np.maximum(gradients, clock + turned_s, out=gradients)
        np.maximum(clock, forwards, out=clock)
        np.maximum(clock, gradients, out=clock)
        for end in alone:
            np.maximum(clock, end, out=clock)
        self._hand_on(wave, forwards, gradients)

    def _hand_on(self, wave: int, forwards: F64, gradients: F64) -> None:
        if self.sends:
            np.add(forwards, self.hop_s, forwards)
            np.add(gradients, self.hop_s, gradients)
        self.wrap_forwards(wave)
        self.wrap_gradients(wave)

    def _alone(self, wave: int, gradient_s: F64, compute_s: F64) -> None:
        gradients, clock = self.gradient_window(wave), self.clock
        np.maximum(gradients, clock, out=gradients)  # the gradient is there, and the rank free
        np.maximum(clock, gradients + compute_s, out=clock)
        np.add(gradients, gradient_s, gradients)
        np.maximum(clock, gradients, out=clock)
        if self.sends:
            np.add(gradients, self.hop_s, gradients)
        self.wrap_gradients(wave)

"""Closed form of interleaved 1F1B with uneven chunks: warm-up, groups of G turns, cool-down, each a scan over ranks.

All ranks run the same chunk at about the same time, so a group lasts as long as its slowest rank, less what a path loses
by changing ranks. The state is x[r]: when rank r starts a group; a group adds its work; scans carry paths up and down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
PLAIN_GROUPS = 3  # after these whole rounds of groups the rest repeats the last round


def interleaved_s(
    forward_s: F64, backward_s: F64, gradient_s: F64, p2p_s: F64, *, pp: int, micro_batches: int, group: int, extra: int
) -> F64:
    """Seconds [N]; costs [S, N], `gradient_s` the part of the backward after which the gradient leaves.

    `extra`: warm-up chunks beyond Megatron's 2(p-r-1) + (v-1)G.
    """
    chunks = len(forward_s) // pp
    forward, backward = forward_s.reshape(chunks, pp, -1), backward_s.reshape(chunks, pp, -1)
    gradient = gradient_s.reshape(chunks, pp, -1)
    sizes = [min(group, micro_batches - at) for at in range(0, micro_batches, group)]
    total = micro_batches * chunks
    ahead = np.minimum(2 * (pp - 1 - np.arange(pp)) + extra, total - (chunks - 1) * sizes[0])
    _, started = _one_way(forward, forward, p2p_s, sizes[0], 1 + ahead)
    x = _scan_up(started, gradient[-1] + p2p_s)
    rounds = _Rounds(forward, backward, gradient, p2p_s, sizes, ahead, total)
    x = rounds.run(x)
    finish, _ = _one_way(backward, gradient, p2p_s, sizes[-1], np.ones(pp))
    return np.asarray((x + finish).max(axis=0))


def _one_way(cost: F64, handed_on: F64, hop: F64, group: int, last_jobs: NDArray) -> tuple[F64, F64]:
    """A phase with one direction only, [P, N] each: when the first job of the last chunk reaches a rank, and when the
    rank has done `last_jobs` of it. Groups of `group` equal jobs pass chunk after chunk, as a flow shop.
    """
    ranks, count = cost.shape[1:]
    free = np.zeros((ranks, count))
    first, last = np.zeros(count), np.full(count, -np.inf)
    for chunk in range(len(cost)):
        step = handed_on[chunk] + hop
        start = free.copy()
        start[0] = np.maximum(start[0], first)
        front = _scan_down(start, step)
        if chunk == len(cost) - 1:
            return front, front + last_jobs[:, None] * cost[chunk]
        own = front + group * cost[chunk]
        own[0] = np.maximum(own[0], last + hop + cost[chunk][0])
        free = _scan_down(own, cost[chunk][1:] + hop)  # the last job of rank r ends after that of r-1
        first, last = front[-1] + step[-1], free[-1]
    raise ValueError("interleaved: at least one chunk")


def _scan_down(x: F64, step: F64) -> F64:
    """y[r] = max over s <= r of x[s] + step[s] + ... + step[r-1]; a loop over rows beats accumulate along axis 0."""
    y = np.empty_like(x)
    y[0] = x[0]
    for r in range(1, len(x)):
        np.add(y[r - 1], step[r - 1], out=y[r])
        np.maximum(y[r], x[r], out=y[r])
    return y


def _scan_up(x: F64, step: F64) -> F64:
    """y[r] = max over s >= r of x[s] + step[r+1] + ... + step[s]."""
    y = np.empty_like(x)
    y[-1] = x[-1]
    for r in range(len(x) - 2, -1, -1):
        np.add(y[r + 1], step[r + 1], out=y[r])
        np.maximum(y[r], x[r], out=y[r])
    return y


class _Rounds:
    """The phase of turns (one backward, one forward), group by group of backwards."""

    def __init__(
        self, forward: F64, backward: F64, gradient: F64, hop: F64, sizes: list[int], ahead: NDArray, total: int
    ) -> None:
        self.forward, self.backward, self.gradient, self.hop = forward, backward, gradient, hop
        self.chunks = len(forward)
        self.ahead, self.total = ahead, total
        self.starts = np.cumsum([0] + [size for size in sizes for _ in range(self.chunks)])
        self.sizes = sizes
        self.turns = total - (self.chunks - 1) * sizes[-1]
        self.first_forward = (self.chunks - 1) * sizes[0] + ahead + 1  # index of the forward after backward 0

    def run(self, x: F64) -> F64:
        done = 0
        at_round: list[F64] = []
        for number, size in enumerate(self.sizes):
            skipped = self._repeats(number, at_round)
            if skipped:
                x = x + skipped * (at_round[-1] - at_round[-2])
                return self._tail(x, number + skipped)
            for chunk in range(self.chunks):
                turns = min(size, self.turns - done)
                if turns > 0:
                    x = self._group(x, self.chunks - 1 - chunk, done, turns)
                done += size
            at_round.append(x)
        return x

    def _repeats(self, number: int, at_round: list[F64]) -> int:
        """Whole rounds from `number` on that are like the last one; the last two groups are always worked out."""
        if number < PLAIN_GROUPS or len(set(self.sizes[:-1])) > 1:
            return 0
        return max(0, len(self.sizes) - 3 - number)

    def _tail(self, x: F64, number: int) -> F64:
        done = number * self.sizes[0] * self.chunks
        for size in self.sizes[number:]:
            for chunk in range(self.chunks):
                turns = min(size, self.turns - done)
                if turns > 0:
                    x = self._group(x, self.chunks - 1 - chunk, done, turns)
                done += size
        return x

    def _group(self, x: F64, chunk: int, done: int, turns: int) -> F64:
        """`turns` backwards of `chunk` with the forwards between them; a hop down loses two turns, one up the
        gradient's way. Finer parts than a group let paths hop too often: they overestimate (tried: 2, 3, 4 parts).
        """
        backward = self.backward[chunk]
        work = turns * backward + self._forwards(done, turns)
        turn = work / turns
        lose = turn[:-1] + self.hop - backward[1:] - 2 * turn[1:]
        x = _scan_down(x, lose)
        return _scan_up(x, self.gradient[chunk] + self.hop) + work

    def _forwards(self, done: int, turns: int) -> F64:
        """Seconds of the forwards that go with backwards done .. done+turns-1, [P, N]."""
        low = np.minimum(self.first_forward + done, self.total)
        high = np.minimum(low + turns, self.total)
        seconds = np.zeros_like(self.forward[0])
        first = max(0, int(np.searchsorted(self.starts, low.min(), side="right")) - 1)
        for at in range(first, len(self.starts) - 1):
            if self.starts[at] >= high.max():
                break
            count = np.clip(np.minimum(high, self.starts[at + 1]) - np.maximum(low, self.starts[at]), 0, None)
            seconds += count[:, None] * self.forward[at % self.chunks]
        return seconds

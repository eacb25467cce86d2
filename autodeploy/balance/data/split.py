"""Long samples split over context-parallel ranks, each sample over as many as it needs (hybrid, dynamic CP).

A sample of c parts takes c neighbouring data-parallel ranks at one micro-batch; each holds 1/c of its tokens and, cut
zigzag, 1/c of its attention, and passes keys and values round the ring. Which ranks: blocks of c, aligned, as process
groups are made. Megatron-LM's hybrid context parallel takes c among the powers of two (arguments
``--hybrid-context-parallel``); here any c that divides the ranks, so give ranks that are a power of two for it.
Axes: N samples, R ranks, G expert-parallel groups of E ranks, J micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autodeploy.balance.data.cost import SampleCost

ROOMY_FRACS = (
    0.75,
    0.5,
    0.25,
    0.1,
    0.05,
)  # of a mean rank's work: longer samples are split until their parts are not, or ranks
# run out; every batch keeps the fraction that gives the shortest step


class _Shape(Protocol):
    @property
    def ranks(self) -> int: ...
    @property
    def most_parts(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """How samples are split; arrays [N]."""

    count: np.ndarray  # int64, 1: not split
    piece_s: np.ndarray  # seconds of one part on its rank
    piece_tokens: np.ndarray  # int64, rounded up


def piece_seconds(cost: SampleCost, tokens: np.ndarray, squares: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Seconds of one part [N]: a c-th of the linear and the attention work, the launch, and the ring of keys and values.

    The ring passes every part's keys and values by all other ranks of the sample: tokens x (c - 1) / c on each.
    """
    work = cost.alpha_s_per_token * tokens + cost.beta_s_per_token2 * squares
    ring = cost.ring_s_per_token * tokens * (parts - 1) / parts
    return work / parts + ring + cost.gamma_s


def choose_parts(
    cost: SampleCost, tokens: np.ndarray, squares: np.ndarray, shape: _Shape, limit_tokens: int, light_frac: float
) -> Parts:
    """The least number of parts that makes each sample's part light beside a mean rank's work and fit its rank.

    More parts stop paying where the ring costs more than the split saves: none is taken that lengthens the part.
    """
    sizes = [c for c in range(1, min(shape.most_parts, shape.ranks) + 1) if shape.ranks % c == 0]
    whole_s = cost.seconds(tokens, squares)
    light_s = light_frac * whole_s.sum() / shape.ranks
    count = np.ones(tokens.size, dtype=np.int64)
    piece_s = whole_s.copy()
    for c in sizes[1:]:
        heavy = (piece_s > light_s) | (-(-tokens // count) > limit_tokens)
        shorter = piece_seconds(cost, tokens, squares, np.full(tokens.size, c))
        taken = heavy & ((shorter < piece_s) | (-(-tokens // count) > limit_tokens))
        count[taken], piece_s[taken] = c, shorter[taken]
    return Parts(count=count, piece_s=piece_s, piece_tokens=-(-tokens // count))


@dataclass(slots=True)
class Filled:
    """What split samples have taken of a batch: seconds and tokens by slot [R, J]; who lies where."""

    slot_s: np.ndarray
    slot_tokens: np.ndarray
    placed: list[tuple[int, int, int]]  # (sample, first rank, micro-batch)


def place_parts(parts: Parts, ranks: int, ep_ranks: int, micro_batches: int, limit_tokens: int) -> Filled | None:
    """Split samples to blocks of ranks and micro-batches, widest and longest first; None where one finds no room.

    Each goes where the block's ranks, with the groups they belong to, have least to do, at the micro-batch that adds
    least: rows of a group fill before new ones open, and blocks wider than a group meet early, where clocks agree.
    """
    filled = Filled(np.zeros((ranks, micro_batches)), np.zeros((ranks, micro_batches), dtype=np.int64), [])
    split = np.flatnonzero(parts.count > 1)
    for sample in split[np.lexsort((-parts.piece_s[split], -parts.count[split]))].tolist():
        c, need, seconds = int(parts.count[sample]), int(parts.piece_tokens[sample]), parts.piece_s[sample]
        row_s = filled.slot_s.reshape(-1, ep_ranks, micro_batches).max(axis=1)  # [G, J]
        block_s = filled.slot_s.reshape(-1, c, micro_batches).max(axis=1)  # [R / c, J]
        fits = filled.slot_tokens.reshape(-1, c, micro_batches).max(axis=1) + need <= limit_tokens
        per_rank = np.repeat(row_s, ep_ranks, axis=0)  # [R, J]
        grown = np.maximum(per_rank.reshape(-1, c, micro_batches), (block_s + seconds)[:, None])
        growth = (grown - per_rank.reshape(-1, c, micro_batches)).max(axis=1)
        total = per_rank.sum(axis=1).reshape(-1, c).max(axis=1)[:, None] + growth
        total = np.where(fits, total, np.inf)
        block, micro_batch = np.unravel_index(int(total.argmin()), total.shape)
        if total[block, micro_batch] == np.inf:
            return None
        span = slice(int(block) * c, (int(block) + 1) * c)
        filled.slot_s[span, micro_batch] += seconds
        filled.slot_tokens[span, micro_batch] += need
        filled.placed.append((sample, int(block) * c, int(micro_batch)))
    return filled


def clocked_s(order: np.ndarray, piece_s: np.ndarray, count: np.ndarray, ep_ranks: int) -> np.ndarray:
    """Seconds [B] until the slowest group ends, groups that share a sample waiting for each other before it.

    ``order`` [B, R, J, K]; ``piece_s`` and ``count`` [N].
    """
    slot_s = np.append(piece_s, 0.0)[order].sum(axis=3)  # [B, R, J]
    widest = np.append(count, 1)[order]  # [B, R, J, K]
    batches, ranks, micro_batches = slot_s.shape
    clock = np.zeros((batches, ranks))
    wide = [int(c) for c in np.unique(count) if c > ep_ranks]
    for j in range(micro_batches):
        for c in wide:
            blocks = clock.reshape(batches, -1, c)
            shared = (widest[:, :, j] == c).any(axis=2).reshape(batches, -1, c).any(axis=2)
            clock = np.where(shared[:, :, None], blocks.max(axis=2, keepdims=True), blocks).reshape(batches, ranks)
        rows = (clock + slot_s[:, :, j]).reshape(batches, -1, ep_ranks)
        clock = np.repeat(rows.max(axis=2), ep_ranks, axis=1)
    return clock.max(axis=1)

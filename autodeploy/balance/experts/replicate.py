"""How many copies each expert gets."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.placement import F64, I64, Bool


def replicate(loads: F64, slots: int, most_copies: int, offset: float = 0.0) -> I64:
    """Copies of each expert [L, E], each row summing to ``slots``, for loads [L, E].

    Every expert has one; each further copy goes to the largest load / (copies + offset): a divisor method of
    apportionment (Balinski & Young, Fair Representation, 1982). Offset 0 (Adams) makes the largest share of a copy
    smallest, as in EPLB; other offsets trade it against the spread of the shares, which matters where few slots share
    a card. No expert passes ``most_copies`` (the cards) while another is below it: more would repeat it on a card.
    """
    layers, experts = loads.shape
    row = np.arange(layers)
    weights = loads + 1e-9 * (loads.mean(axis=1, keepdims=True) + 1e-9)  # idle experts too, evenly
    copies = np.ones((layers, experts), dtype=np.int64)
    urgency = weights / (copies + offset)
    for _ in range(slots - experts):
        neediest = urgency.argmax(axis=1)
        count = copies[row, neediest] + 1
        copies[row, neediest] = count
        penalty = np.where(count >= most_copies, 1e-30, 1.0)  # last resort
        urgency[row, neediest] = weights[row, neediest] / (count + offset) * penalty
    return copies


def replicate_below(loads: F64, slots: int, cards: int, share_frac: float) -> tuple[I64, Bool]:
    """Copies [L, E] that keep every share below ``share_frac`` of the mean card's load, and where that is possible [L].

    Copies left over go to the lightest experts, one each and round again: a card beside a heavy share wants slots
    that carry next to nothing.
    """
    mean = loads.sum(axis=1, keepdims=True) / cards
    wanted = np.ceil(loads / np.where(mean > 0, mean * share_frac, 1.0) - 1e-9)
    copies = np.clip(wanted, 1, cards).astype(np.int64)
    left = slots - copies.sum(axis=1)
    possible = left >= 0
    rank = np.argsort(np.argsort(loads, axis=1, kind="stable"), axis=1, kind="stable")
    while (possible & (left > 0)).any():
        more = (rank < left[:, None]) & (copies < cards)
        if not more.any():
            return copies, possible & (left == 0)
        copies += more
        left -= more.sum(axis=1)
    return copies, possible & (left == 0)


def expand(copies: I64, slots: int) -> I64:
    """Expert ids [L, slots], each repeated by its copies [L, E]."""
    layers, experts = copies.shape
    ids = np.tile(np.arange(experts), layers)
    return np.repeat(ids, copies.ravel()).reshape(layers, slots)

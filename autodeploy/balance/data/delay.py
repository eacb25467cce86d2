"""Outliers that wait: the longest samples are held back until enough are there to fill a batch alike, or time is up.

A batch lasts as long as its costliest sample; outliers that arrive one a batch make every batch long, the same outliers
together make one. The price is a changed order of the data, said in ``Delay``. Idea: WLB-LLM (Wang et al. 2025,
arXiv 2503.17924), which queues outlier documents; the rule here is our own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The new order of samples [N] and what it does to the training data."""

    order: np.ndarray  # sample ids, batch after batch
    most_batches: int  # the longest any sample waited
    delayed: int  # samples that left the batch they arrived in for a later one
    delayed_tokens_frac: float  # of all tokens
    mean_batches: float  # waited, over the delayed

    def bias(self) -> str:
        """What to know before using it."""
        return (
            f"{self.delayed} samples with {self.delayed_tokens_frac:.1%} of the tokens are seen {self.mean_batches:.1f} "
            f"batches later on average, {self.most_batches} at most: long samples gather in some batches and are "
            "missing from others, so a batch is no longer a random draw, though every sample is used once"
        )


def delay_outliers(cost_s: np.ndarray, tokens: np.ndarray, slots: int, ranks: int, most_batches: int) -> Delay:
    """Batches of ``slots`` samples; outliers (costlier than a mean rank's work) wait up to ``most_batches``.

    The queue is let go when it has one outlier for every rank, or when its oldest has waited long enough; the places
    of those who wait are taken by the samples that come next.
    """
    outlier = cost_s > slots / ranks * cost_s.mean()
    order: list[int] = []
    queue: list[tuple[int, int]] = []  # (sample, batch it would have been in)
    waited = np.zeros(cost_s.size, dtype=np.int64)
    stream = iter(range(cost_s.size))
    left, batch = cost_s.size, 0
    while left or queue:
        own: list[int] = []
        due = bool(queue) and (batch - queue[0][1] >= most_batches or len(queue) >= ranks or not left)
        if due:
            taken, queue = queue[:slots], queue[slots:]
            own = [sample for sample, _ in taken]
            for sample, born in taken:
                waited[sample] = batch - born
        while left and len(own) < slots:
            sample = next(stream)
            left -= 1
            if outlier[sample] and not due and most_batches:
                queue.append((sample, batch))
            else:
                own.append(sample)
        order += sorted(own)
        batch += 1 if own else 0
        if not own and not left and not queue:
            break
    late = waited > 0
    return Delay(
        order=np.array(order, dtype=np.int64),
        most_batches=int(waited.max(initial=0)),
        delayed=int(late.sum()),
        delayed_tokens_frac=float(tokens[late].sum() / max(tokens.sum(), 1)),
        mean_batches=float(waited[late].mean()) if late.any() else 0.0,
    )

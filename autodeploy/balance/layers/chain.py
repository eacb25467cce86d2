"""One chunk a rank (VPP 1): exact dynamic programming over the cut points, options and memory included."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.layers.problem import LayerProblem, Placement


def balance_chain(problem: LayerProblem) -> Placement | None:
    """The placement with the least largest stage, then the least sum of squares; None where nothing fits.

    f[s][i] = min over j <= i of max(f[s-1][j], cost(s, j, i)), cost that of items j .. i-1 on stage s.
    """
    seconds, option = _segment_costs(problem)  # [S, I + 1, I + 1]
    stages, points, _ = seconds.shape
    best = np.full(points, np.inf)
    best[0] = -np.inf
    for s in range(stages):
        best = np.maximum(best[:, None], seconds[s]).min(axis=0)
    limit = best[-1]
    if not np.isfinite(limit):
        return None
    squares = np.where(seconds <= limit * (1 + 1e-12), seconds**2, np.inf)
    total, previous = np.full(points, np.inf), []
    total[0] = 0.0
    for s in range(stages):
        candidates = total[:, None] + squares[s]
        previous.append(candidates.argmin(axis=0))
        total = candidates.min(axis=0)
    cuts = [points - 1]
    for s in reversed(range(stages)):
        cuts.append(int(previous[s][cuts[-1]]))
    cuts.reverse()
    return _placement(problem, cuts, option)


def _segment_costs(problem: LayerProblem) -> tuple[np.ndarray, np.ndarray]:
    """Seconds [S, I + 1, I + 1] of items j .. i-1 on stage s under its fastest option that fits, and that option.

    Infinite where i < j, where nothing fits, or where a rule of the layout is broken.
    """
    items, stages = problem.items, problem.stages
    count = len(items.kinds)

    def between(per_item: np.ndarray) -> np.ndarray:
        prefix = np.concatenate([[0.0], np.cumsum(per_item)])
        return prefix[None, :] - prefix[:, None]

    seconds = np.stack([between(row) for row in items.seconds])[:, None]  # [O, 1, I + 1, I + 1]
    activation = np.stack([between(row) for row in items.activation_bytes])[:, None]
    held = np.array([problem.in_flight.rows[s].max() for s in range(stages)])[None, :, None, None]
    static = between(items.static_bytes) + items.mtp_apart_bytes * _mtp_without_head(problem)
    fits = static + activation * held <= problem.memory_cap_bytes[None, :, None, None]
    seconds = np.where(fits, seconds, np.inf)  # [O, S, I + 1, I + 1]
    option = seconds.argmin(axis=0)
    best = seconds.min(axis=0)
    start, stop = np.ogrid[: count + 1, : count + 1]
    best[:, np.broadcast_to(stop < start, best.shape[1:])] = np.inf
    best[0, :, 0] = np.inf  # the embedding on the first stage
    best[-1, count, :] = np.inf  # the head on the last
    _forbid_mtp(problem, best, start, stop)
    return best, option


def _mtp_without_head(problem: LayerProblem) -> np.ndarray:
    """1.0 where items j .. i-1 hold the MTP modules but not the head, [I + 1, I + 1]."""
    count, mtp = len(problem.items.kinds), problem.items.mtp
    start, stop = np.ogrid[: count + 1, : count + 1]
    return ((start < mtp.stop) & (stop > mtp.start) & (stop < count)).astype(float) * bool(problem.items.mtp_modules)


def _forbid_mtp(problem: LayerProblem, best: np.ndarray, start: np.ndarray, stop: np.ndarray) -> None:
    """All MTP modules in one stage, not the first, and with the head where they may not sit apart."""
    mtp = problem.items.mtp
    if not problem.items.mtp_modules:
        return
    for inside in range(mtp.start + 1, mtp.stop):
        best[:, inside, :] = best[:, :, inside] = np.inf
    if problem.pp > 1:
        best[0][np.broadcast_to((start <= mtp.start) & (stop >= mtp.stop), best.shape[1:])] = np.inf
    if not problem.mtp_apart:
        best[:, mtp.stop, :] = best[:, :, mtp.stop] = np.inf


def _placement(problem: LayerProblem, cuts: list[int], option: np.ndarray) -> Placement:
    decoder, mtp = problem.items.decoder, problem.items.mtp
    counts, options, mtp_stage = [], [], -1
    for s, (start, stop) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
        counts.append(max(0, min(stop, decoder.stop) - max(start, decoder.start)))
        options.append(int(option[s, start, stop]))
        if problem.items.mtp_modules and start <= mtp.start and stop >= mtp.stop:
            mtp_stage = s
    return Placement(counts=tuple(counts), mtp_stage=mtp_stage, options=tuple(options))

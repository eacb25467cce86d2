"""How uneven a step is: the slowest rank's sum, and the step in which expert-parallel groups meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.data.split import clocked_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """Seconds, summed over the global batches. Ratios: 1.0 is perfect."""

    mean_s: float  # all work spread evenly over the ranks
    rank_sum_s: float  # slowest rank's own work: the step if ranks met only at its end
    coupled_s: float  # slowest group's sum over micro-batches of its slowest rank: the step
    costliest_s: float  # costliest sample of each batch; no step is shorter
    bound_s: float  # per batch max(mean, costliest sample)

    @property
    def rank_sum_over_mean(self) -> float:
        return self.rank_sum_s / self.mean_s

    @property
    def coupled_over_mean(self) -> float:
        return self.coupled_s / self.mean_s

    @property
    def coupled_over_bound(self) -> float:
        return self.coupled_s / self.bound_s

    def to_dict(self) -> dict[str, float]:
        return {
            "mean_s": self.mean_s,
            "rank_sum_s": self.rank_sum_s,
            "coupled_s": self.coupled_s,
            "costliest_sample_s": self.costliest_s,
            "bound_s": self.bound_s,
            "rank_sum_over_mean": self.rank_sum_over_mean,
            "coupled_over_mean": self.coupled_over_mean,
            "coupled_over_bound": self.coupled_over_bound,
        }


def measure_imbalance(
    order: np.ndarray, cost_s: np.ndarray, ep_ranks: int, parts: np.ndarray | None = None
) -> Imbalance:
    """Imbalance of ``order`` [B, R, J, K] (sample ids, -1 an empty place) under sample costs [N].

    With ``parts`` [N] a sample stands at as many ranks, ``cost_s`` is that of one part, and groups that share a
    sample wait for each other.
    Ranks ``g * ep_ranks .. (g + 1) * ep_ranks - 1`` are group g: neighbours, as Megatron numbers them.
    """
    place_s = np.append(cost_s, 0.0)[order]  # id -1 reads the appended zero
    slot_s = place_s.sum(axis=3)  # [B, R, J]
    batches, ranks, micro_batches = slot_s.shape
    rank_s = slot_s.sum(axis=2)
    mean = rank_s.mean(axis=1)
    grouped = slot_s.reshape(batches, ranks // ep_ranks, ep_ranks, micro_batches)
    coupled = grouped.max(axis=2).sum(axis=2).max(axis=1)
    if parts is not None and (parts > ep_ranks).any():
        coupled = clocked_s(order, cost_s, parts, ep_ranks)
    costliest = place_s.max(axis=(1, 2, 3))
    return Imbalance(
        mean_s=float(mean.sum()),
        rank_sum_s=float(rank_s.max(axis=1).sum()),
        coupled_s=float(coupled.sum()),
        costliest_s=float(costliest.sum()),
        bound_s=float(np.maximum(mean, costliest).sum()),
    )


def fixed_slot_floor_s(order: np.ndarray, cost_s: np.ndarray, ep_ranks: int) -> float:
    """Seconds that no order of these samples, one a slot, can beat; summed over batches. ``order`` [B, R, J, 1].

    Sorted samples cut into rows of ``ep_ranks`` have the least sum of row maxima (exchange argument), so a
    step is at least (a) that sum over the G groups; (b) for each q: of the q * G + 1 longest rows some group
    has q + 1, and J - q - 1 others, at best the shortest of all.
    """
    batches, ranks, micro_batches, places = order.shape
    if places != 1:
        raise ValueError("fixed_slot_floor_s holds for one sample a micro-batch")
    groups = ranks // ep_ranks
    sorted_s = -np.sort(-np.append(cost_s, 0.0)[order].reshape(batches, -1), axis=1)
    rows = sorted_s.reshape(batches, -1, ep_ranks).max(axis=2)  # [B, G * J], descending
    shortest = np.cumsum(np.pad(rows[:, ::-1], ((0, 0), (1, 0))), axis=1)[:, micro_batches - 1 :: -1]  # J - 1 .. 0 rows
    together = np.arange(1, micro_batches + 1) * rows[:, ::groups] + shortest
    return float(np.maximum(rows.sum(axis=1) / groups, together.max(axis=1)).sum())

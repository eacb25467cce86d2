"""The data order of a plan as samplers: what Megatron-LM's loop and torch's ``DataLoader`` take as ``batch_sampler``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from autodeploy.balance.data.rearrange import DataPlan
from autodeploy.errors import InputError


class BalancedBatchSampler:
    """Yields the sample ids of one rank, micro-batch by micro-batch, from ``consumed_samples`` on.

    The interface of Megatron-LM's ``MegatronPretrainingSampler``: an iterable of lists with a length. A resumed run
    gives the samples consumed so far, which end with a global batch. ``order`` is [B, R, J, K], -1 an empty place
    (``DataPlan.order``, or the ``order`` of ``balance data --format json``). An empty micro-batch yields [].
    """

    def __init__(
        self, order: np.ndarray, data_parallel_rank: int, data_parallel_size: int, consumed_samples: int = 0
    ) -> None:
        order = np.asarray(order, dtype=np.int64)
        if order.ndim != 4:
            raise InputError("order", order.shape, "an array [batches, ranks, micro-batches, places]")
        if order.shape[1] != data_parallel_size:
            raise InputError("data_parallel_size", data_parallel_size, f"{order.shape[1]}, the ranks of the plan")
        if not 0 <= data_parallel_rank < data_parallel_size:
            raise InputError("data_parallel_rank", data_parallel_rank, f"0..{data_parallel_size - 1}")
        ends = np.append(0, np.cumsum((order >= 0).sum(axis=(1, 2, 3))))
        if consumed_samples not in ends:
            near = int(ends[np.searchsorted(ends, consumed_samples, side="right") - 1])
            raise InputError("consumed_samples", consumed_samples, "the end of a global batch", f"use {near}")
        self.order = order
        self.rank = data_parallel_rank
        self.first = int(np.flatnonzero(ends == consumed_samples)[0])
        self.samples_of_batch = np.diff(ends)

    def __len__(self) -> int:
        """Micro-batches left."""
        return (len(self.order) - self.first) * self.order.shape[2]

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.order[self.first :, self.rank]:
            for places in batch:
                yield places[places >= 0].tolist()


def sampler_of(plan: DataPlan, rank: int, consumed_samples: int = 0) -> BalancedBatchSampler:
    """The sampler of one data-parallel rank of a plan."""
    return BalancedBatchSampler(plan.order, rank, plan.shape.ranks, consumed_samples)


def torch_batch_sampler(
    order: np.ndarray, data_parallel_rank: int, data_parallel_size: int, consumed_samples: int = 0
) -> Any:
    """The same as a ``torch.utils.data.Sampler`` of lists, for ``DataLoader(batch_sampler=...)``. Needs torch."""
    try:
        from torch.utils.data import Sampler
    except ImportError as error:
        raise InputError("torch_batch_sampler", "no torch", "torch installed", "use BalancedBatchSampler") from error

    class _TorchBatchSampler(BalancedBatchSampler, Sampler[list[int]]):  # type: ignore[misc]
        pass

    return _TorchBatchSampler(order, data_parallel_rank, data_parallel_size, consumed_samples)

"""The core of a strategy batch: the few axes that a layer's cost depends on, each point once."""

from __future__ import annotations

import numpy as np

from cost_models.inputs import Workload
from cost_models.records import record
from cost_models.strategies import F64, I64, Bool, StrategyBatch

PACKED_BITS = 62  # of an int64


@record
class Core:
    """U distinct core points, arrays [U]."""

    tp: F64
    cp: F64
    ep: F64
    etp: F64
    micro_batch: F64
    sequence_parallel: Bool
    dispatcher: I64
    ep_overlap: Bool
    tokens: F64  # of one micro-batch on a card's context share: micro_batch * seq / cp
    tokens_sp: F64  # the same in the sequence-parallel region: tokens / tp
    tokens_norm: F64  # tokens that norms and residuals see: tokens_sp with sequence parallel, else tokens

    @property
    def size(self) -> int:
        return len(self.tp)


def distinct_points(batch: StrategyBatch) -> tuple[I64, I64]:
    """Points [U, 8] as ``core_of`` takes them, each once, and the point of each strategy [N]."""
    columns = (
        batch.tp, batch.cp, batch.ep, batch.etp, batch.micro_batch, batch.sequence_parallel.astype(np.int64),
        batch.dispatcher, batch.ep_overlap.astype(np.int64),
    )  # fmt: skip
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(bits) <= PACKED_BITS:
        key = np.zeros(len(batch), dtype=np.int64)
        for column, width in zip(columns, bits, strict=True):
            key = (key << width) | column
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, index = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), index.reshape(-1)


def core_of(points: I64, workload: Workload) -> Core:
    """The core points as layer pricing takes them."""
    tp, cp, ep, etp, micro_batch, sequence_parallel, dispatcher, overlap = points.T
    tokens = micro_batch * workload.seq_length / cp
    tokens_sp = tokens / tp
    split = sequence_parallel.astype(bool)
    return Core(
        tp=tp.astype(float), cp=cp.astype(float), ep=ep.astype(float), etp=etp.astype(float),
        micro_batch=micro_batch.astype(float), sequence_parallel=split, dispatcher=dispatcher,
        ep_overlap=overlap.astype(bool), tokens=tokens, tokens_sp=tokens_sp,
        tokens_norm=np.where(split, tokens_sp, tokens),
    )  # fmt: skip


def core_points(batch: StrategyBatch, workload: Workload) -> Core:
    """Distinct core points of a batch."""
    return core_of(distinct_points(batch)[0], workload)

"""The core of a strategy batch: the few axes that a layer's cost depends on, each point once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cost_models.inputs import Workload
from cost_models.strategies import F64, I64, Bool, StrategyBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """U distinct core points, arrays [U]; ``index`` [N] maps each strategy of the batch to its point."""

    tp: F64
    cp: F64
    ep: F64
    etp: F64
    dp: F64
    pp: F64
    micro_batch: F64
    sequence_parallel: Bool
    dispatcher: I64
    ep_overlap: Bool
    tokens: F64  # of one micro-batch on a card's context share: micro_batch * seq / cp
    tokens_sp: F64  # the same in the sequence-parallel region: tokens / tp
    tokens_norm: F64  # tokens that norms and residuals see: tokens_sp with sequence parallel, else tokens
    index: I64

    @property
    def size(self) -> int:
        return len(self.tp)


def core_points(batch: StrategyBatch, workload: Workload) -> Core:
    """Distinct core points of a batch; layer pricing runs over these only."""
    columns = (
        batch.tp, batch.cp, batch.ep, batch.etp, batch.dp, batch.pp, batch.micro_batch,
        batch.sequence_parallel.astype(np.int64), batch.dispatcher, batch.ep_overlap.astype(np.int64),
    )  # fmt: skip
    key = np.zeros(len(batch), dtype=np.int64)
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        key = key * (int(codes.max(initial=0)) + 1) + codes
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    tp, cp, ep, etp, dp, pp, mbs, sp, dispatcher, overlap = (column[first] for column in columns)
    tokens = mbs * workload.seq_length / cp
    tokens_sp = tokens / tp
    return Core(
        tp=tp.astype(float), cp=cp.astype(float), ep=ep.astype(float), etp=etp.astype(float), dp=dp.astype(float),
        pp=pp.astype(float), micro_batch=mbs.astype(float), sequence_parallel=sp.astype(bool), dispatcher=dispatcher,
        ep_overlap=overlap.astype(bool), tokens=tokens, tokens_sp=tokens_sp,
        tokens_norm=np.where(sp.astype(bool), tokens_sp, tokens), index=index,
    )  # fmt: skip

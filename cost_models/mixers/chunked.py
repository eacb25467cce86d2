"""The chunked form that linear attention and state-space mixers share: linear in the sequence length."""

from __future__ import annotations

import numpy as np

from cost_models.dims import Core
from cost_models.inputs import Workload
from cost_models.mixers.core_attention import BF16, CORE, FULL
from cost_models.operators import Collective, FusedAttention, LayerOps, MemoryBound, Saved
from cost_models.records import record

LINEAR_CHUNK = 64  # tokens per chunk of chunked linear attention (flash-linear-attention and Mamba-2 default 64..256)


@record
class Chunked:
    """Sizes of one mixer, unsharded: ``heads`` recurrent states of ``state`` x ``value_dim``."""

    heads: int
    state: int
    value_dim: int
    key_columns: int  # of queries and keys together (Mamba: C and B), where their groups are counted once
    gate_columns: int  # output gate, decays, step sizes

    @property
    def inner(self) -> int:
        return self.heads * self.value_dim


def chunk_flop(shape: Chunked) -> float:
    """Forward FLOPs per token. Per chunk of C tokens and head: C x C scores and their product with the values, and the
    state read and written once. Source: Yang et al. 2024, arXiv 2312.06635, section 3; Mamba-2, arXiv 2405.21060."""
    per_head = 2 * LINEAR_CHUNK * (shape.state + shape.value_dim) + 4 * shape.state * shape.value_dim
    return float(shape.heads * per_head)


def add_chunked(ops: LayerOps, shape: Chunked, workload: Workload, core: Core) -> None:
    """Scores and states as one fused operator, the passes around it, and what it saves."""
    t, tokens = core.tp, core.tokens
    inner, keys, gates = shape.inner / t, shape.key_columns / t, shape.gate_columns / t
    pair = 2.0 * (shape.state + shape.value_dim)
    pairs = tokens * chunk_flop(shape) / shape.heads / pair
    passes = BF16 * tokens * (inner + keys)
    ops.add(
        FusedAttention(heads=shape.heads / t, queries=np.full_like(t, workload.seq_length), pairs=pairs,
                       qk_dim=shape.state, v_dim=shape.value_dim, sequences=core.micro_batch, modules=CORE),
        MemoryBound(name="conv_gate_norm", forward_bytes=3 * passes + 3 * BF16 * tokens * inner,
                    backward_bytes=5 * passes + 5 * BF16 * tokens * inner, forward_kernels=6, backward_kernels=10,
                    modules=FULL),
        Saved(name="mixer", size_bytes=2 * passes + BF16 * tokens * (2 * inner + gates), modules=FULL, swappable=True),
    )  # fmt: skip


def exchange_heads(ops: LayerOps, shape: Chunked, core: Core) -> None:
    """Context parallelism of a recurrence: an all-to-all gives each card the whole sequence of a part of the heads, a second
    one gives it back. Nothing hides it. Source: Megatron-LM, megatron/core/ssm/mamba_context_parallel.py."""
    if not (core.cp > 1).any():
        return
    columns = shape.inner + shape.key_columns + shape.gate_columns + shape.inner  # in, and the output back
    size = np.where(core.cp > 1, BF16 * core.tokens * columns / core.tp, 0.0)
    ops.add(Collective(name="context_heads", op="all_to_all", group="cp", family="cp_comm", forward_bytes=size,
                       backward_bytes=size, modules=FULL))  # fmt: skip

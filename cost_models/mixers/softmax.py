"""Softmax attention: MHA, GQA and MQA by ``kv_heads``, sliding where ``window_tokens`` is set."""

from __future__ import annotations

import numpy as np

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL, core_attention, kv_heads_on_card, rotary, score_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import Collective, LayerOps, MemoryBound, Saved


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    """Query, key and value (and the output's gate) in one product; the output."""
    output = a.query_heads * a.v_head_dim
    mixed = a.query_heads * a.head_dim + _kv_columns(a) + (output if a.output_gate else 0)
    mixed += a.query_heads if a.head_gate else 0
    return (
        Projection(name="qkv", inputs=hidden, outputs=mixed),
        Projection(name="attention_out", inputs=output, outputs=hidden, split="row"),
    )


def _kv_columns(a: Attention) -> int:
    """Projected columns of keys and values: none where an earlier layer's are used, one set where values are keys."""
    return 0 if a.shared_kv else a.kv_heads * (a.head_dim + (0 if a.value_from_key else a.v_head_dim))


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Biases, query and key norms, sinks."""
    queries, keys = a.query_heads * a.head_dim, 0 if a.shared_kv else a.kv_heads * a.head_dim
    sharded = (queries + _kv_columns(a) if a.qkv_bias else 0) + (a.query_heads if a.sinks else 0)
    replicated = hidden if a.output_bias else 0
    if a.qk_norm:
        replicated += norm_weights(
            queries + keys if a.qk_norm_full else (1 if a.shared_kv else 2) * a.head_dim, norm_bias
        )
    return LayerParameters(sharded, replicated)


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    t, tokens, h = core.tp, core.tokens, float(model.hidden)
    q_cols, out_depth = a.query_heads * a.head_dim / t, a.query_heads * a.v_head_dim / t
    kv = kv_heads_on_card(a, t)
    _mixed_qkv_gather(ops, a, core)
    if workload.stack.plain_autograd:  # dq, dk, dv copied into one tensor, or their three input gradients summed: 12 B
        ops.add(MemoryBound(name="qkv_gradients", forward_bytes=np.zeros_like(t), backward_bytes=12.0 * tokens * h / t,
                            forward_kernels=0, backward_kernels=2, modules=0))  # fmt: skip
    elements = tokens * (q_cols + kv * a.head_dim)
    rotary(ops, model, workload, elements)
    if a.qk_norm:
        ops.add(MemoryBound(name="qk_norm", forward_bytes=4 * elements, backward_bytes=6 * elements, forward_kernels=2,
                            backward_kernels=4, modules=FULL))  # fmt: skip
    core_attention(ops, a, workload, core, a.head_dim, a.v_head_dim)
    kv_cols = kv * (a.head_dim + a.v_head_dim)
    ops.add(
        Saved(name="q", size_bytes=BF16 * tokens * q_cols, modules=FULL, swappable=True),
        Saved(name="kv", size_bytes=BF16 * tokens * kv_cols, modules=FULL, swappable=True),
        Saved(
            name="attention_out_input",
            size_bytes=BF16 * tokens * out_depth,
            modules=FULL,
            swappable=True,
            role="input too",
        ),
    )
    if a.output_gate:
        ops.add(Saved(name="output_gate", size_bytes=2 * BF16 * tokens * out_depth, modules=FULL))


def _mixed_qkv_gather(ops: LayerOps, a: Attention, core: Core) -> None:
    """TP > KV groups: Megatron shards the qkv weight evenly and all-gathers the mixed activation over TP."""
    replicated = core.tp > a.kv_heads
    if not replicated.any():
        return
    size = core.tokens * (a.query_heads * a.head_dim + a.kv_heads * (a.head_dim + a.v_head_dim)) * BF16
    size = np.where(replicated, size, 0.0)
    ops.add(Collective(name="mixed_qkv", op="all_gather", group="tp", forward_bytes=size, backward_bytes=size,
                       backward_op="reduce_scatter", modules=FULL))  # fmt: skip


SOFTMAX = Mixer(
    projections=_projections, others=_others, mixing_flop=score_flop, add_mixing=_add_mixing, grouped_heads=True
)

"""Operators of the token mixers: MHA/GQA, MLA, sliding window, linear attention."""

from __future__ import annotations

import numpy as np

from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.operators import Collective, FusedAttention, Gemm, LayerOps, MemoryBound, Saved
from cost_models.strategies import F64, RECOMPUTE_BIT

FULL = RECOMPUTE_BIT["full"]
CORE = RECOMPUTE_BIT["core_attn"] | FULL
NORM = RECOMPUTE_BIT["layernorm"] | FULL
MLA_UP = RECOMPUTE_BIT["mla_up_proj"] | FULL
BF16 = 2.0  # bytes
UNPAD_FRAC = 0.6  # gathers and scatters by index against plain copies, as PERMUTE_FRAC of the expert layers
LINEAR_CHUNK = 64  # tokens per chunk of chunked linear attention (flash-linear-attention and Mamba-2 default 64..256)


def score_pairs(attention: Attention, workload: Workload) -> float:
    """(query, key) pairs per head and sequence that a fused kernel computes."""
    s = float(workload.seq_length)
    full = s * s if workload.attention_mask == "full" else s * s / 2
    if 0 < attention.window_tokens < s:
        w = float(attention.window_tokens)
        return s * w - w * w / 2
    return full


def kv_heads_on_card(attention: Attention, tp: F64) -> F64:
    """K/V heads that a rank computes with: at least one (replicated when TP > KV groups)."""
    return np.maximum(attention.kv_heads / tp, 1.0)


def attention_ops(attention: Attention, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """The attention half of a block, without its input norm."""
    if attention.kind == "softmax":
        return _softmax_ops(attention, model, workload, core)
    if attention.kind == "mla":
        return _mla_ops(attention, model, workload, core)
    return _linear_ops(attention, model, workload, core)


def _softmax_ops(a: Attention, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    ops, t, tokens, h = LayerOps(), core.tp, core.tokens, float(model.hidden)
    q_cols = a.query_heads * a.head_dim / t
    weight_cols = (a.query_heads * a.head_dim + a.kv_heads * (a.head_dim + a.v_head_dim)) / t
    gate_cols = a.query_heads * a.v_head_dim / t if a.output_gate else 0.0
    kv = kv_heads_on_card(a, t)
    kv_cols = kv * (a.head_dim + a.v_head_dim)
    out_depth = a.query_heads * a.v_head_dim / t
    ops.add(Gemm(name="qkv", rows=tokens, cols=weight_cols + gate_cols, depth=np.full_like(t, h), modules=FULL))
    _mixed_qkv_gather(ops, a, core)
    if workload.stack.plain_autograd:  # dq, dk, dv copied into one tensor, or their three input gradients summed: 12 B
        ops.add(MemoryBound(name="qkv_gradients", forward_bytes=np.zeros_like(t), backward_bytes=12.0 * tokens * h / t,
                            forward_kernels=0, backward_kernels=2, modules=0))  # fmt: skip
    _rotary(ops, model, workload, tokens * (q_cols + kv * a.head_dim))
    if a.qk_norm:
        elements = tokens * (q_cols + kv * a.head_dim)
        ops.add(MemoryBound(name="qk_norm", forward_bytes=4 * elements, backward_bytes=6 * elements, forward_kernels=2,
                            backward_kernels=4, modules=FULL))  # fmt: skip
    _core_attention(ops, a, workload, core, a.head_dim, a.v_head_dim)
    ops.add(Gemm(name="attention_out", rows=tokens, cols=np.full_like(t, h), depth=out_depth, modules=FULL))
    ops.add(
        Saved(name="q", size_bytes=BF16 * tokens * q_cols, modules=FULL, swappable=True),
        Saved(name="kv", size_bytes=BF16 * tokens * kv_cols, modules=FULL, swappable=True),
        Saved(name="attention_out_input", size_bytes=BF16 * tokens * out_depth, modules=FULL, swappable=True),
    )
    if a.output_gate:
        ops.add(Saved(name="output_gate", size_bytes=2 * BF16 * tokens * gate_cols, modules=FULL))
    _tensor_parallel_half(ops, core, tokens * h * BF16, tokens * h * BF16, workload)
    return ops


def _mla_ops(a: Attention, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """Down-projections are replicated over TP and run on the sequence-parallel share; up-projections are sharded."""
    ops, t, tokens, h = LayerOps(), core.tp, core.tokens, float(model.hidden)
    heads = a.query_heads / t
    q_cols = heads * a.head_dim
    compressed = a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim
    if a.q_lora_rank:
        ops.add(Gemm(name="q_down", rows=core.tokens_norm, cols=np.full_like(t, a.q_lora_rank), depth=np.full_like(t, h),
                     modules=FULL))  # fmt: skip
        ops.add(Gemm(name="q_up", rows=tokens, cols=q_cols, depth=np.full_like(t, a.q_lora_rank), modules=MLA_UP))
    else:
        ops.add(Gemm(name="q", rows=tokens, cols=q_cols, depth=np.full_like(t, h), modules=MLA_UP))
    ops.add(
        Gemm(name="kv_down", rows=core.tokens_norm, cols=np.full_like(t, a.kv_lora_rank + a.qk_rope_head_dim),
             depth=np.full_like(t, h), modules=FULL),
        Gemm(name="kv_up", rows=tokens, cols=heads * (a.qk_nope_head_dim + a.v_head_dim),
             depth=np.full_like(t, a.kv_lora_rank), modules=MLA_UP),
        MemoryBound(name="mla_norms", forward_bytes=4 * core.tokens_norm * (a.q_lora_rank + a.kv_lora_rank),
                    backward_bytes=6 * core.tokens_norm * (a.q_lora_rank + a.kv_lora_rank), forward_kernels=2,
                    backward_kernels=4, modules=MLA_UP),
        # rotary on the rope part; then query and key are concatenated from their parts, which copies both
        MemoryBound(name="rope_concat", forward_bytes=8 * tokens * q_cols, backward_bytes=8 * tokens * q_cols,
                    forward_kernels=4, backward_kernels=4, modules=MLA_UP),
    )  # fmt: skip
    _core_attention(ops, a, workload, core, a.head_dim, a.v_head_dim)
    out_depth = heads * a.v_head_dim
    ops.add(Gemm(name="attention_out", rows=tokens, cols=np.full_like(t, h), depth=out_depth, modules=FULL))
    ops.add(
        Saved(name="mla_compressed", size_bytes=BF16 * core.tokens_norm * 2 * compressed, modules=FULL, swappable=True),
        Saved(name="q", size_bytes=BF16 * tokens * q_cols, modules=MLA_UP, swappable=True),
        Saved(name="k", size_bytes=BF16 * tokens * q_cols, modules=MLA_UP, swappable=True),
        Saved(name="v", size_bytes=BF16 * tokens * out_depth, modules=MLA_UP, swappable=True),
        Saved(name="attention_out_input", size_bytes=BF16 * tokens * out_depth, modules=FULL, swappable=True),
    )
    gathered = np.where(core.sequence_parallel, tokens * compressed * BF16, 0.0)
    _tensor_parallel_half(ops, core, gathered, tokens * h * BF16, workload)
    return ops


def _linear_ops(a: Attention, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """Gated delta, lightning and Mamba mixers in their chunked form: linear in the sequence length."""
    ops, t, tokens, h = LayerOps(), core.tp, core.tokens, float(model.hidden)
    values = a.value_heads or a.query_heads
    inner = values * a.v_head_dim / t
    state = a.state_dim or a.head_dim
    keys = 2 * (a.state_groups * a.state_dim if a.kind == "mamba" else a.query_heads * a.head_dim) / t
    gates = inner + 2 * values / t
    ops.add(
        Gemm(name="in_proj", rows=tokens, cols=inner + keys + gates, depth=np.full_like(t, h), modules=FULL),
        Gemm(name="attention_out", rows=tokens, cols=np.full_like(t, h), depth=inner, modules=FULL),
    )
    # Per chunk of C tokens and value head: C x C scores and their product with the values, and two state products.
    per_token = 2 * LINEAR_CHUNK * (state + a.v_head_dim) + 4 * state * a.v_head_dim
    pairs = tokens * per_token / (2.0 * (state + a.v_head_dim))
    ops.add(
        FusedAttention(heads=values / t, queries=np.full_like(t, workload.seq_length), pairs=pairs, qk_dim=state,
                       v_dim=a.v_head_dim, sequences=core.micro_batch, modules=CORE),
        MemoryBound(name="conv_gate_norm", forward_bytes=BF16 * tokens * (3 * (inner + keys) + 3 * inner),
                    backward_bytes=BF16 * tokens * (5 * (inner + keys) + 5 * inner), forward_kernels=6,
                    backward_kernels=10, modules=FULL),
        Saved(name="mixer", size_bytes=BF16 * tokens * (2 * (inner + keys) + 2 * inner + gates), modules=FULL, swappable=True),
    )  # fmt: skip
    _tensor_parallel_half(ops, core, tokens * h * BF16, tokens * h * BF16, workload)
    return ops


def _mixed_qkv_gather(ops: LayerOps, a: Attention, core: Core) -> None:
    """TP > KV groups: Megatron shards the qkv weight evenly and all-gathers the mixed activation over TP."""
    replicated = core.tp > a.kv_heads
    if not replicated.any():
        return
    size = core.tokens * (a.query_heads * a.head_dim + a.kv_heads * (a.head_dim + a.v_head_dim)) * BF16
    size = np.where(replicated, size, 0.0)
    ops.add(Collective(name="mixed_qkv", op="all_gather", group="tp", forward_bytes=size, backward_bytes=size,
                       backward_op="reduce_scatter", modules=FULL))  # fmt: skip


def _rotary(ops: LayerOps, model: ModelSpec, workload: Workload, elements: F64) -> None:
    if model.learned_positions:
        return
    fused = workload.stack.fused_rope or workload.stack.compiled
    # Unfused: slice, negate, concatenate, two products and their sum, in fp32 between two casts.
    passes, kernels = (4.0, 2.0) if fused else (36.0, 14.0)
    ops.add(MemoryBound(name="rotary", forward_bytes=passes * elements, backward_bytes=passes * elements,
                        forward_kernels=kernels, backward_kernels=kernels, modules=FULL))  # fmt: skip


def _core_attention(ops: LayerOps, a: Attention, w: Workload, core: Core, qk_dim: int, v_dim: int) -> None:
    heads = a.query_heads / core.tp
    if w.stack.attention_kernel in ("unfused", "fused_softmax"):
        _unfused_core(ops, w, core, heads, qk_dim, v_dim)
    else:
        pairs = score_pairs(a, w) * core.micro_batch / core.cp
        ops.add(
            FusedAttention(heads=heads, queries=w.seq_length / core.cp, pairs=pairs, qk_dim=qk_dim, v_dim=v_dim,
                           sequences=core.micro_batch, modules=CORE),
            # CANN's kernel returns maximum and sum, each eight times in fp32 (npu_fusion_attention: [B, N, S, 8]).
            Saved(name="log_sum_exp", size_bytes=(64 if w.stack.attention_kernel == "npu_flash" else 4) * core.tokens * heads,
                  modules=CORE),
        )  # fmt: skip
        if (
            w.stack.transformer_engine
        ):  # its context parallelism keeps the output once more: 12 of 12 layers in the measured CP runs
            again = np.where(core.cp > 1, BF16 * core.tokens * heads * v_dim, 0.0)
            ops.add(Saved(name="context_parallel_output", size_bytes=again, modules=CORE))
    kv_bytes = BF16 * core.tokens * kv_heads_on_card(a, core.tp) * (qk_dim + v_dim)
    if w.stack.unpad_attention and w.stack.attention_kernel.startswith("flash"):
        _unpad(ops, core.tokens * heads * (qk_dim + v_dim) + kv_bytes / BF16)
    if (core.cp > 1).any():
        ops.add(Collective(name="context_ring", op="all_gather", group="cp", family="cp_comm", modules=CORE,
                           forward_bytes=kv_bytes * core.cp, backward_bytes=2 * kv_bytes * core.cp))  # fmt: skip


def _unpad(ops: LayerOps, elements: F64) -> None:
    """torch.gather by an expanded 8-byte index before the kernel, zeros and index_put after it; backward the mirror image,
    where a gather's gradient is zeros and a scatter-add."""
    ops.add(MemoryBound(name="unpad", forward_bytes=8.0 * elements, backward_bytes=12.0 * elements, forward_kernels=8,
                        backward_kernels=8, modules=FULL, efficiency_frac=UNPAD_FRAC))  # fmt: skip


def _unfused_core(ops: LayerOps, w: Workload, core: Core, heads: F64, qk_dim: int, v_dim: int) -> None:
    """Scores, masked softmax, dropout and context as separate kernels: the s x s matrices travel through memory.

    Saved bytes follow Korthikanti et al. 2022: softmax output 2, dropout mask 1, dropout output 2 per score.
    """
    s = np.full_like(core.tp, w.seq_length)
    batch = core.micro_batch * heads
    scores = batch * s * s / core.cp
    dropout = 1.0 if w.stack.dropout else 0.0
    ops.add(
        Gemm(name="scores", rows=s / core.cp, cols=s, depth=np.full_like(s, qk_dim), batch=batch, modules=CORE,
             weight=False, family="attention"),
        Gemm(name="context", rows=s / core.cp, cols=np.full_like(s, v_dim), depth=s, batch=batch, modules=CORE,
             weight=False, family="attention"),
    )  # fmt: skip
    if w.stack.attention_kernel == "fused_softmax":
        forward, backward, kernels = 4.0 + 5.0 * dropout, 6.0 + 5.0 * dropout, 1.0 + dropout
    else:  # scale, mask, cast to fp32, softmax, cast back: each its own pass
        forward, backward, kernels = 22.0 + 5.0 * dropout, 22.0 + 5.0 * dropout, 6.0
    ops.add(
        MemoryBound(name="softmax", forward_bytes=forward * scores, backward_bytes=backward * scores,
                    forward_kernels=kernels, backward_kernels=kernels, modules=CORE, family="attention"),
        Saved(name="scores", size_bytes=(2.0 + 3.0 * dropout) * scores, modules=CORE),
    )  # fmt: skip


def _tensor_parallel_half(
    ops: LayerOps, core: Core, gathered_bytes: F64, reduced_bytes: F64, workload: Workload
) -> None:
    """TP communication of one half of a block.

    Sequence parallel: all-gather in, reduce-scatter out; backward the mirror image, plus a second gather of the input for
    the weight gradient, which runs under the input gradient. Plain TP: one all-reduce each way, the backward one under the
    weight gradient. Source: Korthikanti et al. 2022, section 4.2.2; Megatron-LM tensor_parallel/layers.py.
    """
    sp = core.sequence_parallel
    wide = core.tp > 1
    gathered = np.where(sp & wide, gathered_bytes, 0.0)
    scattered = np.where(sp & wide, reduced_bytes, 0.0)
    wire = 0.5 if workload.stack.fp8_tp_gather else 1.0  # what gathers carry; reductions stay in 16 bit
    reduced = np.where(~sp & wide, reduced_bytes, 0.0)
    ops.add(
        Collective(name="tp_gather", op="all_gather", group="tp", forward_bytes=wire * gathered,
                   backward_bytes=gathered, backward_op="reduce_scatter", backward_overlap="wgrad", modules=FULL),
        Collective(name="tp_regather", op="all_gather", group="tp", forward_bytes=np.zeros_like(gathered),
                   backward_bytes=wire * gathered, backward_overlap="dgrad"),
        Collective(name="tp_scatter", op="reduce_scatter", group="tp", forward_bytes=scattered,
                   backward_bytes=wire * scattered, backward_op="all_gather", modules=FULL),
        Collective(name="tp_reduce", op="all_reduce", group="tp", forward_bytes=reduced, backward_bytes=reduced,
                   backward_overlap="wgrad", modules=FULL),
    )  # fmt: skip


tensor_parallel_half = _tensor_parallel_half

"""What softmax attention does between its projections, fused or not, and the masks and exchanges that mixers share."""

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


def score_pairs(attention: Attention, workload: Workload) -> float:
    """(query, key) pairs per head and sequence that a fused kernel computes."""
    s = float(workload.seq_length)
    if attention.compress_tokens:  # the window, and compressed keys of everything before it
        blocks = earlier_blocks(attention, workload)
        chosen = _clipped(s, min(attention.index_topk, s)) if attention.index_topk else blocks
        return _clipped(s, attention.window_tokens) + min(chosen, blocks)
    full = s * s if workload.attention_mask == "full" else s * s / 2
    reach = min((n for n in (attention.window_tokens, attention.index_topk) if n > 0), default=0)
    if 0 < reach < s:
        return _clipped(s, reach)
    return full


def _clipped(s: float, w: float) -> float:
    """Causal pairs of s tokens that each see at most w: s w - w^2 / 2."""
    return s * w - w * w / 2 if w < s else s * s / 2


def earlier_blocks(attention: Attention, workload: Workload) -> float:
    """(query, compressed key) pairs per sequence."""
    return float(workload.seq_length) ** 2 / 2 / attention.compress_tokens


def index_pairs(attention: Attention, workload: Workload) -> float:
    """(query, key) pairs per index head and sequence that the indexer of sparse attention scores: all earlier ones."""
    return float(workload.seq_length) ** 2 / 2 / max(attention.compress_tokens, 1)


def score_flop(a: Attention, workload: Workload) -> float:
    """Forward FLOPs per token of scores and context."""
    pairs_per_token = score_pairs(a, workload) / workload.seq_length
    indexed = index_pairs(a, workload) / workload.seq_length * a.index_heads * a.index_head_dim
    return 2.0 * (pairs_per_token * a.query_heads * (a.head_dim + a.v_head_dim) + indexed)


def kv_heads_on_card(attention: Attention, tp: F64) -> F64:
    """K/V heads that a rank computes with: at least one (replicated when TP > KV groups)."""
    return np.maximum(attention.kv_heads / tp, 1.0)


def rotary(ops: LayerOps, model: ModelSpec, workload: Workload, elements: F64) -> None:
    if model.learned_positions:
        return
    fused = workload.stack.fused_rope or workload.stack.compiled
    # Unfused: slice, negate, concatenate, two products and their sum, in fp32 between two casts.
    passes, kernels = (4.0, 2.0) if fused else (36.0, 14.0)
    ops.add(MemoryBound(name="rotary", forward_bytes=passes * elements, backward_bytes=passes * elements,
                        forward_kernels=kernels, backward_kernels=kernels, modules=FULL))  # fmt: skip


def core_attention(ops: LayerOps, a: Attention, w: Workload, core: Core, qk_dim: int, v_dim: int) -> None:
    heads = a.query_heads / core.tp
    if a.index_heads:
        add_indexer(ops, a, w, core)
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


def add_indexer(ops: LayerOps, a: Attention, w: Workload, core: Core) -> None:
    """Scores of every earlier token (or block), one pass to sum them over index heads in fp32, and the choice of the best.

    Not divided by TP: the score sums over all heads. Source: DeepSeek-V3.2-Exp report, section 2.1.
    """
    pairs = index_pairs(a, w) * core.micro_batch / core.cp
    ops.add(
        FusedAttention(heads=np.full_like(core.tp, a.index_heads), queries=w.seq_length / core.cp, pairs=pairs,
                       qk_dim=a.index_head_dim, v_dim=0, sequences=core.micro_batch, modules=CORE),
        MemoryBound(name="index_top_k", forward_bytes=8.0 * pairs, backward_bytes=8.0 * pairs, forward_kernels=2,
                    backward_kernels=2, modules=CORE, family="attention"),
        Saved(name="index", size_bytes=core.tokens * (BF16 * (a.index_heads + 1) * a.index_head_dim + 4.0 * a.index_topk),
              modules=CORE),
    )  # fmt: skip


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


def tensor_parallel_half(
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

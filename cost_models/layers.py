"""What one layer of each kind, and the ends of the model, do on a card: the list of their operators."""

from __future__ import annotations

import numpy as np

from cost_models.dims import Core
from cost_models.feedforward_layers import feed_forward_ops
from cost_models.inputs import FeedForward, LayerKind, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL, NORM
from cost_models.mixers.table import mixer_of
from cost_models.operators import Collective, Gemm, LayerOps, MemoryBound, Saved
from cost_models.parameters import embedding_parameters, layer_parameters, mtp_parameters, padded_vocab
from cost_models.strategies import F64


def _merge(target: LayerOps, source: LayerOps) -> None:
    target.computes += source.computes
    target.collectives += source.collectives
    target.saved += source.saved
    target.host += source.host


def norm_op(model: ModelSpec, workload: Workload, tokens: F64, modules: int) -> MemoryBound:
    """One norm of the hidden size. Unfused, in torch operations on an fp32 copy: cast (r2 w4), square (r4 w4), mean (r4),
    scale (r4 w4), cast (r4 w2), weight (r2 w2), and about twice that backward."""
    fused = workload.stack.fused_norm or workload.stack.compiled
    forward, backward = (4.0, 6.0) if fused else (36.0, 76.0)
    kernels = (1.0, 2.0) if fused else (7.0, 14.0)
    if fused and workload.stack.plain_autograd:  # the weight gradient reads input and output gradient again
        backward += 4.0
    elements = tokens * model.hidden
    return MemoryBound(name="norm", forward_bytes=forward * elements, backward_bytes=backward * elements,
                       forward_kernels=kernels[0], backward_kernels=kernels[1], modules=modules)  # fmt: skip


def residual_op(model: ModelSpec, workload: Workload, core: Core) -> MemoryBound:
    """Bias, dropout and residual add; backward also sums the two gradient branches."""
    elements = core.tokens_norm * model.hidden
    if workload.stack.dropout:
        forward, backward, kernels = (7.0, 11.0, 1.0) if workload.stack.fused_dropout else (13.0, 15.0, 3.0)
    else:
        forward, backward, kernels = 6.0, 6.0, 1.0
    return MemoryBound(name="residual", forward_bytes=forward * elements, backward_bytes=backward * elements,
                       forward_kernels=kernels, backward_kernels=kernels, modules=FULL)  # fmt: skip


def _steps_saved(model: ModelSpec, workload: Workload) -> bool:
    """Whether a norm is written as steps that each save their operands: RMSNorm in plain torch. torch's LayerNorm is one
    autograd function, as a fused or compiled norm is."""
    stack = workload.stack
    return not (stack.fused_norm or stack.compiled or stack.norm_saves_input_only or model.norm_bias)


def layer_ops(kind: LayerKind, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """One transformer block: norms, halves, residuals, and the parameters that a card holds."""
    ops = LayerOps()
    elements = core.tokens_norm * model.hidden
    halves = [*kind.attentions, *kind.feed_forwards]
    for attention in kind.attentions:
        _merge(ops, mixer_of(attention).ops(attention, model, workload, core))
    for feed_forward in kind.feed_forwards:
        _merge(ops, feed_forward_ops(feed_forward, model, workload, core))
    if kind.side_elements:
        h = np.full_like(core.tp, model.hidden)
        ops.add(Gemm(name="side", rows=core.tokens_norm, cols=kind.side_elements / h, depth=h, modules=FULL))
    for i in range(kind.norms):
        ops.add(norm_op(model, workload, core.tokens_norm, NORM))
        # The first norm's input is the layer's input, which even full recompute keeps.
        ops.add(Saved(name="norm_input", size_bytes=BF16 * elements, modules=0 if i == 0 else FULL))
        if i < len(halves):
            half = halves[i]  # a router and the exchange read the norm's output in 16 bit
            role = "" if isinstance(half, FeedForward) and half.is_moe else "input"
            ops.add(Saved(name="norm_output", size_bytes=BF16 * elements, modules=NORM, role=role))
        if _steps_saved(model, workload):  # the fp32 input, and the 16-bit result before its weight
            ops.add(Saved(name="norm_unfused", size_bytes=(4.0 + BF16) * elements, modules=NORM))
    for _ in halves:
        ops.add(residual_op(model, workload, core))
        if workload.stack.dropout:
            ops.add(Saved(name="dropout_mask", size_bytes=elements, modules=FULL))
    parameters = layer_parameters(kind, model.hidden, model.norm_bias)
    ops.dense_parameters = parameters.tp_sharded / core.tp + parameters.replicated
    ops.expert_parameters = parameters.routed_experts * slots_per_expert(kind, workload) / (core.ep * core.etp)
    return ops


def slots_per_expert(kind: LayerKind, workload: Workload) -> float:
    """Slots that hold a routed expert, over the experts: above 1 with spare ones, whose weights, gradients and optimizer
    state are held like any other's."""
    experts = max((part.experts for part in kind.feed_forwards if part.is_moe), default=0)
    return 1.0 + workload.spare_experts / experts if experts else 1.0


def embedding_ops(model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """Vocabulary-parallel lookup, its reduction over TP, positions and dropout."""
    ops, h = LayerOps(), float(model.hidden)
    elements = core.tokens * h
    ops.add(MemoryBound(name="embedding", forward_bytes=4.0 * elements, backward_bytes=8.0 * elements, forward_kernels=4,
                        backward_kernels=4, family="embedding"))  # fmt: skip
    wide = core.tp > 1
    sp = core.sequence_parallel
    size = BF16 * elements
    ops.add(
        Collective(name="embedding_reduce", op="all_reduce", group="tp", forward_bytes=np.where(wide & ~sp, size, 0.0),
                   backward_bytes=np.zeros_like(size)),
        Collective(name="embedding_scatter", op="reduce_scatter", group="tp", forward_bytes=np.where(wide & sp, size, 0.0),
                   backward_bytes=np.where(wide & sp, size, 0.0), backward_op="all_gather"),
    )  # fmt: skip
    if workload.stack.dropout:
        ops.add(
            MemoryBound(name="embedding_dropout", forward_bytes=5.0 * core.tokens_norm * h,
                        backward_bytes=5.0 * core.tokens_norm * h, family="embedding"),
            Saved(name="embedding_mask", size_bytes=core.tokens_norm * h),
        )  # fmt: skip
    ops.dense_parameters = _vocab_rows(model, core) * h + model.learned_positions * h + model.extra_embedding / core.tp
    return ops


def head_ops(model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """Final norm, logits and cross-entropy. Unfused cross-entropy works on an fp32 copy of the logits."""
    ops, h = LayerOps(), float(model.hidden)
    vocab = _vocab_rows(model, core)
    # Some programs gather the logits over TP and compute the loss on all of them on every rank.
    gathers = not workload.stack.head_sharded_over_tp
    logits = core.tokens * (vocab * core.tp if gathers else vocab)
    fused = workload.stack.fused_cross_entropy
    # bf16 logits cast to fp32, maximum, exponent and sum, pick, divide; backward writes the gradient and casts it back.
    forward, backward, kernels = (6.0, 6.0, 3.0) if fused else (26.0, 14.0, 9.0)
    ops.add(
        norm_op(model, workload, core.tokens_norm, 0),
        Gemm(name="head", rows=core.tokens, cols=vocab, depth=np.full_like(core.tp, h), family="head"),
        MemoryBound(name="cross_entropy", forward_bytes=forward * logits, backward_bytes=backward * logits,
                    forward_kernels=kernels, backward_kernels=3, family="head"),
        Saved(name="norm_input", size_bytes=2 * BF16 * core.tokens_norm * h),
        Saved(name="logits", size_bytes=(2.0 if fused else 4.0) * logits),
    )  # fmt: skip
    if gathers:
        size = np.where(core.tp > 1, BF16 * logits, 0.0)
        ops.add(Collective(name="logits_gather", op="all_gather", group="tp", forward_bytes=size,
                           backward_bytes=np.zeros_like(size)))  # fmt: skip
    wide, sp = core.tp > 1, core.sequence_parallel
    size = BF16 * core.tokens * h
    ops.add(
        Collective(name="head_gather", op="all_gather", group="tp", forward_bytes=np.where(wide & sp, size, 0.0),
                   backward_bytes=np.where(wide & sp, size, 0.0), backward_op="reduce_scatter"),
        Collective(name="head_reduce", op="all_reduce", group="tp", forward_bytes=np.zeros_like(size),
                   backward_bytes=np.where(wide & ~sp, size, 0.0)),
        # maximum, predicted logit and sum of exponents: three fp32 values per token
        Collective(name="cross_entropy_reduce", op="all_reduce", group="tp",
                   forward_bytes=np.where(wide, 3 * 4.0 * core.tokens, 0.0), backward_bytes=np.zeros_like(size)),
    )  # fmt: skip
    ops.dense_parameters = _vocab_rows(model, core) * h + h + model.extra_head
    return ops


def mtp_ops(model: ModelSpec, workload: Workload, core: Core, block: LayerOps, head: LayerOps) -> LayerOps:
    """One multi-token-prediction module: projection 2h -> h, a ``block`` of its kind, and its own pass through the
    ``head``."""
    ops = LayerOps()
    _merge(ops, block)
    h = np.full_like(core.tp, model.hidden)
    ops.add(
        Gemm(name="mtp_projection", rows=core.tokens, cols=h / core.tp, depth=2 * h),
        norm_op(model, workload, core.tokens_norm, 0),
        norm_op(model, workload, core.tokens_norm, 0),
        Saved(name="mtp_projection", size_bytes=BF16 * core.tokens_norm * 4 * model.hidden),
    )
    _merge(ops, head)
    parameters = mtp_parameters(model)
    ops.dense_parameters = parameters.tp_sharded / core.tp + parameters.replicated
    held = slots_per_expert(model.mtp_layer_kind, workload)
    ops.expert_parameters = parameters.routed_experts * held / (core.ep * core.etp)
    return ops


def _vocab_rows(model: ModelSpec, core: Core) -> F64:
    tp = core.tp.tolist()
    rows = {t: padded_vocab(model.vocab, int(t)) / t for t in set(tp)}
    return np.array([rows[t] for t in tp])


__all__ = ["embedding_ops", "head_ops", "layer_ops", "mtp_ops", "embedding_parameters"]

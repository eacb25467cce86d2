"""The moments of a step at which a rank's memory may be fullest, and which of them is.

Four moments: the backward of the loss (every activation is still there, and the head's buffers), the backward of a layer
(its head's tensors are gone, recompute has brought one layer back), the backward of the embedding (one micro-batch is
gone, a gradient of the embedding's size exists), and the optimizer step (no activation is left).

Axes: N strategies of one layout, P pipeline ranks, K layer kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import numpy as np

from cost_models.imbalance import rank_imbalance
from cost_models.inputs import LayerKind, ModelSpec, Workload
from cost_models.records import record
from cost_models.step import memory as mem
from cost_models.step.geometry import most
from cost_models.step.group import PricedBatch
from cost_models.step.in_flight import held_on_stages
from cost_models.step.stages import StageCosts
from cost_models.strategies import F64, StrategyBatch
from cost_models.weight_shapes import layer_weights, vocabulary_weight

BF16, FP32 = 2.0, 4.0  # bytes
EMBEDDING, HEAD = -3, -1  # columns of the price list
# Loss bytes per logit at the peak of its backward. In place: the 16-bit logits become their own gradient (Transformer
# Engine's fused cross-entropy). Else Megatron's vocabulary-parallel loss: fp32 softmax, overwritten by its gradient, and
# that gradient in 16 bit. Programs that do more say so in SoftwareStack.loss_bytes_per_logit.
# cuBLAS and Transformer Engine each keep a workspace of 32 MiB on Hopper and later (PyTorch CUDABlas, TE base module).
LIBRARY_WORKSPACE_BYTES = 64 * 2.0**20
FUSED_LOSS_BYTES, VOCAB_PARALLEL_LOSS_BYTES = 2.0, 6.0


@record(eq=False)
class StepMemory:
    """Bytes of every rank at its fullest moment, [N, P] each; ``by_cause`` sums to ``reserved_bytes``."""

    by_cause: dict[str, F64]
    allocated_bytes: F64
    reserved_bytes: F64


def step_memory(costs: StageCosts, group: PricedBatch) -> StepMemory:
    """``costs``: stages before any effect (none of them moves bytes)."""
    static = _static(group)
    causes = static | dict(zip(MOVED, fullest(_moments(costs, group, static)), strict=True))
    allocated = added(causes.values())
    causes |= mem.overhead_bytes(allocated, group.batch, group.case.hardware)
    return StepMemory(by_cause=causes, allocated_bytes=allocated, reserved_bytes=added(causes.values()))


def peak_reserved_bytes(costs: StageCosts, group: PricedBatch) -> F64:
    """``reserved_bytes`` of the fullest rank alone, [N]."""
    static = _static(group)
    moved = reduce(np.maximum, map(added, _moments(costs, group, static)))
    fullest = most(static["weights"] + static["gradients"] + moved)[:, None]  # the overheads grow with it
    return added([fullest, *mem.overhead_bytes(fullest, group.batch, group.case.hardware).values()])[:, 0]


def _moments(costs: StageCosts, group: PricedBatch, static: dict[str, F64]) -> list[Moment]:
    return moments(held(costs, group, static["optimizer"]), workspace(group))


def _static(group: PricedBatch) -> dict[str, F64]:
    """Weights, gradients and optimizer state, [N, P] each."""
    whole = group.once(_static_on_card)
    on_card = (1.0 - group.batch.offload_frac)[:, None]
    return {"weights": whole[:, 0], "gradients": whole[:, 1], "optimizer": whole[:, 2] * on_card}


def _static_on_card(own: PricedBatch) -> F64:
    """The same with nothing on the host, [N, 3, P]."""
    batch = replace(own.batch, offload_frac=np.zeros(len(own.batch)))
    dense, expert = parameters_held(own).transpose(1, 0, 2)
    return np.stack(list(mem.static_bytes(dense, expert, batch, own.case.workload).values()), axis=1)


def added(parts: Iterable[F64]) -> F64:
    """Their sum; shapes broadcast."""
    return np.asarray(reduce(np.add, parts))


def parameters_held(group: PricedBatch) -> F64:
    """Dense and expert parameters of one copy of the model on each rank, [N, 2, P]: fed from both ends, a rank holds two
    stages, of which this is the mean."""
    own = mem.parameters_by_rank(group)
    mirror = group.geometry.each_row(group.geometry.mirror)[:, None, :]
    return (own + np.take_along_axis(own, np.broadcast_to(mirror, own.shape), axis=2)) / 2.0


def losses(group: PricedBatch) -> F64:
    """Heads of each rank, [N, P]."""
    geometry = group.geometry
    heads = np.matmul((geometry.counts[:, None, HEAD] > 0).astype(float), geometry.onto)[:, 0]
    return np.broadcast_to(geometry.each_row(heads), (len(group.batch), heads.shape[1]))


@record
class Workspace:
    """Bytes beside static memory and saved activations, [N, P] each."""

    loss: F64
    layer: F64
    embedding: F64
    step: F64
    kept: F64  # there at every moment: weight-gradient stand-ins that Transformer Engine caches


MOVED = ("activations", "logits", "transient", "optimizer")
Moment = tuple[F64, F64, F64, F64]  # bytes of each cause of MOVED, [N, P] or one number for all


@record(eq=False)
class Held:
    """Bytes that a rank holds beside weights, gradients and working sets, [N, P] each."""

    activations: F64
    head: F64  # of them, the head's
    one_micro_batch: F64  # of them, those of one micro-batch
    optimizer: F64
    late: F64  # of the optimizer's, what only its step creates


def held(costs: StageCosts, group: PricedBatch, optimizer: F64) -> Held:
    """What the stages save and the ranks have in flight of it."""
    table, late = group.table, np.zeros(())
    if group.case.workload.peak_of_first_step:
        dense, expert = group.once(parameters_held).transpose(1, 0, 2)
        late = mem.late_optimizer_bytes(dense, expert, group.batch, group.case.workload)
    head = table.masked(table.prices.saved_bytes[:, :, HEAD], table.mask)
    return Held(
        activations=group.through(costs.saved_bytes - costs.swapped_bytes, held_on_stages),
        head=head[:, None] * group.once(losses),
        one_micro_batch=group.by_rank(costs.saved_bytes) / group.batch.vpp[:, None],
        optimizer=optimizer,
        late=late,
    )


def moments(own: Held, work: Workspace) -> list[Moment]:
    """What comes and goes at each of the four moments."""
    nothing, before = np.zeros(()), own.optimizer - own.late
    return [
        (own.activations, work.loss, work.kept, before),
        (np.maximum(own.activations - own.head, 0.0), nothing, work.kept + work.layer, before),
        (np.maximum(own.activations - own.one_micro_batch, 0.0), nothing, work.kept + work.embedding, before),
        (nothing, nothing, work.kept + work.step, own.optimizer),
    ]


def fullest(options: list[Moment]) -> Moment:
    """Of each rank; of equals the first."""
    chosen, most = options[0], added(options[0])
    for option in options[1:]:
        total = added(option)
        more = total > most
        chosen = tuple(np.where(more, new, old) for new, old in zip(option, chosen, strict=True))  # type: ignore[assignment]
        most = np.where(more, total, most)
    return chosen


def workspace(group: PricedBatch) -> Workspace:
    """Working sets of every rank."""
    stack = group.case.workload.stack
    ranks = group.geometry.ranks
    fixed = group.once(_fixed_workspace)
    loss, embedding, step, cached = (fixed[:, i * ranks : (i + 1) * ranks] for i in range(4))
    buckets = stack.bucket_elements * (group.case.workload.grad_reduce_bytes + BF16)
    return Workspace(
        loss=loss,
        layer=group.once_a_mask(_layer_workspace),
        embedding=embedding,
        step=step,
        kept=cached + (LIBRARY_WORKSPACE_BYTES if stack.transformer_engine else 0.0) + buckets,
    )


def _layer_workspace(group: PricedBatch) -> F64:
    """Of a layer's backward: its gradients, and what recompute brings back, [N, P]."""
    prices, table, kinds = group.table.prices, group.table, len(group.case.model.kinds)
    gradients = group.once(_fixed_workspace)[:, 4 * group.geometry.ranks :]  # [N, K]
    none = prices.masks.index(0)  # the price list always has it
    back = prices.saved_bytes[:, none : none + 1, :kinds] - prices.saved_bytes[:, :, :kinds]
    return _widest(gradients + table.masked(back, table.mask), group)


def _fixed_workspace(group: PricedBatch) -> F64:
    """What no relief changes: loss, embedding, step and cached bytes of each rank, and gradients of each kind, side by side
    [N, 4 P + K]."""
    batch, model, workload = group.batch, group.case.model, group.case.workload
    shards = np.where(batch.zero_stage >= 1, batch.dp * batch.cp, 1).astype(float)  # of optimizer state
    kinds = [_kind_workspace(kind, model, batch, workload) for kind in model.kinds]
    present = group.geometry.each_row(group.geometry.present)
    vocabulary = vocabulary_weight(model, batch)[:, None]
    on_head, on_embedding = present[:, :, HEAD], present[:, :, EMBEDDING]
    loss = _loss_workspace(batch, model, workload)[:, None] + BF16 * vocabulary
    widest = _widest(np.stack([each.widest for each in kinds], axis=1), group)
    widest = np.maximum(widest, np.where(on_head | on_embedding, vocabulary, 0.0))
    # A temporary of the update, and the fp32 copy of a 16-bit gradient.
    copies = 0.0 if workload.stack.fused_optimizer else FP32 * (2.0 if workload.grad_bytes < FP32 else 1.0)
    return np.concatenate(
        [
            np.where(on_head, loss, 0.0),
            np.where(on_embedding, BF16 * vocabulary, 0.0),
            copies * widest / shards[:, None],
            _widest(np.stack([each.cached for each in kinds], axis=1), group),
            np.stack([each.gradients for each in kinds], axis=1),
        ],
        axis=1,
    )


def _widest(values: F64, group: PricedBatch) -> F64:
    """[N, K] of the kinds present on each rank -> [N, P]."""
    geometry = group.geometry
    out = np.zeros((len(values), geometry.ranks))
    for kind in range(values.shape[1]):
        present = geometry.each_row(geometry.present[:, :, kind])
        np.maximum(out, present * values[:, kind, None], out=out)
    return out


@record
class _KindWorkspace:
    """Of one layer kind, [N] each: bytes of gradients at the widest moment, cached bytes, elements of the widest weight."""

    gradients: F64
    cached: F64
    widest: F64


def _kind_workspace(kind: LayerKind, model: ModelSpec, batch: StrategyBatch, workload: Workload) -> _KindWorkspace:
    dense, expert = layer_weights(kind, model, batch, workload)
    tp = batch.tp.astype(float)
    tokens = batch.micro_batch * workload.seq_length / batch.cp
    shared = np.where(batch.sequence_parallel, tokens / tp, tokens)  # of norms and residuals
    weight = np.max(np.stack(dense + expert), axis=0) if dense or expert else np.zeros_like(tp)
    cached = np.zeros_like(tp)
    if workload.stack.transformer_engine and workload.stack.wgrad_accumulation_fused:
        cached = BF16 * np.sum(np.stack([np.broadcast_to(w, tp.shape) for w in dense + expert]), axis=0)
        weight = np.zeros_like(tp)
    h = float(model.hidden)
    rows, width, gated = _feed_forward_rows(kind, batch, workload, tokens)
    grown = (2.0 if gated else 1.0) * width
    # Activation backward: its input's gradient beside its output's, whose saved twin the down-projection has freed.
    activation = grown * rows
    # Up-projection backward: saved activations of the half are freed, input and its gradient are whole, the weight's
    # gradient is written.
    up = (grown - (grown + width)) * rows + 2.0 * h * np.maximum(rows, tokens) + weight
    if kind.feed_forward is not None and kind.feed_forward.is_moe:
        up = np.maximum(up, 2.0 * h * rows)  # combine's gradient before and after the exchange
    gradients = BF16 * (np.maximum(activation, up) + h * shared)
    return _KindWorkspace(gradients=np.maximum(gradients, 0.0), cached=cached, widest=np.max(
        np.stack([np.broadcast_to(w, tp.shape) for w in dense + expert]), axis=0) if dense or expert else cached)  # fmt: skip


def _feed_forward_rows(kind: LayerKind, batch: StrategyBatch, workload: Workload, tokens: F64) -> tuple[F64, F64, bool]:
    """Rows, width on a card and gating of the feed-forward half."""
    ffn = kind.feed_forward
    if ffn is None:
        return tokens, np.zeros_like(tokens), False
    if not ffn.is_moe:
        return tokens, ffn.width / batch.tp, ffn.gated
    imbalance = rank_imbalance(workload, ffn.experts, batch.ep)
    rows = tokens / batch.tp * ffn.expert_calls * batch.etp * imbalance
    return rows, ffn.width / batch.etp, ffn.gated


def _loss_workspace(batch: StrategyBatch, model: ModelSpec, workload: Workload) -> F64:
    """What the loss and the head's backward add to what is saved: logits, gathered input, its gradient. [N]."""
    stack = workload.stack
    tokens = batch.micro_batch * workload.seq_length / batch.cp
    rows = vocabulary_weight(model, batch) / model.hidden
    logits = tokens * np.where(stack.head_sharded_over_tp, rows, rows * batch.tp)
    saved = 2.0 if stack.fused_cross_entropy else 4.0
    whole = FUSED_LOSS_BYTES if stack.fused_cross_entropy else stack.loss_bytes_per_logit or VOCAB_PARALLEL_LOSS_BYTES
    wide = BF16 * tokens * model.hidden
    split = batch.sequence_parallel & (batch.tp > 1)
    # Sequence parallel gathers the input again and scatters its gradient.
    return (whole - saved) * logits + wide + np.where(split, wide + wide / batch.tp, 0.0)

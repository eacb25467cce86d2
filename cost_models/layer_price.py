"""Prices every kind of layer once per core point: seconds by family and direction, saved bytes by recompute mask.

Axes: U core points, C columns (layer kinds, embedding, MTP, head), F families, M distinct recompute masks of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cost_models.compute import Price
from cost_models.dims import Core
from cost_models.inputs import HardwareProfile, Workload
from cost_models.layers import embedding_ops, head_ops, layer_ops, mtp_ops
from cost_models.operator_price import Travel, price_collectives, price_computes
from cost_models.operators import Collective, Gemm, LayerOps, Saved
from cost_models.records import record
from cost_models.strategies import F64, I64, Bool

if TYPE_CHECKING:
    from cost_models.case import Case

FAMILIES = (
    "attention", "gemm", "experts", "memory_bound", "embedding", "head", "host", "tp_comm", "cp_comm", "ep_comm",
)  # fmt: skip
BF16 = 2.0  # bytes
FAMILY_INDEX = {name: i for i, name in enumerate(FAMILIES)}
EP = FAMILY_INDEX["ep_comm"]
# A blocking launch costs its issue and the wait until its end is seen. Fitted to bloom_bench alone, whose sources say that
# blocking "may be" on: scripts/fit_stack_constants.py, mean error 3.6% on fitted families, 4.1% on held-out ones.
BLOCKING_ROUND_TRIP = 3.0
# Of what the host issues after it has waited for the card, the part that the card idles for: long kernels cover the rest.
# Chosen by hand of 1, 0.5 and 0: DeepSeek-V2-Lite on MI355X at micro-batch 12, GPT-OSS on H100 and Qwen3-235B on H800 (all
# all-to-all without drops) are within 5% at 0.5.
DRAINED_FRAC = 0.5
COMPUTE_FAMILIES = tuple(i for i, name in enumerate(FAMILIES) if not name.endswith("_comm"))


@record(eq=False)
class LayerPrices:
    """The price list of a batch. Seconds per layer and micro-batch; bytes per layer and micro-batch; parameter counts."""

    forward_s: F64  # [U, C, F]
    backward_input_s: F64  # [U, C, F]
    backward_weight_s: F64  # [U, C, F]
    recompute_s: F64  # [U, M, C, F]
    saved_bytes: F64  # [U, M, C]
    swappable_bytes: F64  # [U, M, C], the part of saved_bytes that swap can move to the host
    dense_parameters: F64  # [U, C]
    expert_parameters: F64  # [U, C]
    dispatch_intra_s: F64  # [U, C], one dispatch or combine, occupation of the lane inside the node
    dispatch_inter_s: F64  # [U, C]
    masks: tuple[int, ...]

    def of_mask(self, recompute: I64) -> I64:
        """Place of each mask among ``masks``."""
        return np.searchsorted(np.array(self.masks), recompute)

    @cached_property
    def exchanges(self) -> bool:
        """Whether any layer has expert communication."""
        return bool(self.forward_s[:, :, EP].any() or self.backward_input_s[:, :, EP].any())

    @cached_property
    def totals_s(self) -> tuple[F64, F64, F64, F64]:
        """Forward, backward for the input, backward for the weights [U, C], recompute [U, M, C]: over all families."""
        parts = (self.forward_s, self.backward_input_s, self.backward_weight_s, self.recompute_s)
        forward, inputs, weights, again = (part.sum(axis=-1) for part in parts)
        return forward, inputs, weights, again


class _Column:
    """Accumulates one column of the price list. Arrays of families are [F, U] (recompute [M, F, U]) while operators are
    added, so that one operator's seconds are one row."""

    def __init__(self, size: int, masks: Sequence[int]) -> None:
        self.size, self.masks = size, tuple(masks)
        shape = (len(FAMILIES), size)
        self.forward, self.backward_input, self.backward_weight = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.recompute = np.zeros((len(masks), *shape))
        self.forward_kernels: F64 | float = 0.0
        self.backward_kernels: F64 | float = 0.0
        self.again_kernels = np.zeros(
            (size, len(masks))
        )  # [U, M] of the forward's, those that run again in the backward
        self.intra, self.inter = np.zeros(size), np.zeros(size)

    def add(self, family: int, modules: int, price: Price) -> None:
        self.forward[family] += price.forward_s
        self.backward_input[family] += price.backward_input_s
        self.backward_weight[family] += price.backward_weight_s
        self.forward_kernels += price.forward_kernels
        self.backward_kernels += price.backward_kernels
        runs_again = self.again(family, modules, price.forward_s)
        if runs_again.size:
            self.again_kernels[:, runs_again] += np.asarray(price.forward_kernels)[..., None]

    def again(self, family: int, modules: int, seconds: F64) -> NDArray[np.intp]:
        """Adds ``seconds`` under the masks that recompute one of ``modules``, and says which these are."""
        runs_again, _ = masks_with(self.masks, modules)
        if runs_again.size:
            self.recompute[runs_again, family] += seconds
        return runs_again

    def turned(self) -> None:
        """Families last, as the price list has them: [U, F] and [U, M, F]."""
        for name in ("forward", "backward_input", "backward_weight"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name).T))
        self.recompute = np.ascontiguousarray(np.moveaxis(self.recompute, 2, 0))

    def wait_for_host(
        self, issue: F64 | float, issue_back: F64 | float, drained: F64 | float, overlapped: Bool, blocking: bool
    ) -> None:
        """Adds the seconds that the card waits: what issuing outlasts computing, and at least what follows a drained queue."""
        host = FAMILY_INDEX["host"]
        apart = np.where(overlapped, 1.0, 0.0)  # communication that lies under another micro-batch covers nothing here
        busy = self.forward.sum(axis=1) - apart * self.forward[:, EP]
        back = self.backward_input.sum(axis=1) + self.backward_weight.sum(axis=1) - apart * self.backward_input[:, EP]
        again = self.recompute.sum(axis=2) - apart[:, None] * self.recompute[:, :, EP]

        def waits(issue_s: F64 | float, busy_s: F64, least_s: F64 | float) -> F64 | float:
            if blocking:
                return BLOCKING_ROUND_TRIP * issue_s
            return np.maximum(np.maximum(issue_s - busy_s, 0.0), least_s)

        column = lambda value: np.broadcast_to(np.asarray(value, dtype=float), self.size)[:, None]  # noqa: E731
        share = self.again_kernels / np.maximum(column(self.forward_kernels), 1e-12)
        self.recompute[:, :, host] += waits(column(issue) * share, again, column(drained) * share)
        self.forward[:, host] += waits(issue, busy, drained)
        self.backward_input[:, host] += waits(issue_back, back, 0.0)


def price_layers(case: Case, core: Core, masks: Sequence[int]) -> LayerPrices:
    """One pass over the operators of every column."""
    model, hardware, workload = case.model, case.hardware, case.workload
    if workload.stack.short_bursts:
        hardware = replace(hardware, device=replace(hardware.device, sustained_frac=1.0))
    blocks = {kind: layer_ops(kind, model, workload, core) for kind in model.kinds}
    head = head_ops(model, workload, core)
    mtp = mtp_ops(model, workload, core, blocks[model.mtp_layer_kind], head) if model.mtp_modules else LayerOps()
    listed = [*blocks.values(), embedding_ops(model, workload, core), mtp, head]
    computes = price_computes([op for ops in listed for op in ops.computes], hardware, workload, core.size)
    travels = price_collectives([op for ops in listed for op in ops.collectives], hardware, workload, core)
    columns = [_price_column(ops, computes, travels, hardware, workload, core, masks) for ops in listed]
    kept = [[_in_recipe(item, workload) for item in ops.saved] for ops in listed]
    saved = np.stack([_saved_by_mask(items, masks, core.size) for items in kept], axis=2)
    whole = len(model.kinds) if workload.stack.swap_whole_layers else 0
    swappable = [[item for item in items if item.swappable or i < whole] for i, items in enumerate(kept)]
    return LayerPrices(
        forward_s=np.stack([c.forward for c in columns], axis=1),
        backward_input_s=np.stack([c.backward_input for c in columns], axis=1),
        backward_weight_s=np.stack([c.backward_weight for c in columns], axis=1),
        recompute_s=np.stack([c.recompute for c in columns], axis=2),
        saved_bytes=saved,
        swappable_bytes=np.stack([_saved_by_mask(items, masks, core.size) for items in swappable], axis=2),
        dense_parameters=np.stack([np.broadcast_to(o.dense_parameters, core.size) for o in listed], axis=1),
        expert_parameters=np.stack([np.broadcast_to(o.expert_parameters, core.size) for o in listed], axis=1),
        dispatch_intra_s=np.stack([c.intra for c in columns], axis=1),
        dispatch_inter_s=np.stack([c.inter for c in columns], axis=1),
        masks=tuple(masks),
    )


# Bytes that Transformer Engine keeps of a product's input for the weight gradient: the quantised input, of the layout that the
# gradient needs, with a scale per 32 (MXFP8) or 16 elements (NVFP4).
E5M6_BYTES = (
    1.5  # DeepSeek-V3 keeps attention outputs once, in 12 bits, for the attention's backward and the projection's
)
RECIPE_INPUT_BYTES = {"fp8": 1.0, "fp8_block": 1.0, "mxfp8": 1.0 + 1 / 32, "nvfp4": 0.5 + 1 / 16}


def _in_recipe(item: Saved, workload: Workload) -> Saved:
    """The saved tensor as the precision recipe keeps it."""
    narrow = RECIPE_INPUT_BYTES.get(workload.precision, 0.0) / BF16
    if not (item.role and narrow and workload.stack.transformer_engine):
        return item
    besides = E5M6_BYTES / BF16 if workload.stack.fp8_activation_input else 1.0 + narrow
    return replace(item, size_bytes=item.size_bytes * (narrow if item.role == "input" else besides))


@lru_cache(maxsize=4096)
def masks_with(masks: tuple[int, ...], modules: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of the masks that recompute one of ``modules``, and of the others."""
    has = np.array(masks, dtype=np.int64) & modules > 0
    return np.flatnonzero(has), np.flatnonzero(~has)


def _saved_by_mask(items: Sequence[Saved], masks: Sequence[int], size: int) -> F64:
    saved = np.zeros((len(masks), size))
    for item in items:
        _, kept = masks_with(tuple(masks), item.modules)
        if kept.size:
            saved[kept] += item.size_bytes
    return np.ascontiguousarray(saved.T)


def _price_column(
    ops: LayerOps, computes: Mapping[int, Price], travels: Mapping[int, Travel], hardware: HardwareProfile,
    workload: Workload, core: Core, masks: Sequence[int],
) -> _Column:  # fmt: skip
    """Adds up the prices of one column's operators, which are found by ``id``."""
    column = _Column(core.size, masks)
    pools = {"dgrad": np.zeros(core.size), "wgrad": np.zeros(core.size)}
    for op in ops.computes:
        price = computes[id(op)]
        column.add(FAMILY_INDEX[op.family], op.modules, price)
        if isinstance(op, Gemm) and op.weight:
            pools["dgrad"] += price.backward_input_s
            pools["wgrad"] += price.backward_weight_s
    _add_collectives(column, [(op, travels[id(op)]) for op in ops.collectives], hardware, workload, core, pools)
    column.turned()
    _add_host(column, ops, hardware, workload, core)
    return column


def _add_collectives(
    column: _Column, collectives: Sequence[tuple[Collective, Travel]], hardware: HardwareProfile, workload: Workload,
    core: Core, pools: dict[str, F64],
) -> None:  # fmt: skip
    """Exposed communication. What runs under a weight or input gradient is exposed only where it outlasts it."""
    stack, overheads = workload.stack, hardware.overheads
    hidden_frac = overheads.tp_overlap_hidden_frac if stack.overlap_tp else 0.0
    under: dict[str, F64] = {"dgrad": np.zeros(column.size), "wgrad": np.zeros(column.size)}
    attention_s = column.forward[FAMILY_INDEX["attention"]].copy()
    attention_back_s = column.backward_input[FAMILY_INDEX["attention"]].copy()
    for op, travel in collectives:
        family = FAMILY_INDEX[op.family]
        forward, backward = travel.forward_s, travel.backward_s
        if op.op == "dispatch":
            column.intra, column.inter = travel.intra_s, travel.inter_s
        if op.group == "tp":
            forward = forward * (1.0 - hidden_frac)
            if op.backward_overlap and stack.async_tp_backward:
                under[op.backward_overlap] += backward
                backward = np.zeros_like(backward)
            else:
                backward = backward * (1.0 - hidden_frac)
        elif op.group == "cp" and op.op != "all_to_all":  # ring steps run under the attention of the block in hand
            steps = (core.cp - 1.0) / np.maximum(core.cp, 1.0)  # the last block in hand has none to wait for
            forward = _under(forward, steps * attention_s, overheads.overlap_slowdown_frac)
            backward = _under(backward, steps * attention_back_s, overheads.overlap_slowdown_frac)
        column.forward[family] += forward
        column.backward_input[family] += backward
        column.again(family, op.modules, forward)
    for name, seconds in under.items():
        exposed = np.maximum(seconds - pools[name], 0.0)
        column.backward_input[FAMILY_INDEX["tp_comm"]] += exposed
        slowed = (seconds - exposed) * overheads.overlap_slowdown_frac
        column.backward_input[FAMILY_INDEX["gemm"]] += slowed


def _under(wire_s: F64, computing_s: F64, slowdown_frac: float) -> F64:
    """What a collective beside computing adds: what outlasts it, and the computing slowed while both run."""
    hidden = np.minimum(wire_s, computing_s)
    return wire_s - hidden + slowdown_frac * hidden


def _add_host(column: _Column, ops: LayerOps, hardware: HardwareProfile, workload: Workload, core: Core) -> None:
    """Small steps wait for the host: a layer takes at least the time to issue its kernels. Where the host has waited for the
    card (token counts of a mixture of experts), what it issues next is exposed even beside long kernels. Where experts'
    communication runs under another micro-batch, computing alone covers the issue."""
    stack = workload.stack
    per_kernel = hardware.overheads.host_kernel_s * stack.host_cost_factor
    if per_kernel == 0.0 or (stack.cuda_graphs and not stack.graphs_without_experts):
        return
    graphs = stack.cuda_graphs
    host_ops = [op for op in ops.host if not (graphs and op.graphed)]
    if graphs and not host_ops:
        return
    own = 0.0 if graphs else 1.0
    forward_kernels = own * column.forward_kernels + sum(op.forward_kernels for op in host_ops)
    backward_kernels = own * column.backward_kernels + sum(op.backward_kernels for op in host_ops)
    drained = DRAINED_FRAC * per_kernel * sum(np.where(op.drains, op.forward_kernels, 0.0) for op in host_ops)
    column.wait_for_host(
        per_kernel * forward_kernels,
        per_kernel * hardware.overheads.backward_host_frac * backward_kernels,
        drained,
        core.ep_overlap,
        stack.launch_blocking,
    )

"""Operators of the feed-forward half: dense, and mixture of experts with its dispatch."""

from __future__ import annotations

import numpy as np

from cost_models.dims import Core
from cost_models.imbalance import rank_imbalance
from cost_models.inputs import FeedForward, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, tensor_parallel_half
from cost_models.operators import Collective, Gemm, GroupedGemm, HostIssue, LayerOps, MemoryBound, Saved
from cost_models.records import record
from cost_models.strategies import DISPATCHER_CODE, F64, RECOMPUTE_BIT

FULL = RECOMPUTE_BIT["full"]
MLP = RECOMPUTE_BIT["mlp"] | FULL
MOE = RECOMPUTE_BIT["moe"] | FULL
MOE_ACT = RECOMPUTE_BIT["moe_act"] | MOE

# A gather or scatter of token rows reaches about half of a plain copy: SimuMax measured permute at 0.50 of peak bandwidth
# on B200 against 0.666 for element-wise kernels, and 0.19 against 0.91 on A100 PCIe.
PERMUTE_FRAC = 0.6
# Not fused: torch's index_select, and index_add backward, whose atomic sums on 16-bit rows run far below a copy. Primus
# measures 8 ms less a layer of DeepSeek-V2-Lite at micro-batch 12 once the dispatcher no longer permutes (primus_moe).
UNFUSED_PERMUTE_FRAC = 0.3


# A clamped gate with an offset, every step a pass of its own over 16-bit tensors; bytes per output element, forward: bias of
# both halves 8, two clamps 8, scale 4, sigmoid 4, gate product 6, offset 4, product 6, router probability 4. Backward:
# probability 8, product 12, gate product 12, sigmoid 6, scale 4, sum of the gate's branches 6, clamps 12, bias 4, joining the
# halves 8. Counted from the formula of the activation (GPT-OSS model card); no implementation was read.
CLAMPED_PASSES = (44.0, 72.0, 10.0)


def activation_passes(gated: bool, fused: bool) -> tuple[float, float, float]:
    """Bytes per output element forward and backward, and kernels, of the activation (16-bit tensors)."""
    if gated:
        return (6.0, 10.0, 1.0) if fused else (10.0, 20.0, 3.0)
    return (4.0, 6.0, 1.0) if fused else (8.0, 10.0, 2.0)


def _gate_bytes(workload: Workload) -> float:
    """Bytes of an element of the activation's saved input."""
    return 1.0 if workload.stack.fp8_activation_input else BF16


def feed_forward_ops(ffn: FeedForward, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
    """The feed-forward half of a block, without its input norm."""
    ops = LayerOps()
    if ffn.is_moe:
        _moe_ops(ops, ffn, model, workload, core)
    else:
        _dense_ops(ops, float(ffn.width), ffn.gated, model, workload, core, MLP, "mlp")
        size = core.tokens * model.hidden * BF16
        tensor_parallel_half(ops, core, size, size, workload)
    return ops


def _dense_ops(
    ops: LayerOps, width: float, gated: bool, model: ModelSpec, workload: Workload, core: Core, modules: int, name: str
) -> None:
    tokens, f = core.tokens, width / core.tp
    h = np.full_like(core.tp, model.hidden)
    fused = workload.stack.fused_activation or workload.stack.compiled
    forward, backward, kernels = activation_passes(gated, fused)
    up = f * (2 if gated else 1)
    ops.add(
        Gemm(name=f"{name}_up", rows=tokens, cols=up, depth=h, modules=modules),
        MemoryBound(name=f"{name}_activation", forward_bytes=forward * tokens * f, backward_bytes=backward * tokens * f,
                    forward_kernels=kernels, backward_kernels=kernels, modules=modules),
        Gemm(name=f"{name}_down", rows=tokens, cols=h, depth=f, modules=modules),
        Saved(name=f"{name}_up", size_bytes=_gate_bytes(workload) * tokens * up, modules=modules),
        Saved(name=f"{name}_activation", size_bytes=BF16 * tokens * f, modules=modules, role="input"),
    )  # fmt: skip
    if gated and not fused:  # silu output and the product are separate tensors
        ops.add(Saved(name=f"{name}_unfused", size_bytes=BF16 * tokens * f, modules=modules))


def _moe_ops(ops: LayerOps, ffn: FeedForward, model: ModelSpec, workload: Workload, core: Core) -> None:
    """Router, dispatch, grouped products, combine, shared experts. Token rows are spread over ETP x EP ranks."""
    wide, e, k = float(model.hidden), float(ffn.experts), float(ffn.expert_calls)
    h = float(ffn.latent or model.hidden)  # what is dispatched
    tokens = core.tokens_sp  # a rank dispatches its own share of the tokens
    imbalance = rank_imbalance(workload, e, core.ep)
    sent = tokens * k
    received = sent * core.etp * imbalance
    groups = e / core.ep
    f = ffn.width / core.etp
    up = f * (2 if ffn.gated else 1)
    _router(ops, tokens, wide, e + ffn.zero_experts, k)
    if ffn.latent:
        _latent(ops, tokens, wide, h)
    frac = PERMUTE_FRAC if workload.stack.fused_permute else UNFUSED_PERMUTE_FRAC
    _token_moves(ops, core, _Rows(tokens, sent, received), h, frac)
    forward, backward, kernels = activation_passes(ffn.gated, True)
    if not ffn.fusable_activation:
        forward, backward, kernels = CLAMPED_PASSES
    full_h = np.full_like(core.tp, h)
    ops.add(
        GroupedGemm(name="experts_up", rows=received, groups=groups, cols=up, depth=full_h, modules=MOE),
        MemoryBound(name="experts_activation", forward_bytes=forward * received * f,
                    backward_bytes=backward * received * f, forward_kernels=kernels, backward_kernels=kernels,
                    modules=MOE_ACT),
        GroupedGemm(name="experts_down", rows=received, groups=groups, cols=full_h, depth=f, modules=MOE),
        Saved(name="experts_input", size_bytes=BF16 * received * h, modules=MOE, role="input"),
        Saved(name="experts_up", size_bytes=_gate_bytes(workload) * received * up, modules=MOE),
        Saved(name="experts_activation", size_bytes=BF16 * received * f, modules=MOE_ACT, role="input"),
    )  # fmt: skip
    _host_issue(ops, workload, core, groups)
    _dispatch(ops, ffn, core, sent * h * BF16, _Exchange(imbalance, 0.5 if workload.stack.fp8_dispatch else 1.0))
    if ffn.shared_width:
        _dense_ops(ops, float(ffn.shared_width), ffn.gated, model, workload, core, MOE, "shared_experts")
        size = core.tokens * wide * BF16
        tensor_parallel_half(ops, core, size, size, workload)


def _latent(ops: LayerOps, tokens: F64, wide: float, latent: float) -> None:
    """Projection to the size that is dispatched, and back after combine."""
    ones = np.ones_like(tokens)
    ops.add(
        Gemm(name="latent_down", rows=tokens, cols=latent * ones, depth=wide * ones, modules=MOE),
        Gemm(name="latent_up", rows=tokens, cols=wide * ones, depth=latent * ones, modules=MOE),
        Saved(name="latent", size_bytes=BF16 * tokens * 2 * latent, modules=MOE),
    )


def _router(ops: LayerOps, tokens: F64, h: float, e: float, k: float) -> None:
    """Router product, fp32 scores, top-k, probabilities and the token map."""
    ones = np.ones_like(tokens)
    ops.add(
        Gemm(name="router", rows=tokens, cols=e * ones, depth=h * ones, modules=MOE),
        MemoryBound(name="router_scores", forward_bytes=40.0 * tokens * e, backward_bytes=30.0 * tokens * e,
                    forward_kernels=10, backward_kernels=8, modules=MOE),
        Saved(name="router", size_bytes=tokens * (2 * 4 * e + 12 * k), modules=MOE),
    )  # fmt: skip


# Host work of an expert layer, forward and backward, in kernels of the profile's host time (10 us; backward ones 0.6 of it).
# Fitted by hand to steps that the host bounds, milliseconds a layer and micro-batch, forward and backward together:
# DeepSeek-V2-Lite on MI355X 14.1 and 14.4 at micro-batch 1 and 2, whatever the work (primus_moe); Moonlight on H100 about 14.7;
# Qwen3-30B on B200 with the router in a graph 8.8 to 9.2, and on H100 with HybridEP besides no more than 6.6 (megatron_bridge).
# ROUTER: scores, top-k, auxiliary loss, counts by expert and their exchange. DISPATCH: two exchanges, splits, sorts; HybridEP
# sorts and counts in its own kernels. EXPERTS: the modules of the grouped products; EACH_EXPERT: one module per expert.
ROUTER_HOST, DISPATCH_HOST, HYBRID_HOST, EXPERTS_HOST = (220.0, 200.0), (240.0, 300.0), (60.0, 80.0), (160.0, 320.0)
EACH_EXPERT_HOST = (20.0, 40.0)


def _host_issue(ops: LayerOps, workload: Workload, core: Core, groups: F64) -> None:
    """What the host does for an expert layer. Without drops it waits for the counts of the routing before it can size an
    all-to-all, so the card's queue is empty when it issues dispatch and experts; DeepEP and HybridEP exchange counts in their
    own kernels."""
    stack = workload.stack
    hybrid = core.dispatcher == DISPATCHER_CODE["hierarchical-dedup"]
    waits = ~hybrid if not (stack.sync_free_moe or stack.moe_capacity_factor) else np.zeros_like(hybrid)
    dispatch = [np.where(hybrid, few, many) for few, many in zip(HYBRID_HOST, DISPATCH_HOST, strict=True)]
    experts: list[F64 | float] = list(EXPERTS_HOST)
    if not stack.grouped_gemm:
        experts = [one * groups for one in EACH_EXPERT_HOST]
    ops.add(
        HostIssue(name="router", forward_kernels=ROUTER_HOST[0], backward_kernels=ROUTER_HOST[1], graphed=True, modules=MOE),
        HostIssue(name="dispatch", forward_kernels=dispatch[0], backward_kernels=dispatch[1], drains=waits, modules=MOE),
        HostIssue(name="experts", forward_kernels=experts[0], backward_kernels=experts[1], drains=waits, modules=MOE),
    )  # fmt: skip


@record(kw_only=False)
class _Rows:
    """Token rows of a card, [U]: its own tokens, their copies by expert, and what its experts receive."""

    tokens: F64
    sent: F64
    received: F64


def _token_moves(ops: LayerOps, core: Core, rows: _Rows, h: float, frac: float) -> None:
    """Permute before dispatch, sort by expert after it, and both back: each reads and writes token rows.

    A de-duplicating dispatcher (DeepEP, HybridEP) sends tokens as they lie and multiplies them on arrival, so that only
    the sort by expert remains.
    """
    read_write = 2 * BF16 * h
    around = (rows.tokens + rows.sent) * BF16 * h  # one read of each token, one write of each copy
    around = np.where(core.dispatcher == DISPATCHER_CODE["hierarchical-dedup"], 0.0, around)
    ops.add(
        MemoryBound(name="permute", forward_bytes=around, backward_bytes=around, forward_kernels=3, backward_kernels=2,
                    modules=MOE, efficiency_frac=frac),
        MemoryBound(name="sort_by_expert", forward_bytes=2 * read_write * rows.received,
                    backward_bytes=2 * read_write * rows.received, forward_kernels=4, backward_kernels=4, modules=MOE,
                    efficiency_frac=frac),
        MemoryBound(name="unpermute", forward_bytes=around, backward_bytes=around, forward_kernels=3, backward_kernels=3,
                    modules=MOE, efficiency_frac=frac),
    )  # fmt: skip
    if frac < PERMUTE_FRAC:  # weighted by torch, each returned row is kept for the gradient of its probability
        kept = np.where(core.dispatcher == DISPATCHER_CODE["hierarchical-dedup"], 0.0, BF16 * rows.sent * h)
        ops.add(Saved(name="unpermuted", size_bytes=kept, modules=MOE))


@record(kw_only=False)
class _Exchange:
    """``imbalance`` [U]: what the busiest rank receives over the mean; ``narrow``: size of what is dispatched (tokens forward,
    gradients of the combine backward) relative to 16 bit."""

    imbalance: F64
    narrow: float


def _dispatch(ops: LayerOps, ffn: FeedForward, core: Core, sent_bytes: F64, exchange: _Exchange) -> None:
    """Dispatch and combine over EP; the busiest rank receives ``imbalance`` times the mean. ETP gathers its rows."""
    imbalance = exchange.imbalance
    size = np.where(core.ep > 1, sent_bytes * imbalance, 0.0)
    sent = exchange.narrow * size
    for name, forward, backward in (("dispatch", sent, size), ("combine", size, sent)):
        ops.add(Collective(name=name, op="dispatch", group="ep", forward_bytes=forward, backward_bytes=backward, modules=MOE,
                           family="ep_comm", feed_forward=ffn))  # fmt: skip
    if (core.etp > 1).any():
        gathered = np.where(core.etp > 1, sent_bytes * imbalance * core.etp, 0.0)
        ops.add(
            Collective(name="etp_gather", op="all_gather", group="etp", forward_bytes=gathered, backward_bytes=gathered,
                       backward_op="reduce_scatter", modules=MOE, family="ep_comm"),
            Collective(name="etp_scatter", op="reduce_scatter", group="etp", forward_bytes=gathered,
                       backward_bytes=gathered, backward_op="all_gather", modules=MOE, family="ep_comm"),
        )  # fmt: skip

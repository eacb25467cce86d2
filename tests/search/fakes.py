"""A model, a machine, a space and an evaluation small enough to search by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from autodeploy.search.request import SearchRequest
from autodeploy.search.space import WalkCounts
from autodeploy.strategy.axes import among
from cost_models.case import Case
from cost_models.inputs import (
    COLLECTIVE_OPS,
    Attention,
    CollectiveCurve,
    Device,
    FeedForward,
    HardwareProfile,
    LayerKind,
    ModelSpec,
    Tier,
    Workload,
)
from cost_models.step import StepCost
from cost_models.strategies import RECOMPUTE_BIT, Layout, StrategyBatch, single

GIB = 2**30
LAYERS = 8
MODEL = ModelSpec(
    name="tiny",
    hidden=64,
    vocab=256,
    layers=(
        (
            LayerKind(
                attention=Attention(query_heads=8, kv_heads=8, head_dim=8, v_head_dim=8),
                feed_forward=FeedForward(width=256),
            ),
            LAYERS,
        ),
    ),
)
_CURVES = dict.fromkeys(COLLECTIVE_OPS, CollectiveCurve(latency_s=1e-6, efficiency_frac=0.9))
HARDWARE = HardwareProfile(
    name="toy",
    device=Device(
        name="toy",
        vendor="nvidia",
        peak_flop_per_s={"bf16": 1e12},
        hbm_bytes=16 * GIB,
        usable_bytes=10 * GIB,
        hbm_bandwidth_bytes_per_s=1e12,
        compute_units=8,
        gemm={},
        grouped_gemm={},
        attention={},
        memory_bound_frac=0.8,
        kernel_launch_s=1e-6,
    ),
    tiers=(Tier(name="node", cards=8, bandwidth_bytes_per_s=1e9, curves=_CURVES),),
)
WORKLOAD = Workload(seq_length=128, global_batch=32)


def request(**changes: object) -> SearchRequest:
    """``model``, ``hardware`` and ``workload`` change the case."""
    of_case = {name: changes.pop(name) for name in ("model", "hardware", "workload") if name in changes}
    case = replace(Case(model=MODEL, hardware=HARDWARE, workload=WORKLOAD), **of_case)  # type: ignore[arg-type]
    given: dict[str, object] = {"case": case, "devices": (16,), "backend": "any", "method": "exhaustive"}
    return SearchRequest(**{**given, **changes})  # type: ignore[arg-type]


def layout(pp: int, vpp: int) -> Layout:
    counts = np.zeros((pp * vpp, 4))
    counts[:, 0] = LAYERS / (pp * vpp)
    counts[0, 1] = counts[-1, 3] = 1
    return Layout(pp=pp, vpp=vpp, counts=counts)


def space(request: SearchRequest, devices: int, counts: WalkCounts) -> Iterator[StrategyBatch]:
    """Powers of two; one batch for each (tp, pp)."""
    for tp, pp in product((1, 2, 4), (1, 2, 4)):
        if devices % (tp * pp) or tp not in among(request.axes.tp, (1, 2, 4)):
            counts.rejected["cards-divide"] += 1
            continue
        dp = devices // (tp * pp)
        rows = [
            single(
                layout=layout(pp, vpp), tp=tp, pp=pp, vpp=vpp, dp=dp, micro_batch=mbs, recompute=mask,
                schedule="interleaved" if vpp > 1 else "1f1b",
            )
            for vpp, mbs, mask in product((1, 2) if pp > 1 else (1,), (1, 2), (0, RECOMPUTE_BIT["full"]))
            if 32 % (dp * mbs) == 0
        ]  # fmt: skip
        counts.core += len(rows)
        if rows:
            yield StrategyBatch.concatenate(rows)


def evaluate(case: Case, batch: StrategyBatch, *, per_rank: bool = False) -> StepCost:
    """Fewer tensor ranks and chunks are faster; recompute costs a third and saves memory; swap costs a little."""
    n = len(batch)
    micro_batches = batch.micro_batches(case.workload.global_batch)
    compute = 1.0 + 0.1 * batch.tp - 0.02 * batch.micro_batch + 0.3 * (batch.recompute > 0) + 0.2 * batch.swap_frac
    bubble = (batch.pp - 1) / (batch.vpp * micro_batches)
    static = 24.0 / (batch.tp * batch.pp) * (1 - 0.5 * batch.offload_frac)
    saved = 4.0 * batch.micro_batch / np.where(batch.recompute > 0, 8, 1) / batch.tp * (1 - batch.swap_frac)
    reserved = (static + saved + 0.1 * batch.micro_batch_group) * GIB
    zero = np.zeros(n, dtype=np.int64)
    return StepCost(
        step_s=compute + bubble, peak_reserved_bytes=reserved, peak_allocated_bytes=0.9 * reserved, memory_rank=zero,
        critical_rank=zero, feasible=reserved <= case.hardware.usable_bytes, bubble_s=bubble, model_flop=np.full(n, 1e12),
        time_s={"compute": compute, "bubble": bubble}, memory_bytes={"weights": reserved},
        rank_busy_s=np.tile(compute[:, None], (1, int(batch.pp.max()))) if per_rank else None,
        rank_memory_bytes={"weights": np.tile(reserved[:, None], (1, int(batch.pp.max())))} if per_rank else None,
    )  # fmt: skip


def valid(request: SearchRequest, batch: StrategyBatch) -> np.ndarray:
    return np.ones(len(batch), dtype=bool)

"""Mixers whose state runs along the sequence channel by channel: bound by memory, no matrix products between projections.

The state stays on the chip: a fused scan reads its inputs and writes its output once, and the backward pass computes the
states again. Source: Mamba, arXiv 2312.00752, section 3.3.2; Griffin, arXiv 2402.19427, section 4.2 and appendix A.
"""

from __future__ import annotations

from cost_models.dims import Core
from cost_models.inputs import Attention, Workload
from cost_models.mixers.core_attention import BF16, CORE, FULL
from cost_models.operators import LayerOps, MemoryBound, Saved


def no_flop(a: Attention, workload: Workload) -> float:
    """Element-wise work, which model FLOPs do not count."""
    return 0.0


def add_scan(ops: LayerOps, core: Core, read: float, written: float, saved: float) -> None:
    """``read`` and ``written`` elements per token of the scan and its element-wise neighbours, unsharded; ``saved`` kept."""
    share = BF16 * core.tokens / core.tp
    moved = (read + written) * share
    ops.add(
        MemoryBound(name="scan", forward_bytes=moved, backward_bytes=2.5 * moved, forward_kernels=4, backward_kernels=6,
                    modules=CORE),
        Saved(name="scan", size_bytes=saved * share, modules=FULL, swappable=True),
    )  # fmt: skip

"""What calibration works on: columns of measured rows, in SI units.

Axis: R rows. All arrays are float64 [R].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTable:
    """C[m, n] = A[m, k] B[k, n] of one dtype. ``quantized``: the time holds the quantisation of A as well."""

    dtype: str
    m: F64
    n: F64
    k: F64
    seconds: F64
    source: str
    quantized: bool = False
    layout: str = "forward"  # forward (TN), dgrad (NN) or wgrad (NT, fp32 accumulation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGemmTable:
    """``groups`` products of ``m`` rows each, [m, k] x [k, n], in one kernel. ``layout`` as in GemmTable."""

    dtype: str
    groups: F64
    m: F64
    n: F64
    k: F64
    seconds: F64
    source: str
    layout: str = "forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeTable:
    """Experts of one layer, balanced: gather, gate-up product, activation, down product, combination, in one time."""

    dtype: str
    tokens: F64
    hidden: F64
    width: F64
    top_k: F64
    experts: F64
    seconds: F64
    source: str

    @property
    def tokens_per_expert(self) -> F64:
        return self.tokens * self.top_k / self.experts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionTable:
    """Causal fused attention. ``backward`` rows count 2.5 x the forward FLOPs."""

    kernel: str
    head_dim: F64  # of queries and keys
    v_head_dim: F64
    batch: F64
    seq: F64
    heads: F64
    seconds: F64
    source: str
    backward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """One collective, ``message_bytes`` as nccl-tests defines the size. ``nodes`` 1: inside a node."""

    op: str  # of cost_models.inputs.COLLECTIVE_OPS
    ranks: F64
    nodes: int
    message_bytes: F64
    seconds: F64
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationLog:
    """Step times of one training run, warm-up left out."""

    seconds: F64
    source: str
    program: str  # megatron | mindspeed
    arguments: Mapping[str, str] = field(default_factory=dict)  # as the program printed them

    @property
    def median_s(self) -> float:
        return float(np.median(self.seconds))


Table = GemmTable | GroupedGemmTable | MoeTable | AttentionTable | CollectiveTable | IterationLog

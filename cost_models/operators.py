"""What a layer executes, as data: each operator names its sizes; ``compute`` and ``communication`` price it.

Axis: U core points (see ``dims.Core``). ``modules`` is the bit mask of the recompute modules that contain the operator:
it runs again in the backward pass when the strategy recomputes any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cost_models.inputs import FeedForward
from cost_models.records import record
from cost_models.strategies import F64, Bool


@record
class Gemm:
    """``batch`` independent products rows x cols x depth (input rows x depth, weight depth x cols)."""

    name: str
    rows: F64
    cols: F64
    depth: F64
    batch: F64 | float = 1.0
    modules: int = 0
    weight: bool = (
        True  # False: both operands are activations (attention scores), so the backward has two input products
    )
    family: str = "gemm"


@record
class GroupedGemm:
    """``groups`` local experts, ``rows`` tokens on this card in total, one product of width cols x depth each."""

    name: str
    rows: F64
    groups: F64
    cols: F64
    depth: F64
    modules: int = 0
    family: str = "experts"


@record
class FusedAttention:
    """Flash-style attention: score pairs per head, causal already counted in ``pairs`` (tokens x keys seen)."""

    heads: F64  # query heads on this card
    queries: F64  # tokens per sequence on this card
    pairs: F64  # (query, key) pairs per head on this card, over all sequences of the micro-batch
    qk_dim: float
    v_dim: float
    sequences: F64
    modules: int = 0
    family: str = "attention"


@record
class MemoryBound:
    """An element-wise or reduction step: bytes moved and kernels launched in each direction."""

    name: str
    forward_bytes: F64
    backward_bytes: F64
    forward_kernels: float = 1.0
    backward_kernels: float = 1.0
    modules: int = 0
    efficiency_frac: float = 1.0  # relative to the device's memory-bound share (gather and scatter are slower)
    family: str = "memory_bound"


@record
class HostIssue:
    """Work of the host beside the kernels that are priced, counted in kernels: small torch operations, Python, launches by
    expert. ``graphed``: a graph of attention and router spares it. ``drains``: the host waits for the card before it, so that
    the card waits for the host afterwards."""

    name: str
    forward_kernels: F64 | float
    backward_kernels: F64 | float
    graphed: bool = False
    drains: Bool | bool = False  # [U]
    modules: int = 0


@record
class Collective:
    """Communication inside a layer. ``backward_overlap`` names what its backward half runs under: "", "dgrad", "wgrad"."""

    name: str
    op: str  # all_reduce | all_gather | reduce_scatter | all_to_all | dispatch
    group: str  # tp | cp | ep | etp
    forward_bytes: F64
    backward_bytes: F64
    modules: int = 0
    family: str = "tp_comm"
    backward_overlap: str = ""
    backward_op: str = ""  # defaults to op
    feed_forward: FeedForward | None = None  # dispatch only: top-k and experts decide how many copies cross a node


@record
class Saved:
    """A tensor kept for the backward pass; dropped when any of ``modules`` is recomputed."""

    name: str
    size_bytes: F64
    modules: int = 0
    swappable: bool = False  # among the tensors of the attention half that swap moves to the host
    role: str = ""  # "input": kept only for a weight gradient; "input too": kept in 16 bit for another reason besides


@dataclass(slots=True, eq=False, repr=False)
class LayerOps:
    """Everything one layer does, plus the parameters it holds on a card (counts, [U])."""

    computes: list[Gemm | GroupedGemm | FusedAttention | MemoryBound] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)
    host: list[HostIssue] = field(default_factory=list)
    dense_parameters: F64 | float = 0.0  # sharded over TP or replicated; optimizer state over DP x CP
    expert_parameters: F64 | float = 0.0  # routed experts; optimizer state over expert DP

    def add(self, *items: Gemm | GroupedGemm | FusedAttention | MemoryBound | Collective | Saved | HostIssue) -> None:
        for item in items:
            if isinstance(item, Saved):
                self.saved.append(item)
            elif isinstance(item, HostIssue):
                self.host.append(item)
            elif isinstance(item, Collective):
                self.collectives.append(item)
            else:
                self.computes.append(item)

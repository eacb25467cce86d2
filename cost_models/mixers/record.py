"""A token mixer as a record: its projections, stated once, give parameters, weight shapes, FLOPs and GEMMs.

Axis: U core points (see ``dims.Core``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.buckets import LayerParameters
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL, tensor_parallel_half
from cost_models.operators import Gemm, LayerOps
from cost_models.records import record
from cost_models.strategies import F64

SPLITS = ("column", "row", "whole")  # outputs over TP, inputs over TP, or on every rank (run on the sequence's share)


@record
class Projection:
    """One linear map of every token, ``inputs`` -> ``outputs``, unsharded."""

    name: str
    inputs: int
    outputs: int
    split: str = "column"
    modules: int = FULL

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"Projection.split = {self.split!r}: must be one of {', '.join(SPLITS)}")

    @property
    def elements(self) -> int:
        return self.inputs * self.outputs


def no_others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """A mixer that is its projections and nothing else."""
    return LayerParameters()


def gathers_hidden(a: Attention, hidden: int) -> int:
    return hidden


@record
class Mixer:
    """One kind of token mixer."""

    needs: tuple[str, ...] = ()  # fields of ``Attention`` that must be > 0 beside heads and head sizes
    projections: Callable[[Attention, int], tuple[Projection, ...]]  # of the hidden size
    others: Callable[[Attention, int, bool], LayerParameters] = no_others  # biases, norms, convolutions, scalars
    mixing_flop: Callable[[Attention, Workload], float]  # forward, per token, beside the projections
    add_mixing: Callable[[LayerOps, Attention, ModelSpec, Workload, Core], None]  # operators between the projections
    gathered: Callable[[Attention, int], int] = gathers_hidden  # columns that sequence parallelism gathers
    grouped_heads: bool = False  # query heads must divide by kv_heads, and TP may exceed those
    splits_context: bool = True  # whether training programs split one sequence of it over CP

    def parameters(self, a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
        """Of the whole mixer, in three buckets."""
        shared = self.projections(a, hidden)
        sharded = sum(p.elements for p in shared if p.split != "whole")
        whole = sum(p.elements for p in shared if p.split == "whole")
        return LayerParameters(sharded, whole) + self.others(a, hidden, norm_bias)

    def weights(self, a: Attention, hidden: int, tp: F64) -> list[F64]:
        """Elements of each projection on a card, [U] each."""
        return [np.full_like(tp, p.elements) / (1.0 if p.split == "whole" else tp) for p in self.projections(a, hidden)]

    def flop(self, a: Attention, hidden: int, workload: Workload) -> float:
        """Forward FLOPs per token."""
        return 2.0 * sum(p.elements for p in self.projections(a, hidden)) + self.mixing_flop(a, workload)

    def ops(self, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> LayerOps:
        """The attention half of a block, without its input norm."""
        ops = LayerOps()
        for projection in self.projections(a, model.hidden):
            ops.add(_gemm(projection, core))
        self.add_mixing(ops, a, model, workload, core)
        gathered = core.tokens * self.gathered(a, model.hidden) * BF16
        tensor_parallel_half(ops, core, gathered, core.tokens * model.hidden * BF16, workload)
        return ops


def _gemm(p: Projection, core: Core) -> Gemm:
    one = np.ones_like(core.tp)
    rows = core.tokens_norm if p.split == "whole" else core.tokens
    cols = p.outputs / core.tp if p.split == "column" else p.outputs * one
    depth = p.inputs / core.tp if p.split == "row" else p.inputs * one
    return Gemm(name=p.name, rows=rows, cols=cols, depth=depth, modules=p.modules)

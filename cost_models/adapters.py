"""LoRA: a product of rank r beside every linear layer is trained, everything else is frozen.

Each weight [in, out] gets A [in, r] and B [r, out]: r (in + out) parameters; its own weight gradient is not computed, its
input gradient is.  Source: Hu et al. 2021 (arXiv 2106.09685); target layers as in Megatron-Bridge (linear_qkv, linear_proj,
linear_fc1, linear_fc2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cost_models.compute import Price
from cost_models.dims import core_points
from cost_models.inputs import ModelSpec, Workload
from cost_models.layers import layer_ops
from cost_models.operators import Gemm, GroupedGemm
from cost_models.strategies import Layout, single

Priced = Callable[[Gemm | GroupedGemm], Price]
BARE = ("head", "embedding")  # families without an adapter


def has_adapter(op: object) -> bool:
    """Whether the operator is a linear layer that an adapter stands beside."""
    if isinstance(op, Gemm):
        return op.weight and op.family not in BARE and op.name != "router"
    return isinstance(op, GroupedGemm)


def adapter_parameters(model: ModelSpec, rank: int) -> float:
    """Parameters of all adapters."""
    layout = Layout(pp=1, vpp=1, counts=np.zeros((1, len(model.kinds) + 3)))
    workload = Workload(seq_length=1, global_batch=1)
    core = core_points(single(layout=layout), workload)
    total = 0.0
    for kind, count in model.layers:
        total += count * rank * sum(_ends(op) for op in layer_ops(kind, model, workload, core).computes)
    return total


def _ends(op: object) -> float:
    """in + out of a linear layer, over its copies; 0 of anything else."""
    if isinstance(op, GroupedGemm):
        return float(np.max(op.groups * (op.depth + op.cols)))
    return float(np.max(op.batch * (op.depth + op.cols))) if isinstance(op, Gemm) and has_adapter(op) else 0.0


def with_adapter(op: object, price: Price, rank: int, priced: Priced) -> Price:
    """The operator frozen, with its adapter's two products where it has one."""
    if not isinstance(op, Gemm | GroupedGemm) or (isinstance(op, Gemm) and not op.weight):
        return price
    frozen = replace(
        price, backward_weight_s=np.zeros_like(price.backward_weight_s), backward_kernels=price.backward_kernels / 2
    )
    if not has_adapter(op):
        return frozen
    down = priced(replace(op, cols=np.full_like(op.cols, rank)))
    up = priced(replace(op, depth=np.full_like(op.depth, rank)))
    return Price(
        *(getattr(frozen, name) + getattr(down, name) + getattr(up, name) for name in Price.__dataclass_fields__)
    )

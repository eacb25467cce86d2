"""Mamba-2: z, x, B, C, dt; convolution with bias; A, D, dt bias; gated norm. Source: arXiv 2405.21060."""

from __future__ import annotations

from cost_models.buckets import LayerParameters
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.chunked import Chunked, add_chunked, chunk_flop, exchange_heads
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps


def _shape(a: Attention) -> Chunked:
    return Chunked(
        heads=a.value_heads,
        state=a.state_dim,
        value_dim=a.v_head_dim,
        key_columns=2 * a.state_groups * a.state_dim,
        gate_columns=a.value_heads * (a.v_head_dim + 1),
    )


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    shape = _shape(a)
    columns = shape.key_columns + shape.inner + shape.gate_columns
    return (
        Projection(name="in_proj", inputs=hidden, outputs=columns),
        Projection(name="attention_out", inputs=shape.inner, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    shape = _shape(a)
    convolution = (shape.inner + shape.key_columns) * (a.conv_kernel + 1)
    return LayerParameters(convolution + 3 * shape.heads + (0 if a.plain_output else shape.inner), 0)


def _mixing_flop(a: Attention, workload: Workload) -> float:
    return chunk_flop(_shape(a))


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    add_chunked(ops, _shape(a), workload, core)
    exchange_heads(ops, _shape(a), core)


MAMBA = Mixer(
    needs=("value_heads", "state_dim", "state_groups", "conv_kernel"),
    projections=_projections,
    others=_others,
    mixing_flop=_mixing_flop,
    add_mixing=_add_mixing,
)

"""Kimi Delta Attention: a gated delta rule with a decay per channel. Source: Kimi Linear, arXiv 2510.26692, section 3.

``gate_rank`` is the rank of the decay's and the output gate's projections, 0 where they are full (Ling 2.5).
"""

from __future__ import annotations

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.chunked import Chunked, add_chunked, chunk_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps, MemoryBound


def _shape(a: Attention) -> Chunked:
    keys, inner = a.query_heads * a.head_dim, a.value_heads * a.v_head_dim
    return Chunked(
        heads=a.value_heads,
        state=a.head_dim,
        value_dim=a.v_head_dim,
        key_columns=2 * keys,
        gate_columns=keys + inner + a.value_heads,
    )


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    """Queries, keys and values with the step size; decay and output gate; output."""
    shape = _shape(a)
    keys = shape.key_columns // 2
    mixed = shape.key_columns + shape.inner + shape.heads
    gates: tuple[Projection, ...] = (Projection(name="gates", inputs=hidden, outputs=keys + shape.inner),)
    if a.gate_rank:
        gates = (
            Projection(name="gates_down", inputs=hidden, outputs=2 * a.gate_rank, split="whole"),
            Projection(name="gates_up", inputs=a.gate_rank, outputs=keys + shape.inner),
        )
    out = Projection(name="attention_out", inputs=shape.inner, outputs=hidden, split="row")
    return (Projection(name="in_proj", inputs=hidden, outputs=mixed), *gates, out)


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Convolutions of queries, keys and values; a decay rate per head and its bias per channel; the norm of a head."""
    shape = _shape(a)
    convolution = (shape.key_columns + shape.inner) * a.conv_kernel
    return LayerParameters(convolution + shape.heads + shape.key_columns // 2, norm_weights(a.v_head_dim, norm_bias))


def _mixing_flop(a: Attention, workload: Workload) -> float:
    return chunk_flop(_shape(a))


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    """As a gated delta net, and the decays of a chunk accumulated and applied per channel in fp32."""
    shape = _shape(a)
    add_chunked(ops, shape, workload, core)
    decays = core.tokens * shape.key_columns / 2 / core.tp
    ops.add(MemoryBound(name="decay", forward_bytes=12.0 * decays, backward_bytes=20.0 * decays, forward_kernels=2,
                        backward_kernels=3))  # fmt: skip


KDA = Mixer(
    needs=("value_heads", "conv_kernel"),
    projections=_projections,
    others=_others,
    mixing_flop=_mixing_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

"""Lightning attention: q, k, v, output gate, output, one norm. Source: MiniMax-Text-01 modelling code."""

from __future__ import annotations

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.chunked import Chunked, add_chunked, chunk_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps


def _shape(a: Attention) -> Chunked:
    heads = a.value_heads or a.query_heads
    return Chunked(
        heads=heads,
        state=a.head_dim,
        value_dim=a.v_head_dim,
        key_columns=2 * a.query_heads * a.head_dim,
        gate_columns=heads * a.v_head_dim,
    )


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    shape = _shape(a)
    columns = shape.key_columns + shape.inner + shape.gate_columns
    return (
        Projection(name="in_proj", inputs=hidden, outputs=columns),
        Projection(name="attention_out", inputs=shape.inner, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    return LayerParameters(0, norm_weights(_shape(a).inner, norm_bias))


def _mixing_flop(a: Attention, workload: Workload) -> float:
    return chunk_flop(_shape(a))


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    add_chunked(ops, _shape(a), workload, core)


LIGHTNING = Mixer(
    projections=_projections,
    others=_others,
    mixing_flop=_mixing_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

"""Matrix LSTM in its chunked form: queries, keys, values, an output gate, input and forget gates per head, a norm.

Source: xLSTM 7B, arXiv 2503.13427, section 3.
"""

from __future__ import annotations

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.chunked import Chunked, add_chunked, chunk_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps


def _shape(a: Attention) -> Chunked:
    return Chunked(
        heads=a.value_heads,
        state=a.head_dim,
        value_dim=a.v_head_dim,
        key_columns=2 * a.query_heads * a.head_dim,
        gate_columns=a.value_heads * (a.v_head_dim + 2),
    )


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    shape = _shape(a)
    return (
        Projection(name="in_proj", inputs=hidden, outputs=shape.key_columns + shape.inner + shape.gate_columns),
        Projection(name="attention_out", inputs=shape.inner, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    shape = _shape(a)
    return LayerParameters(2 * shape.heads + norm_weights(shape.inner, norm_bias))


def _mixing_flop(a: Attention, workload: Workload) -> float:
    return chunk_flop(_shape(a))


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    add_chunked(ops, _shape(a), workload, core)


MLSTM = Mixer(
    needs=("value_heads",),
    projections=_projections,
    others=_others,
    mixing_flop=_mixing_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

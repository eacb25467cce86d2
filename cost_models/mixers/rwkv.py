"""RWKV-4 time mixing: key, value and receptance, a decaying sum per channel, the output. Source: RWKV, arXiv 2305.13048.

``query_heads`` x ``head_dim`` are the channels.
"""

from __future__ import annotations

from cost_models.buckets import LayerParameters
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.record import Mixer, Projection
from cost_models.mixers.scan import add_scan, no_flop
from cost_models.operators import LayerOps


def _channels(a: Attention) -> int:
    return a.query_heads * a.head_dim


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    return (
        Projection(name="in_proj", inputs=hidden, outputs=3 * _channels(a)),
        Projection(name="attention_out", inputs=_channels(a), outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Decay and bonus per channel; the three token-shift weights of the input."""
    return LayerParameters(2 * _channels(a), 3 * hidden)


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    channels = _channels(a)
    add_scan(ops, core, read=7.0 * channels, written=5.0 * channels, saved=5.0 * channels)


RWKV = Mixer(
    projections=_projections,
    others=_others,
    mixing_flop=no_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

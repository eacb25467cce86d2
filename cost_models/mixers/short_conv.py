"""Gated short convolution: three gates of the hidden size, a depthwise convolution, the output. Source: LFM2 modelling code.

``query_heads`` x ``head_dim`` are the channels; ``qkv_bias`` gives all three parts a bias (``conv_bias`` of LFM2).
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
    biased = 4 * _channels(a) if a.qkv_bias else 0
    return LayerParameters(_channels(a) * a.conv_kernel + biased, hidden if a.qkv_bias else 0)


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    channels = _channels(a)
    add_scan(ops, core, read=5.0 * channels, written=3.0 * channels, saved=5.0 * channels)


SHORT_CONV = Mixer(
    needs=("conv_kernel",),
    projections=_projections,
    others=_others,
    mixing_flop=no_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

"""Mamba-1: a selective scan with one state vector per channel. Source: Mamba, arXiv 2312.00752, section 3.

``value_heads`` x ``v_head_dim`` are the inner channels. ``qk_norm`` adds Jamba's norms of step size, B and C.
"""

from __future__ import annotations

import numpy as np

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL
from cost_models.mixers.record import Mixer, Projection
from cost_models.mixers.scan import add_scan, no_flop
from cost_models.operators import Collective, LayerOps


def _inner(a: Attention) -> int:
    return a.value_heads * a.v_head_dim


def _selected(a: Attention) -> int:
    """Columns that choose: the step size's latent, B and C."""
    return a.dt_rank + 2 * a.state_dim


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    inner = _inner(a)
    return (
        Projection(name="in_proj", inputs=hidden, outputs=2 * inner),
        Projection(name="select", inputs=inner, outputs=_selected(a), split="row"),
        Projection(name="dt", inputs=a.dt_rank, outputs=inner),
        Projection(name="attention_out", inputs=inner, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Convolution with bias, A, D, step-size bias."""
    norms = norm_weights(_selected(a), norm_bias) if a.qk_norm else 0
    return LayerParameters(_inner(a) * (a.conv_kernel + 1 + a.state_dim + 2), norms)


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    inner = _inner(a)
    add_scan(ops, core, read=6.0 * inner, written=4.0 * inner, saved=6.0 * inner)
    size = np.where(core.tp > 1, core.tokens * _selected(a) * BF16, 0.0)  # partial sums of the row-parallel product
    ops.add(Collective(name="select_reduce", op="all_reduce", group="tp", forward_bytes=size, backward_bytes=size,
                       modules=FULL))  # fmt: skip


MAMBA1 = Mixer(
    needs=("value_heads", "state_dim", "dt_rank", "conv_kernel"),
    projections=_projections,
    others=_others,
    mixing_flop=no_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

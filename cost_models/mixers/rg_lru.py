"""Real-gated linear recurrent unit between two branches. Source: Griffin, arXiv 2402.19427, section 2.3 and 2.4.

``value_heads`` x ``v_head_dim`` is the recurrent width; the two gates are block-diagonal with one block per head.
"""

from __future__ import annotations

from cost_models.buckets import LayerParameters
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.record import Mixer, Projection
from cost_models.mixers.scan import add_scan, no_flop
from cost_models.operators import LayerOps


def _width(a: Attention) -> int:
    return a.value_heads * a.v_head_dim


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    width = _width(a)
    return (
        Projection(name="branches", inputs=hidden, outputs=2 * width),
        # a block of v_head_dim x v_head_dim for each head: every column is a product of one head's inputs
        Projection(name="gates", inputs=a.v_head_dim, outputs=2 * width),
        Projection(name="attention_out", inputs=width, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Convolution with bias, the decay, biases of gates and branches."""
    width = _width(a)
    biased = 2 * width if a.qkv_bias else 0
    return LayerParameters(width * (a.conv_kernel + 1) + 3 * width + biased, hidden if a.output_bias else 0)


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    """The recurrence itself runs in fp32: its two inputs and its output count twice."""
    width = _width(a)
    add_scan(ops, core, read=9.0 * width, written=6.0 * width, saved=8.0 * width)


RG_LRU = Mixer(
    needs=("value_heads", "conv_kernel"),
    projections=_projections,
    others=_others,
    mixing_flop=no_flop,
    add_mixing=_add_mixing,
    splits_context=False,
)

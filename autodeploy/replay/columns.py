"""Segments of one layer of every column of the price list, as the simulator takes them.

Axes: N strategies, C columns of the price list (layer kinds, embedding, MTP, head), K segments.
"""

from __future__ import annotations

import numpy as np

from autodeploy.replay.groups import MOE, MOE_ACT
from autodeploy.schedule import SEGMENTS, Segment
from cost_models.layer_price import EP, FAMILY_INDEX
from cost_models.step.group import FULL, PricedGroup
from cost_models.step.lanes import lane_shares
from cost_models.strategies import F64, I64

EXPERTS, MEMORY_BOUND = FAMILY_INDEX["experts"], FAMILY_INDEX["memory_bound"]


def column_segments(group: PricedGroup, mask: I64, pipelined: int = 0) -> F64:
    """Seconds of each segment of one layer of every column, under the recompute masks of index `mask`; [N, C, K].

    Experts: the grouped products with the memory-bound work of the expert module (permutation, activation, router).
    Attention: everything else but expert communication. With `pipelined` > 1 both lanes keep their whole occupation (a
    lane order cuts them in pieces); else the two lanes add up to what the price list says of one dispatch.
    """
    prices, point = group.table.prices, group.table.point
    module_s = prices.recompute_s[point, prices.masks.index(MOE)][:, :, MEMORY_BOUND]
    forward, again = prices.forward_s[point], prices.recompute_s[point, mask]
    share = _ratio(module_s, forward[:, :, MEMORY_BOUND])
    seconds = np.zeros((*forward.shape[:2], SEGMENTS))
    _computing(seconds, forward, share * forward[:, :, MEMORY_BOUND], Segment.ATTENTION_F, Segment.EXPERTS_F)
    _computing(seconds, again, _recomputed_module_s(group, mask), Segment.ATTENTION_R, Segment.EXPERTS_R)
    for part, attention, experts in (
        (prices.backward_input_s[point], Segment.ATTENTION_B, Segment.EXPERTS_B),
        (prices.backward_weight_s[point], Segment.ATTENTION_W, Segment.EXPERTS_W),
    ):
        _computing(seconds, part, share * part[:, :, MEMORY_BOUND], attention, experts)
    inter, intra = lane_shares(group, pipelined)
    for way, source in (("F", forward), ("R", again), ("B", prices.backward_input_s[point])):
        for name in ("DISPATCH", "COMBINE"):
            seconds[:, :, Segment[f"{name}_INTER_{way}"]] = inter * source[:, :, EP] / 2
            seconds[:, :, Segment[f"{name}_INTRA_{way}"]] = intra * source[:, :, EP] / 2
    return np.maximum(seconds, 0.0)


def _computing(seconds: F64, families: F64, module_s: F64, attention: int, experts: int) -> None:
    seconds[:, :, experts] = families[:, :, EXPERTS] + module_s
    seconds[:, :, attention] = families.sum(axis=2) - families[:, :, EP] - seconds[:, :, experts]


def _recomputed_module_s(group: PricedGroup, mask: I64) -> F64:
    """Memory-bound seconds of the expert module that run again, [N, C]."""
    prices, point = group.table.prices, group.table.point
    masks = np.array(prices.masks)[mask]
    whole = prices.recompute_s[point, prices.masks.index(MOE)][:, :, MEMORY_BOUND]
    activation = prices.recompute_s[point, prices.masks.index(MOE_ACT)][:, :, MEMORY_BOUND]
    all_of_it = ((masks & (MOE | FULL)) > 0)[:, None]
    part = np.where(((masks & MOE_ACT) > 0)[:, None], activation, 0.0)
    found = np.where(all_of_it, whole, part)
    return np.minimum(found, prices.recompute_s[point, mask][:, :, MEMORY_BOUND])


def _ratio(part: F64, whole: F64) -> F64:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)

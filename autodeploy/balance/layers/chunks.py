"""Placements whose largest chunk is least, rank sums aside: what sets the pace where chunks of two directions overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.balance.layers.balance import BalanceOptions, balance_layers
from autodeploy.balance.layers.items import LayerItems
from autodeploy.balance.layers.problem import Placement


def even_chunk_placements(items: LayerItems, pp: int, vpp: int, mtp_apart: bool) -> list[Placement]:
    """Every virtual stage placed as a rank of its own, under the first option: with the MTP modules beside the head, and,
    where they may be apart, on the stage before it, each end alone."""
    stages = pp * vpp
    if vpp == 1:
        return []
    plain = _first_option(items)
    placements = [balance_layers(plain, stages, 1, BalanceOptions(mtp_apart=False)).after.placement]
    if items.mtp_modules and mtp_apart and pp > 2:
        counts = balance_layers(_without_ends(plain), stages - 2, 1).after.placement.counts
        placements.append(Placement(counts=(*counts, 0, 0), mtp_stage=stages - 2, options=(0,) * stages))
    return placements


def _first_option(items: LayerItems) -> LayerItems:
    return replace(
        items,
        options=items.options[:1],
        forward_s=items.forward_s[:1],
        backward_s=items.backward_s[:1],
        activation_bytes=items.activation_bytes[:1],
    )


def _without_ends(items: LayerItems) -> LayerItems:
    """The same layers without MTP modules, under a head that takes nothing."""
    kept = np.array([kind != "mtp" for kind in items.kinds])
    free = np.where(np.array(items.kinds) == "head", 0.0, 1.0)
    return replace(
        items,
        kinds=tuple(kind for kind in items.kinds if kind != "mtp"),
        labels=tuple(label for label, keep in zip(items.labels, kept, strict=True) if keep),
        forward_s=(items.forward_s * free)[:, kept],
        backward_s=(items.backward_s * free)[:, kept],
        static_bytes=(items.static_bytes * free)[kept],
        activation_bytes=(items.activation_bytes * free)[:, kept],
        mtp_apart_bytes=0.0,
        mtp_embedding_s=0.0,
        mtp_embedding_bytes=0.0,
    )

"""The three inputs of every price."""

from __future__ import annotations

from dataclasses import field

from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.price_book import PriceBook
from cost_models.records import record


@record
class Case:
    """What is trained, on what, and how much of it at a time. With a strategy it has a price. ``book`` remembers the
    prices of layers that were asked for, ``replayed_s`` the replayed steps of strategies; a changed case begins anew."""

    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    book: PriceBook = field(init=False, compare=False, repr=False, default_factory=PriceBook)
    replayed_s: dict[bytes, float] = field(init=False, compare=False, repr=False, default_factory=dict)

"""The three inputs of every price."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.inputs import HardwareProfile, ModelSpec, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is trained, on what, and how much of it at a time. With a strategy it has a price."""

    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload

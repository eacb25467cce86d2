"""A machine with another network: ``NAME@50Gbps`` is the profile NAME in a cluster that gives each card 50 Gb/s, one way."""

from __future__ import annotations

import re
from dataclasses import replace

from autodeploy.errors import InputError
from cost_models.inputs import HardwareProfile

GBIT_BYTES = 1e9 / 8
_SUFFIX = r"(.+)@([0-9]*\.?[0-9]+)gbps"


def split_network(text: str) -> tuple[str, float | None]:
    """(the profile's name, bytes/s of a card to other nodes); None where the text names no network."""
    if "@" not in text:
        return text, None
    found = re.fullmatch(_SUFFIX, text.strip(), re.IGNORECASE)
    rate = float(found.group(2)) if found else 0.0
    if found is None or rate <= 0:
        raise InputError(
            "hardware", text, "a profile, or PROFILE@NUMBERGbps: gigabits a second of one card", "such as @50Gbps"
        )
    return found.group(1), rate * GBIT_BYTES


def network_text(bandwidth_bytes_per_s: float) -> str:
    """The suffix that reads back as the bandwidth."""
    return f"@{bandwidth_bytes_per_s / GBIT_BYTES:.10g}Gbps"


def with_network(profile: HardwareProfile, bandwidth: float | None) -> HardwareProfile:
    """The profile with the bandwidth (bytes/s a card, one direction) on every tier outside the innermost domain."""
    if bandwidth is None:
        return profile
    outside = (replace(tier, bandwidth_bytes_per_s=bandwidth) for tier in profile.tiers[1:])
    return replace(profile, tiers=(profile.tiers[0], *outside))

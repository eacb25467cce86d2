"""What a priced strategy has in common with measured runs: the groups, from coarse to fine, whose errors it shares."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cost_models.inputs import HardwareProfile, ModelSpec

# Pattern of a profile's or a device's name -> family. First match wins.
DEVICE_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"^g?b[23]00", "Blackwell"),
    (r"^(gh|h)(20|100|200|800)", "Hopper"),
    (r"^a[18]00", "Ampere"),
    (r"^mi3", "CDNA 3 and 4"),
    (r"^(ascend|atlas|cloudmatrix)", "Ascend"),
)
LEVELS = (
    (),
    ("precision", "kind"),
    ("device", "precision", "kind"),
    ("device", "precision", "kind", "stack"),
    ("device", "precision", "kind", "stack", "pipelined"),
    ("device", "precision", "kind", "stack", "pipelined", "nodes"),
)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Each field is a word, as it is printed."""

    device: str
    precision: str
    kind: str
    stack: str
    pipelined: str
    nodes: str

    def at(self, level: int) -> tuple[str, ...]:
        """Its group at a level of ``LEVELS``."""
        return tuple(getattr(self, name) for name in LEVELS[level])


def likeness(
    model: ModelSpec, hardware: HardwareProfile, precision: str, stack: str, pp: int, devices: int
) -> Likeness:
    """``stack``: a stack's name, with or without what was set on top of it."""
    moe = any(kind.feed_forward is not None and kind.feed_forward.is_moe for kind in model.kinds)
    return Likeness(
        device=device_family(hardware),
        precision="16 bit" if precision in ("bf16", "fp16") else "8 and 4 bit",
        kind="mixture of experts" if moe else "dense",
        stack=stack.split(" ")[0],
        pipelined="pipelined" if pp > 1 else "no pipeline",
        nodes="several nodes" if devices > hardware.cards_per_node else "one node",
    )


def device_family(hardware: HardwareProfile) -> str:
    """A word for cards that share an architecture; the maker's name for one that no pattern knows."""
    for name in (hardware.name, hardware.device.name):
        for pattern, family in DEVICE_FAMILIES:
            if re.search(pattern, name.lower()):
                return family
    return f"other {hardware.device.vendor}"

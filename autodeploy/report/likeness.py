"""What a priced strategy has in common with measured runs: the groups, from coarse to fine, whose errors it shares."""

from __future__ import annotations

import re
from typing import NamedTuple

from cost_models.case import Case
from cost_models.inputs import HardwareProfile
from cost_models.strategies import StrategyBatch

# Pattern of a profile's or a device's name -> family. First match wins.
DEVICE_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"^g?b[23]00", "Blackwell"),
    (r"^(gh|h)(20|100|200|800)", "Hopper"),
    (r"^a[18]00", "Ampere"),
    (r"^mi3", "CDNA 3 and 4"),
    (r"^(ascend|atlas|cloudmatrix)", "Ascend"),
)
FIELDS = ("device", "precision", "kind", "stack", "pipelined", "nodes", "tensor", "filling")
LEVELS = ((), ("precision", "kind"), FIELDS[:3], FIELDS[:4], FIELDS[:6], FIELDS[:7], FIELDS)
_PLACES = tuple(tuple(FIELDS.index(name) for name in names) for names in LEVELS)
FEW = 2  # micro-batches for each pipeline rank: up to here filling and draining, and the step's ends, decide


class Likeness(NamedTuple):
    """Each field is a word, as it is printed."""

    device: str
    precision: str
    kind: str
    stack: str
    pipelined: str
    nodes: str
    tensor: str
    filling: str

    def at(self, level: int) -> tuple[str, ...]:
        """Its group at a level of ``LEVELS``."""
        return tuple([self[place] for place in _PLACES[level]])


def likeness(case: Case, stack: str, batch: StrategyBatch, i: int) -> Likeness:
    """Of strategy ``i``. ``stack``: a stack's name, with or without what was set on top of it."""
    halves = [half for kind in case.model.kinds for half in kind.feed_forwards]
    pp, devices = int(batch.pp[i]), int(batch.devices[i])
    few = int(batch.micro_batches(case.workload.global_batch)[i]) <= FEW * pp
    return Likeness(
        device=device_family(case.hardware),
        precision="16 bit" if case.workload.precision in ("bf16", "fp16") else "8 and 4 bit",
        kind="mixture of experts" if any(half.is_moe for half in halves) else "dense",
        stack=stack.split(" ")[0],
        pipelined="pipelined" if pp > 1 else "no pipeline",
        nodes="several nodes" if devices > case.hardware.cards_per_node else "one node",
        tensor="tensor parallel" if int(batch.tp[i]) > 1 else "no tensor parallel",
        filling="few micro-batches" if few else "many micro-batches",
    )


def device_family(hardware: HardwareProfile) -> str:
    """A word for cards that share an architecture; the maker's name for one that no pattern knows."""
    for name in (hardware.name, hardware.device.name):
        for pattern, family in DEVICE_FAMILIES:
            if re.search(pattern, name.lower()):
                return family
    return f"other {hardware.device.vendor}"

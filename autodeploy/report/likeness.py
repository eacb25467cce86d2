"""What a priced strategy has in common with measured runs: the groups, from coarse to fine, whose errors it shares."""

from __future__ import annotations

from typing import NamedTuple

from cost_models.case import Case
from cost_models.inputs import HardwareProfile
from cost_models.strategies import StrategyBatch

# How the names of profiles and devices of a family begin.
DEVICE_FAMILIES: dict[str, tuple[str, ...]] = {
    "Blackwell": ("b200", "b300", "gb200", "gb300"),
    "Hopper": ("h20", "h100", "h200", "h800", "gh20", "gh100", "gh200", "gh800"),
    "Ampere": ("a100", "a800"),
    "CDNA 3 and 4": ("mi3",),
    "Ascend": ("ascend", "atlas", "cloudmatrix"),
}
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
    """A word for cards that share an architecture; the maker's name for one that begins like none."""
    for name in (hardware.name, hardware.device.name):
        for family, starts in DEVICE_FAMILIES.items():
            if name.lower().startswith(starts):
                return family
    return f"other {hardware.device.vendor}"

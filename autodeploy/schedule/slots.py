"""The template of a slot: its nodes in the order of a catalogue entry, kept by what it depends on."""

from __future__ import annotations

from functools import lru_cache

from autodeploy.schedule.lane_orders import lane_order, ordered_streams, same_as
from autodeploy.schedule.segments import COMPUTE, SENDS, Structure, build_streams
from autodeploy.schedule.templates import Template, make_template

SENDS_MASK = sum(1 << segment for segment in SENDS)


@lru_cache(maxsize=8192)
def slot_template(
    kinds: tuple[int, ...],
    structures: tuple[Structure, ...],
    entry: str | None,
    joint: bool = False,
    early_gradient: bool = True,
    send_lane: int = COMPUTE,
) -> Template:
    """The template of a slot; without an entry nothing overlaps."""
    if entry is None:
        streams = build_streams(kinds, structures)
        return make_template(streams, tuple(range(len(streams.nodes))), blocking=True, joint=joint)
    same = same_as(entry, kinds, structures)
    lane = send_lane if any(mask & SENDS_MASK for structure in structures for mask in structure) else COMPUTE
    if (same, lane) != (entry, send_lane):
        return slot_template(kinds, structures, same, joint, early_gradient, lane)
    streams, sequence = ordered_streams(kinds, structures, lane_order(entry), early_gradient)
    return make_template(streams, sequence, blocking=False, joint=joint, send_lane=send_lane)

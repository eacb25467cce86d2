"""Transfer matrices of many slots at once: the nodes of all of them, level by level.

Axes: I slots (any templates), D inputs and outputs of a slot, N scenarios, R nodes of all slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.templates import FIRST_NODE, LANES, NEVER, NodeArrays, Template

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
ABSENT = -np.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotCosts:
    """What the slots of a batch are priced with.

    `seconds` [cells, N]: segments of all stages; `at` [I, 2]: first cell of the stage of each stream. A part of what is cut
    in pieces costs `piece_overhead_s` more; slots of two streams take `pair_scale` [N] times as long, where given.
    """

    seconds: F64
    at: I64
    piece_overhead_s: float = 0.0
    pair_scale: F64 | None = None

    def durations_s(self, template: Template, slots: I64) -> F64:
        """Seconds of each node of some slots of one template, [slots, n, N]."""
        nodes = template.arrays
        whole = self.seconds.take(self.at[slots][:, nodes.stream] + nodes.cell, axis=0)
        pieces = nodes.pieces[:, None]
        if (pieces > 1).any():
            whole = np.where(pieces > 1, whole / pieces + self.piece_overhead_s, whole)
        if self.pair_scale is not None and len(template.exits) == 2:
            whole = whole * self.pair_scale
        return np.asarray(whole)

    def busy_s(self, templates: Sequence[Template]) -> F64:
        """Seconds that each slot keeps each lane, [I, lanes, N]."""
        busy = np.zeros((len(templates), LANES, self.seconds.shape[-1]))
        for template, slots in by_template(templates):
            durations = self.durations_s(template, slots)
            for lane in range(LANES):
                busy[slots, lane] = durations[:, template.arrays.lane == lane].sum(axis=1)
        return busy


def by_template(templates: Sequence[Template]) -> list[tuple[Template, I64]]:
    """The distinct templates, and which slots have each."""
    members: dict[int, list[int]] = {}
    for slot, template in enumerate(templates):
        members.setdefault(id(template), []).append(slot)
    return [(templates[slots[0]], np.array(slots)) for slots in members.values()]


def transfer_matrices(templates: Sequence[Template], costs: SlotCosts, inputs: Sequence[int]) -> F64:
    """[D in, D out, I, N]: seconds from each of `inputs` to each as an output, -inf where one does not depend on the
    other."""
    groups = by_template(templates)
    layout = _Layout([(template.arrays, len(slots)) for template, slots in groups], inputs)
    durations = [costs.durations_s(template, slots) for template, slots in groups]
    scenarios = costs.seconds.shape[-1]
    seconds = np.concatenate([d.reshape(-1, scenarios) for d in durations])[layout.order]
    ends = layout.ends_s(seconds)
    back = np.empty(len(templates), dtype=np.int64)
    back[np.concatenate([slots for _, slots in groups])] = np.arange(len(templates))
    return np.maximum.reduce(ends.take(layout.exits[:, :, back], axis=1), axis=2)


class _Layout:
    """Nodes of all slots sorted by level; rows: the inputs, what never ends, the nodes."""

    def __init__(self, groups: list[tuple[NodeArrays, int]], inputs: Sequence[int]) -> None:
        self.inputs = len(inputs)
        level = np.concatenate([np.tile(nodes.level, slots) for nodes, slots in groups]).astype(np.int16)
        self.order = np.argsort(level, kind="stable")
        first = len(inputs) + 1
        row_of = np.full(FIRST_NODE + len(level), len(inputs))
        row_of[list(inputs)] = np.arange(len(inputs))
        row_of[FIRST_NODE + self.order] = first + np.arange(len(level))
        waits, exits, at = [], [], 0
        widest = [max(getattr(nodes, name).shape[1] for nodes, _ in groups) for name in ("waits", "exits")]
        for nodes, slots in groups:
            shift = at + len(nodes.level) * np.arange(slots)[:, None, None]
            waits.append(_shifted(nodes.waits, shift, widest[0]).reshape(-1, widest[0]))
            exits.append(_shifted(nodes.exits[list(inputs)], shift, widest[1]))
            at += slots * len(nodes.level)
        self.waits = np.ascontiguousarray(row_of[np.concatenate(waits)[self.order]].T)
        self.exits = np.moveaxis(row_of[np.concatenate(exits)], 0, 2)  # [D, X, I]
        count = np.concatenate([np.tile(nodes.count, slots) for nodes, slots in groups])[self.order]
        widths = np.bincount(level)
        self.bounds = np.concatenate([[0], np.cumsum(widths)])
        self.widths = np.maximum.reduceat(count, self.bounds[:-1]) if len(count) else count

    def ends_s(self, durations_s: F64) -> F64:
        """When each row ends, from each input, [D, rows, N]."""
        count, scenarios = durations_s.shape
        first = self.inputs + 1
        ends = np.full((self.inputs, first + count, scenarios), ABSENT)
        ends[np.arange(self.inputs), np.arange(self.inputs)] = 0.0
        for low, high, width in zip(
            self.bounds[:-1].tolist(), self.bounds[1:].tolist(), self.widths.tolist(), strict=True
        ):
            start = np.maximum.reduce(ends.take(self.waits[:width, low:high], axis=1), axis=1)
            np.add(start, durations_s[low:high], out=ends[:, first + low : first + high])
        return ends


def _shifted(rows: I64, shift: I64, width: int) -> I64:
    """Rows of a template [.., W] for each of its slots, nodes moved by `shift` [slots, 1, 1], padded to `width`."""
    moved = np.where(rows >= FIRST_NODE, rows + shift, rows)
    if width == rows.shape[1]:
        return moved
    padded = np.full((*moved.shape[:2], width), NEVER)
    padded[:, :, : rows.shape[1]] = moved
    return padded

"""Transfer matrices of many slots at once: the nodes of all of them, level by level.

Axes: I slots (any templates), D inputs and outputs of a slot, N scenarios, R nodes of all slots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.templates import FIRST_NODE, NEVER, Template
from cost_models.records import record

Bool = NDArray[np.bool_]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
ABSENT = -np.inf
WIDEST = 32  # waits of a node, at most


@record(eq=False)
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
        cells = self.at[slots][:, nodes.stream] + nodes.cell
        paired = np.full(cells.shape, template.paired)
        return self.seconds_of(cells, np.broadcast_to(nodes.pieces, cells.shape), paired)

    def seconds_of(self, cells: I64, pieces: I64, paired: Bool) -> F64:
        """Seconds [.., N] of nodes that are 1 / `pieces` of a cell; `paired`: in a slot of two streams."""
        whole = self.seconds.take(cells, axis=0)
        if (pieces > 1).any():
            whole = np.where(pieces[..., None] > 1, whole / pieces[..., None] + self.piece_overhead_s, whole)
        if self.pair_scale is not None:
            whole = np.where(paired[..., None], whole * self.pair_scale, whole)
        return np.asarray(whole)


def by_template(templates: Sequence[Template]) -> list[tuple[Template, I64]]:
    """The distinct templates, and which slots have each."""
    members: dict[int, list[int]] = {}
    for slot, template in enumerate(templates):
        members.setdefault(id(template), []).append(slot)
    return [(templates[slots[0]], np.array(slots)) for slots in members.values()]


def transfer_matrices(templates: Sequence[Template], costs: SlotCosts, inputs: Sequence[int]) -> F64:
    """[D in, D out, I, N]: seconds from each of `inputs` to each as an output, -inf where one does not depend on the
    other."""
    nodes = _Nodes(templates, inputs)
    cells = costs.at[nodes.slot, nodes.stream] + nodes.cell
    ends = nodes.ends_s(costs.seconds_of(cells, nodes.pieces, nodes.paired))
    matrix = ends.take(nodes.exits[0], axis=1)
    for later in nodes.exits[1:]:
        outputs, slots = np.nonzero(later != nodes.never)
        matrix[:, outputs, slots] = np.maximum(matrix[:, outputs, slots], ends[:, later[outputs, slots]])
    return matrix


class _Nodes:
    """Nodes of all slots sorted by level, [R] each; rows: the inputs, what never ends, the nodes.

    The distinct templates are laid end to end once; a node of a slot is where its template starts and its place there.
    """

    def __init__(self, templates: Sequence[Template], inputs: Sequence[int]) -> None:
        number: dict[Template, int] = {}
        which = np.array([number.setdefault(template, len(number)) for template in templates])
        found = [template.arrays for template in number]
        sizes = np.array([len(nodes.level) for nodes in found])
        first = np.cumsum(sizes[which]) - sizes[which]  # of each slot, among the nodes in order of slots
        slot = np.repeat(np.arange(len(which)), sizes[which])
        node = np.arange(len(slot)) + ((np.cumsum(sizes) - sizes)[which] - first)[slot]
        level, count = (np.concatenate([getattr(nodes, name) for nodes in found])[node] for name in ("level", "count"))
        order = np.argsort((level * WIDEST - count).astype(np.int16), kind="stable")  # sorted by radix
        self.slot, node = slot[order], node[order]
        self.stream, self.cell, self.pieces = (
            np.concatenate([getattr(nodes, name) for nodes in found])[node] for name in ("stream", "cell", "pieces")
        )
        self.paired = np.array([template.paired for template in number])[which][self.slot]
        row_of = np.full(FIRST_NODE + len(order), len(inputs))
        row_of[list(inputs)] = np.arange(len(inputs))
        row_of[FIRST_NODE + order] = len(inputs) + 1 + np.arange(len(order))
        waits = _joined([nodes.waits for nodes in found])[node]
        self.waits = np.ascontiguousarray(row_of[_moved(waits, first[self.slot, None])].T)
        exits = _joined([nodes.exits[list(inputs)] for nodes in found]).reshape(len(found), len(inputs), -1)[which]
        self.exits = row_of[_moved(exits, first[:, None, None])].transpose(2, 1, 0)  # [X, D, I]
        self.inputs = self.never = len(inputs)
        # First node of each level, and of those of it that wait for more than w others the end: they come first.
        self.bounds = np.concatenate([[0], np.cumsum(np.bincount(level))])
        more = [np.bincount(level[count > w], minlength=len(self.bounds) - 1) for w in range(1, waits.shape[1])]
        self.ends = np.transpose([self.bounds[:-1] + m for m in more])

    def ends_s(self, durations_s: F64) -> F64:
        """When each row ends, from each input, [D, rows, N]."""
        count, scenarios = durations_s.shape
        first = self.inputs + 1
        ends = np.empty((self.inputs, first + count, scenarios))
        ends[:, :first] = ABSENT
        ends[np.arange(self.inputs), np.arange(self.inputs)] = 0.0
        bounds = self.bounds.tolist()
        for low, high, more in zip(bounds, bounds[1:], self.ends.tolist(), strict=False):
            start = ends.take(self.waits[0, low:high], axis=1)
            for waits, end in zip(self.waits[1:], more, strict=True):
                if end > low:
                    two = start[:, : end - low]
                    np.maximum(two, ends.take(waits[low:end], axis=1), out=two)
            np.add(start, durations_s[low:high], out=ends[:, first + low : first + high])
        return ends


def _joined(rows: list[I64]) -> I64:
    """Rows of all, as wide as the widest."""
    widest = max(each.shape[1] for each in rows)
    if any(each.shape[1] < widest for each in rows):
        rows = [np.pad(each, ((0, 0), (0, widest - each.shape[1])), constant_values=NEVER) for each in rows]
    return np.concatenate(rows)


def _moved(rows: I64, by: I64) -> I64:
    """Rows of a template as rows of its slot: its nodes come `by` later."""
    return np.where(rows >= FIRST_NODE, rows + by, rows)

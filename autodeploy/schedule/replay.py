"""Times of every slot of a graph for a batch of scenarios: longest paths, level by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodeploy.schedule.blocks import BlockGraph, SlotKind
from autodeploy.schedule.segments import LANE_OF, Node
from autodeploy.schedule.templates import INPUTS, LANES, Template, node_ends_s, transfer_matrix

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPrices:
    """Templates of a graph's slot kinds, with the times of their nodes.

    `groups[g]` = (template, kinds that use it); `nodes_s[g][n]`: [kinds, N] seconds of node n; `matrix`: [kinds, D, D, N].
    """

    groups: tuple[tuple[Template, I64], ...]
    nodes_s: tuple[list[F64], ...]
    matrix: F64
    busy_s: F64  # [kinds, lanes, N]


def price_slots(
    slot_kinds: tuple[SlotKind, ...],
    templates: list[Template],
    packed_s: F64,
    pair_scale: F64 | None = None,
    piece_overhead_s: float = 0.0,
) -> SlotPrices:
    """Durations and transfer matrices of all slot kinds; `packed_s` is [S, L, K, N]."""
    scenarios = packed_s.shape[-1]
    by_template: dict[int, list[int]] = {}
    for index, template in enumerate(templates):
        by_template.setdefault(id(template), []).append(index)
    matrix = np.empty((len(templates), INPUTS, INPUTS, scenarios))
    busy = np.zeros((len(templates), LANES, scenarios))
    groups, all_nodes = [], []
    for members in by_template.values():
        template, kinds = templates[members[0]], np.array(members)
        nodes = [_duration_s(node, slot_kinds, kinds, packed_s, piece_overhead_s) for node in template.nodes]
        if pair_scale is not None and len(template.exits) == 2:
            nodes = [duration * pair_scale for duration in nodes]
        matrix[kinds] = transfer_matrix(template, nodes) if nodes else _identity(len(members), scenarios)
        for node, duration in zip(template.nodes, nodes, strict=True):
            busy[kinds, LANE_OF[node.segment]] += duration
        groups.append((template, kinds))
        all_nodes.append(nodes)
    return SlotPrices(groups=tuple(groups), nodes_s=tuple(all_nodes), matrix=matrix, busy_s=busy)


def _identity(kinds: int, scenarios: int) -> F64:
    matrix = np.full((kinds, INPUTS, INPUTS, scenarios), -np.inf)
    matrix[:, range(INPUTS), range(INPUTS)] = 0.0
    return matrix


def _duration_s(node: Node, slot_kinds: tuple[SlotKind, ...], kinds: I64, packed_s: F64, overhead_s: float) -> F64:
    stages = [slot_kinds[k][1][node.stream] for k in kinds]
    whole = packed_s[stages, node.layer, node.segment]
    return np.asarray(whole / node.pieces + overhead_s if node.pieces > 1 else whole)


def replay(graph: BlockGraph, matrix: F64, delay_s: F64) -> F64:
    """State after each slot, [1 + B, D, N]: lane clocks and stream outputs. `delay_s` [1 + S, N], row 0 zero.

    Buffers are made once and every gather is along the first axis: the work of a level stays in cache.
    """
    scenarios = matrix.shape[-1]
    state = np.zeros((len(graph.slots) + 1, INPUTS, scenarios))
    outputs = state.reshape(-1, scenarios)  # one row per slot and output
    from_input = [np.ascontiguousarray(matrix[:, :, j]) for j in range(INPUTS)]
    widest = max(high - low for low, high in zip(graph.level_at[:-1], graph.level_at[1:], strict=True))
    moved_buffer = np.empty((widest, INPUTS, scenarios))
    input_buffer = np.empty((widest, INPUTS, scenarios))
    arrival_row = graph.source * INPUTS + LANES + graph.source_stream
    for low, high in zip(graph.level_at[:-1], graph.level_at[1:], strict=True):
        part = slice(low - 1, high - 1)
        inputs, moved, out = input_buffer[: high - low], moved_buffer[: high - low], state[low:high]
        np.take(state, graph.previous[part], axis=0, out=inputs, mode="clip")
        for j in range(2):
            inputs[:, LANES + j] = outputs[arrival_row[part, j]]
            inputs[:, LANES + j] += delay_s[graph.hop[part, j]]
        kinds = graph.kind[part]
        np.take(from_input[0], kinds, axis=0, out=out, mode="clip")
        out += inputs[:, None, 0]
        for j in range(1, INPUTS):
            np.take(from_input[j], kinds, axis=0, out=moved, mode="clip")
            moved += inputs[:, None, j]
            np.maximum(out, moved, out=out)
    return state


def slot_inputs(graph: BlockGraph, state: F64, delay_s: F64, part: slice | NDArray[np.intp]) -> F64:
    """[slots, D, N]: the clocks the slot finds, and when its inputs arrive."""
    inputs = state[graph.previous[part]]
    for j in range(2):
        arrived = state[graph.source[part, j], LANES + graph.source_stream[part, j]]
        inputs[:, LANES + j] = arrived + delay_s[graph.hop[part, j]]
    return inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTimes:
    """Every segment of the step, E events: times [E, N], the rest [E]. `slot` counts from 0 in graph order."""

    start_s: F64
    end_s: F64
    slot: I64
    stream: I64
    layer: I64
    segment: I64
    lane: I64


def node_times(graph: BlockGraph, prices: SlotPrices, state: F64, delay_s: F64) -> NodeTimes:
    """Replays the nodes of every slot from the state the slot found."""
    starts: list[F64] = []
    ends: list[F64] = []
    slot_of: list[I64] = []
    fixed: list[tuple[int, int, int, int]] = []
    for (template, kinds), nodes_s in zip(prices.groups, prices.nodes_s, strict=True):
        slots = np.flatnonzero(np.isin(graph.kind, kinds))
        row_of = np.searchsorted(kinds, graph.kind[slots])
        inputs = slot_inputs(graph, state, delay_s, slots)
        durations = [duration[row_of] for duration in nodes_s]
        node_ends = node_ends_s(template, durations, [inputs[:, j] for j in range(INPUTS)])
        for node, end, duration in zip(template.nodes, node_ends, durations, strict=True):
            ends.append(end)
            starts.append(end - duration)
            slot_of.append(slots.astype(np.int64))
            fixed += [(node.stream, node.layer, node.segment, LANE_OF[node.segment])] * len(slots)
    stream, layer, segment, lane = np.array(fixed, dtype=np.int64).T
    return NodeTimes(
        start_s=np.concatenate(starts),
        end_s=np.concatenate(ends),
        slot=np.concatenate(slot_of),
        stream=stream,
        layer=layer,
        segment=segment,
        lane=lane,
    )

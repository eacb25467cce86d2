"""Router groups on nodes: against brute force, and every copy on its group's node."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.experts.choose import Task
from autodeploy.balance.experts.migrate import Links
from autodeploy.balance.experts.nodes import foreign_tokens, groups_on_nodes, is_strict, partitions
from autodeploy.balance.experts.place import place
from autodeploy.balance.experts.placement import F64, Placement, Topology, card_loads, contiguous, max_over_mean
from autodeploy.balance.experts.plan import make_plan


def lightest_heaviest(loads: list[float], nodes: int, size: int) -> float:
    """Largest node load of the best assignment, every one tried."""
    if nodes == 1:
        return sum(loads)
    best = float("inf")
    for others in combinations(range(1, len(loads)), size - 1):
        own = loads[0] + sum(loads[i] for i in others)
        left = [loads[i] for i in range(1, len(loads)) if i not in others]
        best = min(best, max(own, lightest_heaviest(left, nodes - 1, size)))
    return best


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(4, 2), (3, 2), (2, 3), (2, 4), (3, 3), (4, 1)]), st.integers(0, 10_000))
def test_nodes_are_chosen_optimally(shape: tuple[int, int], seed: int) -> None:
    nodes, size = shape
    loads = np.random.default_rng(seed).pareto(1.0, size=(2, nodes * size))
    by_node = groups_on_nodes(loads, nodes)
    for row, groups in zip(loads, by_node, strict=True):
        assert sorted(groups.ravel().tolist()) == list(range(nodes * size))
        assert row[groups].sum(axis=1).max() == pytest.approx(lightest_heaviest(row.tolist(), nodes, size))


def test_many_groups_come_close() -> None:
    assert partitions(8, 4) == 105 and partitions(16, 4) == 2_627_625
    loads = np.random.default_rng(0).pareto(2.0, size=(20, 16)) + 0.5
    by_node = groups_on_nodes(loads, 4)
    heaviest = np.take_along_axis(loads, by_node.reshape(20, -1), axis=1).reshape(20, 4, -1).sum(axis=2).max(axis=1)
    floor = np.maximum(loads.sum(axis=1) / 4, loads.max(axis=1) + np.sort(loads, axis=1)[:, :3].sum(axis=1))
    assert (heaviest <= 1.03 * floor).all()


@pytest.mark.parametrize("slots", [288, 320])
def test_zipf_within_1_percent_of_the_node_level_optimum(slots: int) -> None:
    rng = np.random.default_rng(1)
    loads = np.stack([rng.permutation(1e6 / np.arange(1, 257)) for _ in range(61)])
    topology = Topology(nodes=4, cards_per_node=8)
    placement = place(loads, topology, slots, 8)
    groups = loads.reshape(61, 8, 32).sum(axis=2)
    optimum = np.array([lightest_heaviest(row.tolist(), 4, 2) for row in groups]) / (loads.sum(axis=1) / 4)
    assert max_over_mean(card_loads(placement, loads)).mean() <= 1.01 * optimum.mean()
    node = np.repeat(topology.node_of_card(), slots // 32)
    for layer, flat in enumerate(placement.flat()):
        for group in range(8):
            assert len(set(node[flat // 32 == group].tolist())) == 1, (layer, group)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[F64, Topology, int, int]:
    nodes, per_node = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    groups = nodes * draw(st.integers(1, 3))
    experts = groups * per_node * draw(st.integers(1, 2))
    slots = experts + nodes * per_node * draw(st.integers(0, 3))
    loads = np.random.default_rng(draw(st.integers(0, 999))).zipf(1.5, size=(2, experts)).clip(0, 10_000).astype(float)
    return loads, Topology(nodes=nodes, cards_per_node=per_node), slots, groups


@settings(max_examples=40, deadline=None)
@given(grouped())
def test_strict_placements_send_nothing_abroad(case: tuple[F64, Topology, int, int]) -> None:
    loads, topology, slots, groups = case
    strict = place(loads, topology, slots, groups)
    assert is_strict(strict, topology, groups) and not foreign_tokens(strict, loads, topology, groups).any()
    start = contiguous(len(loads), loads.shape[1], topology.cards, slots, topology.nodes)
    assert is_strict(start, topology, groups)


def test_foreign_tokens_by_hand() -> None:
    placement = Placement(np.array([[[0, 1], [2, 0]]]), 3)  # groups of one; expert 0 on both nodes, at home on node 0
    away = foreign_tokens(placement, np.array([[10.0, 3.0, 1.0]]), Topology(nodes=2, cards_per_node=1), 3)
    assert away.tolist() == [[0.0, 5.0]]


def test_plans_stay_strict() -> None:
    """From a start whose spare copies lie abroad, too."""
    topology = Topology(nodes=2, cards_per_node=4)
    links = Links(bytes_per_expert=1e6, intra_bytes_per_s=4e11, inter_bytes_per_s=5e10)
    task = Task(topology=topology, links=links, seconds_per_token=1e-6, groups=4)
    loads = np.random.default_rng(0).zipf(1.5, size=(1, 3, 32)).clip(1, 10_000).astype(float)
    for start in (contiguous(3, 32, 8, 40), contiguous(3, 32, 8, 40, 2)):
        plan = make_plan(loads, start, task, 100)
        assert plan.moved.any()
        moved = Placement(plan.after.slot_expert[plan.moved], 32)
        assert is_strict(moved, topology, 4)

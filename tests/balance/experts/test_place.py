"""Placements: by hand, invariants, and the published measurements of EPLB."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.experts.eplb import eplb_style
from autodeploy.balance.experts.exchange import Rules, exchange
from autodeploy.balance.experts.place import place
from autodeploy.balance.experts.placement import (
    F64,
    Placement,
    Topology,
    card_loads,
    contiguous,
    load_bound,
    max_over_mean,
)
from autodeploy.balance.experts.replicate import replicate

# deepseek-ai/EPLB, README: weights of its example and the placement it prints.
README_LOADS = np.array(
    [[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86], [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]], float
)
README_PLACEMENT = np.array(
    [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1], [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]]
).reshape(2, 8, 2)


def zipf(exponent: float, layers: int = 61, experts: int = 256, seed: int = 0) -> F64:
    rng = np.random.default_rng(seed)
    weights = 1e6 / np.arange(1, experts + 1) ** exponent
    return np.stack([rng.permutation(weights) for _ in range(layers)])


def mean_imbalance(placement: Placement, loads: F64) -> float:
    return float(max_over_mean(card_loads(placement, loads)).mean())


def test_loads_of_a_placement_by_hand() -> None:
    placement = Placement(np.array([[[0, 1], [0, 2]]]), experts=3)
    assert card_loads(placement, np.array([[10.0, 3.0, 1.0]])).tolist() == [[8.0, 6.0]]
    assert placement.counts().tolist() == [[2, 1, 1]]


def test_replicas_by_hand() -> None:
    assert replicate(np.array([[9.0, 4.0, 2.0]]), 5, most_copies=5).tolist() == [[3, 1, 1]]  # 9, 4.5: 9/2 > 4
    assert replicate(np.array([[9.0, 4.0, 2.0]]), 5, most_copies=2).tolist() == [[2, 2, 1]]


def test_bound_by_hand() -> None:
    assert load_bound(np.array([[10.0, 1.0, 2.0, 3.0]]), cards=2).tolist() == [11.0]
    assert load_bound(np.array([[10.0, 1.0, 2.0, 3.0]]), cards=2, slots=6).tolist() == [8.0]


def test_exchange_by_hand() -> None:
    improved, steps = exchange(np.array([[0, 1, 2, 3]]), np.array([[5.0, 4.0, 2.0, 1.0]]), cards=2)
    placed = Placement(improved.reshape(1, 2, 2), 4)
    assert sorted(card_loads(placed, np.array([[5.0, 4.0, 2.0, 1.0]]))[0].tolist()) == [6.0, 6.0]
    assert steps.tolist() == [1]


def test_repeats_on_a_card_are_counted() -> None:
    assert Placement(np.array([[[0, 0], [1, 2]]]), 3).duplicates().tolist() == [1]


def test_eplb_readme_is_reproduced_and_met() -> None:
    topology = Topology(nodes=2, cards_per_node=4)
    published = card_loads(Placement(README_PLACEMENT, 12), README_LOADS)
    assert np.array_equal(card_loads(eplb_style(README_LOADS, topology, 16, groups=4), README_LOADS), published)
    grouped = place(README_LOADS, topology, 16, groups=4)
    assert (card_loads(grouped, README_LOADS).max(axis=1) <= published.max(axis=1)).all()
    free = place(README_LOADS, topology, 16)
    assert card_loads(free, README_LOADS).max(axis=1).tolist() == [139.0, 172.0]  # published: 156, 179.5
    assert not grouped.duplicates().any() and not free.duplicates().any()


@pytest.mark.parametrize(
    ("nodes", "slots", "groups", "limit"),
    [(4, 288, 1, 1.0009), (32, 512, 1, 1.1165), (4, 288, 8, 1.4234), (32, 512, 1, 1.05)],
)
def test_zipf_against_peers(nodes: int, slots: int, groups: int, limit: float) -> None:
    """The best of EPLB, vLLM's policy and FlashLB on these cases, to the digits they were measured to."""
    loads = zipf(1.0)
    placement = place(loads, Topology(nodes=nodes, cards_per_node=8), slots, groups)
    assert round(mean_imbalance(placement, loads), 4) <= limit
    assert not placement.duplicates().any()


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.6, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("cards", [16, 32, 64])
def test_without_replicas_within_1_percent_of_the_bound(exponent: float, cards: int) -> None:
    loads = zipf(exponent, layers=8)
    placement = place(loads, Topology(nodes=cards // 8, cards_per_node=8))
    assert (card_loads(placement, loads).max(axis=1) <= 1.01 * load_bound(loads, cards)).all()


def test_relaxed_groups_keep_first_copies_on_one_node() -> None:
    loads = zipf(1.0, layers=3, experts=64)
    placement = place(loads, Topology(nodes=4, cards_per_node=4), 80, groups=8, relaxed=True)
    node = placement.slot_expert.reshape(3, 4, -1)
    for layer in range(3):
        for group in range(8):
            assert any(set(range(group * 8, group * 8 + 8)) <= set(node[layer, n].tolist()) for n in range(4))


@st.composite
def cases(draw: st.DrawFn) -> tuple[F64, Topology, int, int]:
    nodes, per_node = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cards = nodes * per_node
    experts = cards * draw(st.integers(1, 4))
    slots = experts + cards * draw(st.integers(0, 2))
    groups = draw(st.sampled_from([g for g in (1, 2, 3, 4, 6) if experts % g == 0]))
    seed, layers = draw(st.integers(0, 999)), draw(st.integers(1, 3))
    loads = np.random.default_rng(seed).zipf(1.6, size=(layers, experts)).clip(0, 10_000).astype(float)
    if draw(st.booleans()):
        loads[0] = 0.0
    return loads, Topology(nodes=nodes, cards_per_node=per_node), slots, groups


@settings(max_examples=60, deadline=None)
@given(cases())
def test_invariants_of_placements(case: tuple[F64, Topology, int, int]) -> None:
    loads, topology, slots, groups = case
    for placement in (place(loads, topology, slots, groups), eplb_style(loads, topology, slots, groups)):
        assert placement.slot_expert.shape == (len(loads), topology.cards, slots // topology.cards)
        assert (placement.counts() >= 1).all() and (placement.counts().sum(axis=1) == slots).all()
        assert np.allclose(card_loads(placement, loads).sum(axis=1), loads.sum(axis=1))
        assert (card_loads(placement, loads).max(axis=1) >= load_bound(loads, topology.cards, slots) - 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 30))
def test_exchange_never_raises_the_peak(case: tuple[F64, Topology, int, int], steps: int) -> None:
    loads, topology, slots, _ = case
    start = contiguous(*loads.shape, topology.cards, slots)
    flat, _ = exchange(start.flat(), loads, topology.cards, Rules(steps=steps))
    after = Placement(flat.reshape(start.slot_expert.shape), start.experts)
    peak = card_loads(start, loads).max(axis=1)
    assert (card_loads(after, loads).max(axis=1) <= peak * (1 + 1e-9)).all()
    assert (after.duplicates() <= start.duplicates()).all()

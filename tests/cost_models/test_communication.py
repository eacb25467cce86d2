"""Collectives over tiers, by hand: 100 GB/s inside a node of 8, 10 GB/s per card between nodes, no latency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.communication import (
    all_to_all_s,
    copies_between_nodes,
    dispatch_s,
    distinct_domains,
    p2p_s,
    ring_s,
)
from cost_models.inputs import FeedForward, SoftwareStack
from cost_models.strategies import DISPATCHER_CODE
from tests.cost_models.helpers import machine

UNIT = machine()


def ring(op: str, size: float, ranks: float, stride: float) -> float:
    return float(ring_s(op, np.array([size]), np.array([ranks]), np.array([stride]), UNIT)[0])


def test_ring_inside_a_node() -> None:
    assert ring("all_reduce", 8e9, 8, 1) == pytest.approx(2 * 7 / 8 * 8e9 / 100e9)
    assert ring("all_gather", 8e9, 4, 2) == pytest.approx(3 / 4 * 8e9 / 100e9)


def test_ring_across_nodes_is_bound_by_the_nics_of_its_members() -> None:
    """Two members in a node have two NICs (20 GB/s), eight have eight (80 GB/s), one has one (10 GB/s)."""
    assert ring("reduce_scatter", 16e9, 16, 1) == pytest.approx(15 / 16 * 16e9 / 80e9)
    assert ring("reduce_scatter", 16e9, 16, 4) == pytest.approx(15 / 16 * 16e9 / 20e9)
    assert ring("reduce_scatter", 16e9, 16, 8) == pytest.approx(15 / 16 * 16e9 / 10e9)


def test_all_to_all_splits_by_tier() -> None:
    """Of 32 ranks 24 are in other nodes: 24/32 of the bytes cross the NIC."""
    seconds = all_to_all_s(np.array([32e9]), np.array([32.0]), np.array([1.0]), UNIT)
    assert seconds[0] == pytest.approx(24e9 / 10e9)


def test_published_copies_of_top_8_of_256() -> None:
    """EP32 on 8-card nodes: flat 6.0, all-gather 3.0, de-duplicated 2.71 (design: cost_models.md)."""
    assert copies_between_nodes(np.array([4.0]), 256, 8)[0] == pytest.approx(2.71, abs=0.01)
    assert copies_between_nodes(np.array([2.0, 8.0, 16.0]), 256, 8) == pytest.approx([0.9965, 4.633, 6.116], rel=2e-3)


@pytest.mark.parametrize(
    ("name", "copies"), [("alltoall", 6.0), ("hierarchical-allgather", 3.0), ("hierarchical-dedup", 2.712)]
)
def test_bytes_between_nodes_by_dispatcher(name: str, copies: float) -> None:
    ffn = FeedForward(width=2048, experts=256, top_k=8)
    token_bytes = 1e9
    _, _, inter = dispatch_s(
        np.array([8 * token_bytes]), np.array([32.0]), np.array([1.0]), np.array([DISPATCHER_CODE[name]]), ffn, UNIT,
        SoftwareStack(),
    )  # fmt: skip
    assert inter[0] == pytest.approx(copies * token_bytes / 10e9, rel=1e-3)


def test_hierarchical_steps_in_series_or_pipelined() -> None:
    ffn = FeedForward(width=2048, experts=256, top_k=8)
    arguments = (
        np.array([8e9]),
        np.array([32.0]),
        np.array([1.0]),
        np.array([DISPATCHER_CODE["hierarchical-allgather"]]),
    )
    series, intra, inter = dispatch_s(*arguments, ffn, UNIT, SoftwareStack())
    piped, _, _ = dispatch_s(*arguments, ffn, UNIT, SoftwareStack(hierarchical_chunks=4))
    assert series[0] == pytest.approx(intra[0] + inter[0])
    assert piped[0] == pytest.approx(max(intra[0], inter[0]) + min(intra[0], inter[0]) / 4)


def test_p2p_takes_the_innermost_tier_that_holds_both() -> None:
    near, far = p2p_s(np.array([1e9, 1e9]), np.array([4.0, 8.0]), UNIT)
    assert (near, far) == pytest.approx((0.01, 0.1))


def test_full_mesh_gives_a_group_only_its_own_links() -> None:
    """One link per pair: 4 of 8 cards have 3 of 7 links."""
    tier = replace(UNIT.tiers[0], full_mesh=True)
    mesh = replace(UNIT, tiers=(tier, UNIT.tiers[1]))
    seconds = ring_s("all_gather", np.array([4e9]), np.array([4.0]), np.array([1.0]), mesh)
    assert seconds[0] == pytest.approx(3 / 4 * 4e9 / (100e9 * 3 / 7))


@given(size=st.floats(1e3, 1e10), ranks=st.sampled_from([2, 4, 8, 16, 64, 512]), stride=st.sampled_from([1, 2, 8, 16]))
def test_more_bytes_never_take_less_time(size: float, ranks: int, stride: int) -> None:
    for op in ("all_reduce", "all_gather", "reduce_scatter"):
        assert 0 < ring(op, size, ranks, stride) <= ring(op, 2 * size, ranks, stride)


def test_a_group_of_one_costs_nothing() -> None:
    assert ring("all_reduce", 1e9, 1, 8) == 0.0


def test_a_deduplicating_dispatcher_forwards_while_the_network_runs() -> None:
    """Two nodes of 8, top-8 of 256, 1 GB of tokens: 0.9965 x 1 GB leave at 10 GB/s = 0.0996 s; a token has experts on 6.52
    of 16 cards, of which 7/8 cross the links: 5.71 GB at 100 GB/s = 0.0571 s, and a sixth of the shorter is not hidden."""
    ffn = FeedForward(width=2048, experts=256, top_k=8)
    dedup = np.array([DISPATCHER_CODE["hierarchical-dedup"]])
    total, intra, inter = dispatch_s(
        np.array([8e9]), np.array([16.0]), np.array([1.0]), dedup, ffn, UNIT, SoftwareStack()
    )
    assert inter[0] == pytest.approx(0.0996, rel=1e-3)
    assert intra[0] == pytest.approx(0.0571, rel=1e-3)
    assert total[0] == pytest.approx(0.0996 + 0.0571 / 6, rel=1e-3)


def test_neighbouring_experts_lie_in_one_node() -> None:
    """A window of 8 of 256 experts meets 1 + 7/64 of four nodes, any 8 meet 3.61."""
    ffn = FeedForward(width=2048, experts=256, top_k=8)
    four = np.array([4.0])
    assert distinct_domains(four, ffn, consecutive=True)[0] == pytest.approx(1 + 7 / 64)
    assert distinct_domains(four, ffn, consecutive=False)[0] == pytest.approx(3.615, abs=0.005)

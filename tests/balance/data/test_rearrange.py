"""D: invariants, hand values, brute force, and the published lines on generated and real lengths."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.data import BatchShape, SampleCost, rearrange
from autodeploy.balance.data.imbalance import fixed_slot_floor_s, measure_imbalance
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.errors import InputError

TRACE = Path(__file__).resolve().parents[3].parent / "shared" / "traces" / "document_lengths.npz"
COST = SampleCost(alpha_s_per_token=1.0, beta_s_per_token2=1.0 / 30_000, gamma_s=50.0)

shapes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 5), st.integers(1, 3), st.booleans()).map(
    lambda t: BatchShape(ranks=t[0] * t[1], ep_ranks=t[1], micro_batches=t[2], micro_batch=t[3], free_counts=t[4])
)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=80), shapes, st.sampled_from(["none", "ffd"]))
@settings(max_examples=80, deadline=None)
def test_the_multiset_of_samples_is_unchanged(lengths, shape, packing):
    plan = rearrange(np.array(lengths), 64, shape, COST, packing)
    for batch, (start, stop) in enumerate(itertools.pairwise(plan.samples.batch_starts)):
        for order in (plan.order, plan.order_before):
            placed = order[batch][order[batch] >= 0]
            assert sorted(placed.tolist()) == list(range(start, stop))
    of_document = plan.samples.of_document
    assert np.array_equal(np.bincount(of_document, weights=lengths), plan.samples.tokens)
    assert np.array_equal(np.bincount(of_document, weights=np.square(lengths)), plan.samples.squares)
    assert plan.samples.tokens.max() <= 64
    tokens = np.append(plan.samples.tokens, 0)
    assert tokens[plan.order].sum(axis=3).max() <= 64 * shape.micro_batch


@given(st.lists(st.integers(1, 64), min_size=4, max_size=80), shapes)
@settings(max_examples=60, deadline=None)
def test_measures_are_ordered_and_floor_is_a_floor(lengths, shape):
    plan = rearrange(np.array(lengths), 64, shape, COST)
    after = plan.after
    assert after.mean_s <= after.rank_sum_s * (1 + 1e-12) <= after.coupled_s * (1 + 2e-12)
    if shape.micro_batch == 1 and not shape.free_counts:
        floor = fixed_slot_floor_s(plan.order, plan.cost_s, shape.ep_ranks)
        assert floor <= after.coupled_s * (1 + 1e-12)
        assert floor <= plan.before.coupled_s * (1 + 1e-12)


def test_hand_value():
    """Costs 9 1 8 2 on 2 ranks that meet: dealt 9|1 then 8|2 = 17; like with like 9|8 then 2|1 = 11."""
    cost = SampleCost(alpha_s_per_token=1.0)
    plan = rearrange(np.array([9, 1, 8, 2]), 16, BatchShape(ranks=2, ep_ranks=2, micro_batches=2), cost)
    assert plan.before.coupled_s == 17 and plan.before.rank_sum_s == 17
    assert plan.after.coupled_s == 11 and plan.after.rank_sum_s == 10
    assert plan.after.mean_s == 10


def _best_coupled(costs: np.ndarray, ranks: int, ep: int, micro_batches: int) -> float:
    orders = set(itertools.permutations(costs.tolist()))
    return min(
        measure_imbalance(np.arange(costs.size).reshape(1, ranks, micro_batches, 1), np.array(p), ep).coupled_s
        for p in orders
    )


@pytest.mark.parametrize("ranks,ep,micro_batches", [(2, 1, 3), (2, 2, 3), (4, 2, 1), (4, 2, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_near_brute_force(ranks, ep, micro_batches, seed):
    """Greedy and exchange on small cases: at most 5% above the optimum, equal when a row is the whole world."""
    size = ranks * micro_batches
    lengths = np.random.default_rng(seed).integers(1, 5 if size > 6 else 40, size)
    cost = SampleCost(alpha_s_per_token=1.0)
    shape = BatchShape(ranks=ranks, ep_ranks=ep, micro_batches=micro_batches, free_counts=False)
    plan = rearrange(lengths, 64, shape, cost)
    best = _best_coupled(lengths.astype(float), ranks, ep, micro_batches)
    assert best * (1 - 1e-12) <= plan.after.coupled_s <= best * (1.001 if ranks == ep else 1.05)


def _log_normal(sequence_length: int, tokens: int, seed: int = 0) -> np.ndarray:
    median, sigma = (600, 1.3) if sequence_length == 8192 else (4000, 1.5)
    drawn = np.exp(np.random.default_rng(seed).normal(np.log(median), sigma, tokens // median)).astype(np.int64)
    drawn = np.clip(drawn, 1, sequence_length)
    return drawn[: np.searchsorted(np.cumsum(drawn), tokens)]


def _check_published_line(lengths: np.ndarray, sequence_length: int, per_rank: int) -> None:
    shape = BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank)
    plan = rearrange(lengths, sequence_length, shape, COST, "ffd")
    full = plan.order[(plan.order >= 0).all(axis=(1, 2, 3))]  # the last batch may hold fewer
    assert len(full) >= 1
    after = measure_imbalance(full, plan.cost_s, 4)
    assert after.rank_sum_over_mean <= 1.02 and after.coupled_over_mean <= 1.02


@pytest.mark.parametrize("sequence_length,per_rank", [(8192, 8), (8192, 16), (131072, 16)])
def test_log_normal_within_two_per_cent(sequence_length, per_rank):
    tokens = 48 * per_rank * sequence_length * 5 // 4
    _check_published_line(_log_normal(sequence_length, tokens), sequence_length, per_rank)


@pytest.mark.shared
@pytest.mark.skipif(not TRACE.exists(), reason="needs ../shared/traces/document_lengths.npz")
@pytest.mark.parametrize("sequence_length,per_rank", [(8192, 8), (131072, 16)])
def test_real_lengths_within_two_per_cent(sequence_length, per_rank):
    lengths = np.load(TRACE)["lengths"].astype(np.int64)
    np.random.default_rng(0).shuffle(lengths)
    pieces, _ = split_overlong(lengths, sequence_length)
    tokens = 48 * per_rank * sequence_length * 5 // 4
    _check_published_line(pieces[: np.searchsorted(np.cumsum(pieces), tokens)], sequence_length, per_rank)


@pytest.mark.parametrize("sequence_length,per_rank", [(8192, 2), (8192, 8), (131072, 8), (131072, 16)])
def test_free_counts_reach_the_bound(sequence_length, per_rank):
    """Not packed, one heavy tail a batch: within 1% of max(mean, costliest sample)."""
    lengths = _log_normal(sequence_length, 48 * per_rank * sequence_length, seed=2)[: 48 * per_rank]
    shape = BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank, free_counts=True)
    plan = rearrange(lengths, sequence_length, shape, COST)
    padded = BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank, free_counts=False)
    fixed = rearrange(lengths, sequence_length, padded, COST)
    assert plan.after.coupled_over_bound <= 1.01 and plan.after.coupled_s <= fixed.after.coupled_s


@pytest.mark.parametrize("per_rank", [1, 2, 4])
def test_few_sequences_reach_the_costliest(per_rank):
    """Heavy tail, few samples a rank: within 1% of max(mean, costliest sequence)."""
    lengths = _log_normal(131072, 48 * per_rank * 20_000, seed=1)[: 48 * per_rank]
    plan = rearrange(lengths, 131072, BatchShape(ranks=48, ep_ranks=4, micro_batches=per_rank), COST)
    assert plan.after.coupled_over_bound <= 1.01


def test_bad_input_is_named():
    shape = BatchShape(ranks=2, micro_batches=1)
    for lengths, word in (
        ([], "empty"),
        ([5, float("nan")], r"lengths\[1\]"),
        ([-3, 5], r"lengths\[0\]"),
        ([2.5], "whole"),
        ([5, 65], "--overlong split"),
    ):
        with pytest.raises(InputError, match=word):
            rearrange(np.array(lengths), 64, shape, COST)
    with pytest.raises(InputError, match="divisor"):
        BatchShape(ranks=6, ep_ranks=4)
    with pytest.raises(InputError, match="packing"):
        rearrange(np.array([1]), 64, shape, COST, "best")

"""Long samples over several ranks, and outliers that wait: by hand, invariants, and the stated limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.data import BatchShape, SampleCost, rearrange
from autodeploy.balance.data.delay import delay_outliers
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.balance.data.split import clocked_s, piece_seconds
from autodeploy.errors import InputError

TRACE = Path(__file__).resolve().parents[3].parent / "shared" / "traces" / "document_lengths.npz"
# a DeepSeek-V3-size model, in FLOP: 6 x 37.6e9 a token, 3 x 61 x 128 x (192 + 128) a squared token (causal)
COST = SampleCost(alpha_s_per_token=6 * 37.6e9, beta_s_per_token2=3 * 61 * 128 * (192 + 128))


def test_a_part_costs_its_share_and_the_ring() -> None:
    cost = SampleCost(alpha_s_per_token=2.0, beta_s_per_token2=1.0, gamma_s=5.0, ring_s_per_token=0.5)
    tokens, squares = np.array([8, 8]), np.array([64, 64])
    assert piece_seconds(cost, tokens, squares, np.array([1, 4])).tolist() == [85.0, 20 + 0.5 * 8 * 3 / 4 + 5]


def test_one_long_sample_by_hand() -> None:
    """Costs 8, 1, 1, 1, 1 on four ranks: alone the step is 8; over four ranks each holds 2, and one of the ones: 3."""
    lengths, shape = np.array([8, 1, 1, 1, 1]), {"ranks": 4, "ep_ranks": 1, "micro_batches": 2}
    cost = SampleCost(alpha_s_per_token=1.0)
    assert rearrange(lengths, 8, BatchShape(**shape), cost).after.coupled_s == 8
    plan = rearrange(lengths, 8, BatchShape(**shape, most_parts=4), cost)
    assert plan.parts.tolist() == [4, 1, 1, 1, 1] and plan.after.coupled_s == 3 == plan.after.mean_s
    assert sorted(plan.order[plan.order >= 0].tolist()) == [0, 0, 0, 0, 1, 2, 3, 4]


def test_groups_that_share_a_sample_wait() -> None:
    """Groups of one rank: 1 and 5 first, then a sample of two parts of 2, which both start at 5; then 4 on the first."""
    order = np.array([[[[0], [2], [3]], [[1], [2], [-1]]]])
    assert clocked_s(order, np.array([1.0, 5.0, 2.0, 4.0]), np.array([1, 1, 2, 1]), 1).tolist() == [11.0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 64), min_size=2, max_size=60),
    st.sampled_from([(4, 1), (4, 2), (6, 3), (8, 2)]),
    st.integers(1, 4),
    st.sampled_from([2, 4, 8]),
)
def test_split_samples_stand_at_as_many_ranks_and_never_slow_the_step(
    lengths: list[int], ranks: tuple[int, int], micro_batches: int, most_parts: int
) -> None:
    shape = {"ranks": ranks[0], "ep_ranks": ranks[1], "micro_batches": micro_batches}
    cost = SampleCost(alpha_s_per_token=1.0, beta_s_per_token2=0.1, gamma_s=1.0, ring_s_per_token=0.05)
    whole = rearrange(np.array(lengths), 64, BatchShape(**shape), cost)
    plan = rearrange(np.array(lengths), 64, BatchShape(**shape, most_parts=most_parts), cost)
    assert plan.parts.max() <= most_parts and not (ranks[0] % plan.parts).any()
    assert plan.after.coupled_s <= whole.after.coupled_s * (1 + 1e-9)
    tokens = np.append(-(-plan.samples.tokens // plan.parts), 0)
    assert tokens[plan.order].sum(axis=3).max() <= 64
    for sample, count in enumerate(plan.parts):
        batch, rank, micro_batch, _ = np.nonzero(plan.order == sample)
        assert len(rank) == count and len(set(batch)) == len(set(micro_batch)) == 1
        assert rank.tolist() == list(range(rank[0], rank[0] + count)) and rank[0] % count == 0


@pytest.mark.parametrize(("sequence_length", "per_rank"), [(8192, 8), (131072, 16)])
@pytest.mark.parametrize("median", [512, 4096, 16384])
@pytest.mark.parametrize("sigma", [1.0, 1.5])
def test_log_normal_within_one_per_cent(sequence_length: int, per_rank: int, median: int, sigma: float) -> None:
    """48 ranks, expert groups of 4; where one sample exceeds a rank's work it is split."""
    if median > sequence_length:
        pytest.skip("longer than the sequence")
    drawn = np.exp(np.random.default_rng(1).normal(np.log(median), sigma, 48 * per_rank))
    lengths = np.clip(drawn.astype(np.int64), 1, sequence_length)
    shape = {"ranks": 48, "ep_ranks": 4, "micro_batches": per_rank}
    assert rearrange(lengths, sequence_length, BatchShape(**shape), COST).after.coupled_over_bound <= 1.01
    assert rearrange(lengths, sequence_length, BatchShape(**shape, most_parts=48), COST).after.coupled_over_mean <= 1.01


@pytest.mark.shared
@pytest.mark.skipif(not TRACE.exists(), reason="needs ../shared/traces/document_lengths.npz")
@pytest.mark.parametrize("per_rank", [8, 16])
def test_real_lengths_at_128k_have_a_floor_that_splitting_removes(per_rank: int) -> None:
    lengths = np.load(TRACE)["lengths"].astype(np.int64)
    np.random.default_rng(0).shuffle(lengths)
    lengths = split_overlong(lengths, 131072)[0][: 48 * per_rank * 3]
    shape = {"ranks": 48, "ep_ranks": 4, "micro_batches": per_rank}
    assert rearrange(lengths, 131072, BatchShape(**shape), COST).after.coupled_over_mean > 5
    assert rearrange(lengths, 131072, BatchShape(**shape, most_parts=48), COST).after.coupled_over_mean <= 1.1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=120), st.integers(1, 4), st.integers(0, 5))
def test_no_sample_waits_longer_than_stated(lengths: list[int], ranks: int, most: int) -> None:
    tokens = np.array(lengths)
    slots = ranks * 3
    delay = delay_outliers(tokens.astype(float), tokens, slots, ranks, most)
    assert sorted(delay.order.tolist()) == list(range(len(lengths)))
    assert delay.most_batches <= most + len(lengths) // slots * (most == 0)
    if most == 0:
        assert delay.order.tolist() == list(range(len(lengths))) and delay.delayed == 0


def test_outliers_gather_in_one_batch() -> None:
    """Four batches of four with one outlier each, two ranks: two batches last as long as the outlier, not four."""
    lengths = np.array([100, 1, 1, 1] * 4)
    cost = SampleCost(alpha_s_per_token=1.0)
    shape = {"ranks": 2, "micro_batches": 2}
    plan = rearrange(lengths, 100, BatchShape(**shape, most_delay=3), cost)
    now = rearrange(lengths, 100, BatchShape(**shape), cost)
    assert plan.after.coupled_s < 0.6 * now.after.coupled_s
    assert plan.delay is not None and 0 < plan.delay.delayed <= 4 and plan.delay.most_batches <= 3
    assert "later" in plan.delay.bias()


def test_splitting_needs_free_counts() -> None:
    with pytest.raises(InputError, match="padded"):
        BatchShape(ranks=4, most_parts=2, free_counts=False)
    with pytest.raises(InputError, match="batch size"):
        BatchShape(ranks=4, most_delay=2)

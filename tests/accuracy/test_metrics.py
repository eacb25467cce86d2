"""Figures of merit, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.accuracy import metrics


def test_errors_by_hand():
    errors = [metrics.error_frac(11, 10), metrics.error_frac(8, 10), metrics.error_frac(10, 10)]
    assert metrics.mean_ape(errors) == pytest.approx(0.1)
    assert metrics.median_ape(errors) == pytest.approx(0.1)
    assert metrics.mean_error(errors) == pytest.approx(-0.1 / 3)
    assert metrics.p90_ape(errors) == pytest.approx(0.18)  # linear between 0.1 and 0.2
    assert metrics.mean_ape([]) is None


def test_tau_by_hand():
    # pairs: 12 13 14 23 24 34; the prediction swaps 2 and 3: C=5, D=1
    tau, pairs = metrics.tau_b([1, 2, 3, 4], [1, 3, 2, 4])
    assert (tau, pairs) == (pytest.approx(4 / 6), 6)


def test_tau_counts_ties_of_the_prediction():
    # 1-2 tied in the prediction: C=2, n=3, untied 2
    tau, pairs = metrics.tau_b([1, 2, 3], [5, 5, 9])
    assert (tau, pairs) == (pytest.approx(2 / math.sqrt(3 * 2)), 3)


def test_close_pairs_are_left_out():
    # 100 and 101 are 1% apart: that the prediction swaps them does not matter
    assert metrics.tau_b([100, 101, 200], [2, 1, 3]) == (pytest.approx(1.0), 2)
    assert metrics.tau_b([100, 100.5], [1, 2]) == (0.0, 0)


def test_pooled_tau_weighs_by_pairs_and_needs_five():
    good = ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])  # tau 1, 10 pairs
    bad = ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1])  # tau -1, 15 pairs
    small = ([1, 2], [2, 1])
    assert metrics.pooled_tau([good, bad, small]) == pytest.approx((10 - 15) / 25)
    assert metrics.pooled_tau([small]) is None


def test_balanced_accuracy_by_hand():
    died = [True, True, True, True, False, False]
    said = [True, True, True, False, False, True]
    assert metrics.balanced_accuracy(died, said) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert metrics.balanced_accuracy([False], [False]) is None


@given(st.sets(st.text(min_size=1, max_size=8), min_size=2, max_size=40))
def test_every_group_of_families_is_split(families):
    held = metrics.held_out_families({"g": families})
    assert 0 < len(held) < len(families)
    assert held == metrics.held_out_families({"g": sorted(families, reverse=True)})


def test_a_lone_family_is_not_held_out():
    assert metrics.held_out_families({"g": {"only"}}) == frozenset()


def test_sources_put_aside_are_held_out_whole():
    from autodeploy.accuracy import read_runs
    from autodeploy.accuracy.held_out import SOURCES, held_out_families

    runs = read_runs().runs
    held = held_out_families(runs)
    assert all(run.family in held for run in runs if run.group in SOURCES)
    assert any(run.kind == "moe" for run in runs if run.group in SOURCES)

"""Tokens over copies: by hand, against a linear program, and on the routing of really trained models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from autodeploy.balance.experts import (
    Placement,
    Topology,
    card_loads,
    fixed_fractions,
    max_over_mean,
    place,
    place_expected,
    shared_card_loads,
    split_step,
)
from autodeploy.balance.experts.expected import expected_peak
from autodeploy.balance.experts.placement import F64, I64

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="../shared/traces (routing of trained models) is absent")


def least_peak(slots: I64, loads: F64, cards: int) -> float:
    """The linear program: tokens of every slot and the peak; slots [S], loads [E]."""
    count, width = len(slots), len(slots) // cards
    below, equal = np.zeros((cards, count + 1)), np.zeros((len(loads), count + 1))
    below[np.arange(count) // width, np.arange(count)] = 1
    below[:, -1] = -1
    equal[slots, np.arange(count)] = 1
    cost = np.append(np.zeros(count), 1.0)
    return float(linprog(cost, A_ub=below, b_ub=np.zeros(cards), A_eq=equal, b_eq=loads).fun)


def test_split_by_hand() -> None:
    placement = Placement(np.array([[[0, 1], [0, 2]]]), experts=3)
    assert split_step(placement, np.array([[[10.0, 4.0, 0.0]]]))[0, 0].tolist() == pytest.approx([3, 4, 7, 0], abs=1e-3)
    assert split_step(placement, np.array([[[1.0, 4.0, 0.0]]]))[0, 0].tolist() == pytest.approx([0, 4, 1, 0], abs=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10_000))
def test_split_is_the_linear_program(cards: int, width: int, spare: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    experts, slots = cards * width, cards * (width + spare)
    loads = rng.zipf(1.5, size=(3, 2, experts)).clip(0, 1000).astype(float)
    placement = place(loads.mean(axis=0), Topology(nodes=1, cards_per_node=cards), slots)
    split = split_step(placement, loads)
    assert (split >= 0).all()
    for layer in range(2):
        for step in range(3):
            per_expert = np.bincount(placement.flat()[layer], split[step, layer], minlength=experts)
            assert per_expert == pytest.approx(loads[step, layer])
            peak = split[step, layer].reshape(cards, -1).sum(axis=1).max()
            best = least_peak(placement.flat()[layer], loads[step, layer], cards)
            assert best * (1 - 1e-9) <= peak <= best + 2e-3 * loads[step, layer].sum() / cards


def test_fixed_shares_favour_the_card_that_is_cool_when_the_expert_is_hot() -> None:
    """Expert 0 swings with expert 1 and against expert 2; means are alike, so even shares lose."""
    placement = Placement(np.array([[[0, 1], [0, 2]]]), experts=3)
    loads = np.array([[[8.0, 8.0, 2.0]], [[2.0, 2.0, 8.0]]] * 5)
    fractions = fixed_fractions(placement, loads)
    assert fractions[0].tolist() == pytest.approx([1 - fractions[0, 2], 1, fractions[0, 2], 1])
    fixed = shared_card_loads(placement, loads, "fixed", fractions).max(axis=2).mean()
    assert fractions[0, 2] > 0.6 and fixed < card_loads(placement, loads).max(axis=2).mean()


def test_expected_placement_parts_experts_that_swing_together() -> None:
    """Means are all alike: only the samples say that 0 and 1 must not share a card."""
    swing = np.array([1.0, -1.0] * 10)[:, None, None]
    loads = 10 + swing * np.array([5.0, 5.0, -5.0, -5.0])
    placement = place_expected(loads, Topology(nodes=1, cards_per_node=2))
    assert card_loads(placement, loads).max() == pytest.approx(20.0)
    together = Placement(np.array([[[0, 1], [2, 3]]]), 4)
    assert expected_peak(together.flat(), loads, 2)[0] == pytest.approx(30.0)


# 80 slots on 16 cards, planned on steps [t - 100, t) and scored on the next 100, t = 200, 300 .. 1,400: what FlashLB
# (vllm-ascend) reaches with even shares, and the limits asked of shares solved per step.
@pytest.mark.shared
@needs_traces
@pytest.mark.parametrize(
    ("variant", "flash_lb", "limit"),
    [("no_balancing", 1.209, 1.10), ("aux_loss", 1.229, 1.12), ("bias_loss_free", 1.177, 1.08)],
)
def test_traces_against_flash_lb(variant: str, flash_lb: float, limit: float) -> None:
    history = np.load(TRACES / f"{variant}_loads.npz")["loads"].astype(float)
    even, step = [], []
    for start in range(200, 1500, 100):
        placement = place_expected(history[start - 100 : start], Topology(nodes=2, cards_per_node=8), 80)
        ahead = history[start : start + 100]
        even.append(max_over_mean(card_loads(placement, ahead)).mean())
        step.append(max_over_mean(shared_card_loads(placement, ahead, "step")).mean())
    assert np.mean(even) <= flash_lb and np.mean(step) <= limit

"""The decision: ties, the simplest first, head-room, what may not fit, and the memory probit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.decide.calibration import Pairs, brier, calibration_table, pairs_of
from autodeploy.decide.memory import MemoryData, MemoryModel, fit_memory
from autodeploy.decide.ranking import Decision, Question, decide
from autodeploy.decide.trials import Outlook, choice_after, knowledge_gradient, next_run
from tests.decide.test_belief import MODEL, rows

SURE = MemoryModel(shift=0.0, sd=0.01)


def asked(**changes: object) -> Question:
    given = rows(
        [[1.000, 0.1], [1.002, 0.1], [1.004, 0.1], [3.00, 0.1]], micro_batch=[1, 0, 1, 0], recompute=[1, 0, 0, 0]
    )
    return replace(Question(rows=given, model=MODEL, memory=SURE, evidence_runs=np.zeros(4, dtype=np.int64)), **changes)


def decision(**changes: object) -> Decision:
    return decide(asked(**changes))


def test_within_the_tie_the_simplest_comes_first() -> None:
    found = decision()
    assert found.fastest == 0 and found.tie.tolist() == [True, True, True, False]
    assert found.order.tolist() == [1, 2, 0, 3]  # 0, 1 and 2 departures, then what is plainly slower
    assert found.departures.tolist() == [2, 0, 1, 0]


def test_rows_that_may_not_fit_follow_and_never_vanish() -> None:
    usage = np.array([0.5, 1.0, 0.5, 0.5])
    found = decision(rows=replace(asked().rows, usage=usage))
    assert found.order.tolist() == [2, 0, 3, 1]
    assert found.fit_probability[1] == pytest.approx(0.5) and not found.tie[1]


def test_head_room_then_measured_runs_decide_between_equals() -> None:
    equal = rows([[1.0, 0.1]] * 3)
    usage = np.array([0.9, 0.5, 0.5])
    question = Question(
        rows=replace(equal, usage=usage), model=MODEL, memory=SURE, evidence_runs=np.array([9, 1, 5], dtype=np.int64)
    )
    assert decide(question).order.tolist() == [2, 1, 0]


def test_the_same_seed_decides_the_same() -> None:
    assert decision().best_probability.tolist() == decision().best_probability.tolist()
    assert decision().best_probability.sum() == pytest.approx(1.0)


def test_the_probit_by_hand_and_back() -> None:
    model = MemoryModel(shift=-0.016, sd=0.134)
    assert model.fit_probability(np.array([np.exp(0.016)]))[0] == pytest.approx(0.5)
    assert model.fit_probability(np.array([model.usage_at(0.9)]))[0] == pytest.approx(0.9, abs=1e-6)
    assert model.over_a_run().fit_probability(np.array([0.9]))[0] < model.first_step_probability(np.array([0.9]))[0]
    drawn = model.draw_fits(np.array([0.9, 1.1]), 2000, 0).mean(axis=0)
    assert drawn == pytest.approx(model.fit_probability(np.array([0.9, 1.1])), abs=0.01)


def test_the_memory_fit_finds_what_it_was_drawn_from() -> None:
    rng = np.random.default_rng(0)
    error = rng.normal(0.05, 0.1, 2000)
    usage = rng.uniform(-0.5, 0.5, 1500)
    data = MemoryData(error[:500], usage, (usage + error[500:] > 0).astype(float))
    found = fit_memory([data], "drawn")
    assert (found.shift, found.sd) == (pytest.approx(0.05, abs=0.01), pytest.approx(0.1, abs=0.01))


def test_knowledge_gradient_by_hand() -> None:
    """Two rows, equal means, one unknown by sd 1: E[min(0, z)] = -1 / sqrt(2 pi)."""
    outlook = Outlook(np.zeros(2), np.diag([1.0, 0.0]))
    gain = knowledge_gradient(outlook, outlook.covariance[:1], np.array([1.0]))
    assert gain[0] == pytest.approx(1 / np.sqrt(2 * np.pi), rel=0.03)
    assert next_run(outlook, 0.0, [0, 1]) == 0
    after = outlook.observed(0, -1.0, 0.0)
    assert after.mean.tolist() == [-1.0, 0.0] and after.covariance[0, 0] == pytest.approx(0.0)
    assert choice_after(after, {0: 0.5}) == 0 and choice_after(after, {0: 0.5, 1: 0.4}) == 1


def test_calibration_by_hand() -> None:
    pairs = pairs_of(np.array([[0.5, 0.9], [0.1, 0.5]]), np.array([2.0, 1.0]))
    assert pairs.said.tolist() == [0.9] and pairs.right.tolist() == [False]
    assert brier([pairs, Pairs(np.array([0.9]), np.array([True]))]) == pytest.approx((0.81 + 0.01) / 2)
    row = calibration_table([pairs])[0]
    assert (row["pairs"], row["right"], row["said"]) == (1, 0.0, 0.9)

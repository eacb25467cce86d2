"""The belief: hand-worked values, laws of a Gaussian update, and what near twins share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.decide.belief import Evidence, believe
from autodeploy.decide.draws import best_probability, draw_step_s, faster_probability
from autodeploy.decide.model import ErrorModel
from autodeploy.decide.rows import AXES, MECHANISMS, Rows

ALL = dict.fromkeys(MECHANISMS, 100)
SOURCES = dict.fromkeys(MECHANISMS, 5)
MODEL = ErrorModel(mechanism_runs=ALL, mechanism_sources=SOURCES, strange_share=0.0)


def rows(times: list[list[float]], **levels: list[float]) -> Rows:
    n = len(times)
    table = np.zeros((n, len(AXES)))
    for name, values in levels.items():
        table[:, AXES.index(name)] = values
    mechanisms = np.zeros((n, len(MECHANISMS)), dtype=bool)
    mechanisms[:, MECHANISMS.index("swap")] = table[:, AXES.index("swap")] > 0
    return Rows(
        causes=("gemm", "tp_comm"), time_s=np.array(times), levels=table, mechanisms=mechanisms, usage=np.full(n, 0.5)
    )


def run_of(row: Rows, ratio: float, noise: float = 0.0) -> Evidence:
    return Evidence(
        rows=row, log_ratio=np.array([np.log(ratio)]), noise_sd=np.array([noise]), shared=np.ones(1), case=np.zeros(1)
    )


def test_without_evidence_the_expected_time_is_the_predicted_one() -> None:
    asked = rows([[1.0, 0.2], [1.1, 0.0]], tp=[1, 0])
    assert believe(MODEL, asked).expected_s == pytest.approx(asked.step_s)


def test_an_unmeasured_mechanism_is_slower_by_its_stated_bias() -> None:
    asked = rows([[1.0, 0.2], [1.0, 0.2]], swap=[0, 1])
    model = ErrorModel(mechanism_runs=ALL | {"swap": 0}, mechanism_sources=SOURCES)
    plain, swapped = believe(model, asked).expected_s
    assert swapped / plain == pytest.approx(np.exp(0.04))


def test_a_run_without_noise_is_believed_of_its_own_row() -> None:
    asked = rows([[1.0, 0.2], [0.7, 0.6]], tp=[1, 3])
    after = believe(MODEL, asked, run_of(asked.take(slice(0, 1)), 1.2))
    assert after.expected_s[0] == pytest.approx(1.2 * asked.step_s[0], rel=1e-4)
    assert after.log_covariance[0, 0] < 1e-6 < after.log_covariance[1, 1]


def test_one_variance_worked_by_hand() -> None:
    """One cause and a common factor alone: w = common / (common + noise) of the surprise is carried to the other row."""
    model = ErrorModel(
        cause_sd={"gemm": 0.0, "tp_comm": 0.0}, axis_sd=dict.fromkeys(AXES, 0.0), near_sd=0.0, case_sd=0.0, common_sd=0.1,
        strange_share=0.0, mechanism_runs=ALL, mechanism_sources=SOURCES,
    )  # fmt: skip
    asked = rows([[1.0, 0.0], [2.0, 0.0]])
    after = believe(model, asked.take(slice(1, 2)), run_of(asked.take(slice(0, 1)), 1.3, noise=0.1))
    assert after.expected_s[0] == pytest.approx(2.0 * 1.3**0.5, rel=1e-6)


def test_a_far_off_first_run_is_taken_for_another_cluster() -> None:
    strange = ErrorModel(
        cause_sd={"gemm": 0.0, "tp_comm": 0.0}, axis_sd=dict.fromkeys(AXES, 0.0), near_sd=0.05, common_sd=0.03, case_sd=0.0,
        strange_sd=0.3, strange_share=0.1, mechanism_runs=ALL, mechanism_sources=SOURCES,
    )  # fmt: skip
    asked = rows([[1.0, 0.2], [0.9, 0.4]], tp=[0, 6])

    def carried(ratio: float) -> float:
        after = believe(strange, asked.take(slice(1, 2)), run_of(asked.take(slice(0, 1)), ratio, 0.01))
        return float(np.log(after.expected_s[0] / asked.step_s[1]) / np.log(ratio))

    assert carried(1.5) > 0.9 > 0.6 > carried(1.02)


def test_a_draw_prices_a_step_as_a_sum_not_linearly() -> None:
    asked = rows([[1.0, 1.0]])
    draws = draw_step_s(believe(MODEL, asked), draws=4000)[:, 0]
    assert np.median(draws) == pytest.approx(asked.step_s[0], rel=1e-9)
    assert draws.mean() > np.median(draws)  # exponentials are skewed; a linear price would not be


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.0, 0.5)), min_size=2, max_size=6), st.integers(0, 5))
def test_more_runs_never_widen_what_is_believed_but_by_their_surprise(
    times: list[tuple[float, float]], seed: int
) -> None:
    asked = rows([list(pair) for pair in times], tp=[float(i) for i in range(len(times))])
    rng = np.random.default_rng(seed)
    before = believe(MODEL, asked)
    evidence = Evidence(
        rows=asked.take(slice(0, 2)), log_ratio=rng.normal(0, 0.1, 2), noise_sd=np.full(2, 0.01), shared=np.ones(2),
        case=np.zeros(2),
    )  # fmt: skip
    after = believe(MODEL, asked, evidence)
    assert np.all(np.diag(after.log_covariance) / after.scale <= np.diag(before.log_covariance) + 1e-9)
    assert np.linalg.eigvalsh(after.log_covariance).min() > -1e-9


def test_near_twins_are_not_a_coin_flip() -> None:
    """2% between twins is told apart better than 2% between strategies that share nothing."""
    twins = rows([[1.0, 0.2], [1.02, 0.2]], micro_batch=[0, 1])
    strangers = rows([[1.0, 0.2], [0.62, 0.60]], tp=[0, 3], pp=[3, 0], vpp=[0, 2])
    sure = [faster_probability(draw_step_s(believe(MODEL, asked)))[0, 1] for asked in (twins, strangers)]
    assert sure[0] > sure[1] > 0.5


def test_probabilities_of_being_the_fastest_sum_to_one_and_know_what_dies() -> None:
    draws = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]])
    assert best_probability(draws, np.ones_like(draws)) == pytest.approx([0.5, 0.5, 0.0])
    assert best_probability(draws, np.array([[0, 1, 1], [1, 1, 1]], dtype=float)) == pytest.approx([0.0, 1.0, 0.0])


def test_a_run_of_another_case_tells_less_than_one_of_this() -> None:
    asked = rows([[1.0, 0.2], [0.9, 0.4]], tp=[1, 2])
    first = asked.take(slice(0, 1))
    own = run_of(first, 1.3)
    other = Evidence(rows=first, log_ratio=own.log_ratio, noise_sd=own.noise_sd, shared=np.ones(1), case=np.ones(1))
    stranger = Evidence(rows=first, log_ratio=own.log_ratio, noise_sd=own.noise_sd, shared=np.zeros(1), case=np.ones(1))
    moved = [believe(MODEL, asked, e).expected_s[1] / asked.step_s[1] for e in (own, other, stranger)]
    assert moved[0] > moved[1] > moved[2] == pytest.approx(1.0)

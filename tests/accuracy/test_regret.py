"""Regret of the first choice and order of machines, by hand on a few made-up results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autodeploy.accuracy import RunResult
from autodeploy.accuracy.regret import as_configured, machine_pairs, problems_of


@pytest.fixture(scope="module")
def result_of(run_set):
    base = replace(next(run for run in run_set.runs if run.group == "dgxc" and run.gated), suspect=None)

    def make(measured, predicted, **changes):
        return RunResult(run=replace(base, step_time_s=measured, **changes), predicted_step_time_s=predicted)

    return make


def test_regret_is_the_first_choice_over_the_best(result_of):
    rows = [result_of(1.0, 1.2, tp=1), result_of(1.1, 0.9, tp=2), result_of(1.5, 1.4, tp=4)]
    (problem,) = problems_of(rows, as_configured)
    assert problem.regret(as_configured) == pytest.approx(0.1)


def test_two_strategies_or_a_suspect_are_no_problem(result_of):
    rows = [result_of(1.0, 1.2, tp=1), result_of(1.1, 0.9, tp=2), result_of(1.2, 0.8, tp=2)]
    assert problems_of(rows, as_configured) == []
    assert problems_of([*rows, result_of(1.3, 1.0, tp=4, suspect="outlier")], as_configured) == []
    assert len(problems_of([*rows, result_of(1.3, 1.0, tp=4)], as_configured)) == 1
    assert problems_of([*rows, result_of(1.3, 1.0, tp=4, global_batch=7)], as_configured) == []


def test_pairs_of_machines(result_of):
    cards = {"num_devices": 8}
    rows = [
        result_of(1.0, 1.0, device="b200", **cards), result_of(2.0, 0.5, device="b200", **cards),  # the slower b200 is out
        result_of(1.2, 0.9, device="gb200", **cards), result_of(0.99, 2.0, device="b300", **cards),
    ]  # fmt: skip
    found = {(p.first.run.device, p.second.run.device): p.right for p in
             machine_pairs(rows, as_configured, ("b200", "gb200", "b300"))}  # fmt: skip
    assert found == {("b200", "gb200"): False, ("gb200", "b300"): False}, "b200 and b300 are within 2%: no order"

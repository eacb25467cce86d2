"""The report: its JSON contract, targets, the gate and the command."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autodeploy.accuracy import Report, compare
from autodeploy.accuracy import gate as gates
from autodeploy.accuracy.document import report_document
from autodeploy.accuracy.predict import predict
from autodeploy.accuracy.residuals import residuals, worst
from autodeploy.accuracy.targets import TARGETS, target_status
from autodeploy.errors import InputError
from tests.accuracy.conftest import fake_evaluate

RUN_KEYS = {
    "id", "group", "family", "complete", "suspect", "measured_step_time_s", "predicted_step_time_s", "time_error_frac",
    "measured_memory_gib", "predicted_memory_gib", "memory_error_frac", "oom_measured", "oom_predicted", "fitted_on",
    "skipped",
}  # fmt: skip
FIGURE_KEYS = {"runs", "time_mape", "time_median_ape", "time_p90_ape", "memory_mape", "rank_tau"}


@pytest.fixture(scope="module")
def document(fake_report):
    return json.loads(json.dumps(report_document(fake_report), allow_nan=False))


def test_json_contract(document):
    assert document["schema"] == "autodeploy.accuracy/1"
    assert len(document["runs"]) == len({row["id"] for row in document["runs"]}) > 3000
    assert set(document["runs"][0]) >= RUN_KEYS
    for parts in document["groups"].values():
        assert set(parts) == {"complete", "partial"}
        assert all(set(part) >= FIGURE_KEYS for part in parts.values())
    assert sum(part["runs"] for parts in document["groups"].values() for part in parts.values()) == len(
        document["runs"]
    )
    assert 0 <= document["total"]["fit_balanced_accuracy"] <= 1


def test_each_run_is_predicted_or_says_why(document):
    for row in document["runs"]:
        assert (row["predicted_step_time_s"] is None) == (row["skipped"] is not None), row["id"]


def test_errors_of_a_row(document):
    row = next(row for row in document["runs"] if row["id"] == "korthikanti-175b-full")
    expected = (row["predicted_step_time_s"] - 18.13) / 18.13
    assert row["time_error_frac"] == pytest.approx(expected)
    assert row["oom_measured"] is False


def test_group_figure_by_hand(document):
    errors = [abs(r["time_error_frac"]) for r in document["runs"] if r["group"] == "korthikanti/bf16"]
    assert document["groups"]["korthikanti/bf16"]["complete"]["time_mape"] == pytest.approx(sum(errors) / 9)


def test_held_out_families_are_in_both_figures(document):
    figures = document["groups"]["vtrain_single/bf16"]["complete"]
    assert figures["fitted_families"]["runs"] + figures["held_out_families"]["runs"] == 1276
    assert figures["held_out_families"]["runs"] > 0


def test_targets_count_the_rows_of_the_issue(fake_report):
    statuses = {status.target.name: status for status in target_status(fake_report)}
    assert set(statuses) == {target.name for target in TARGETS}
    for name, status in statuses.items():
        assert status.rows == status.target.rows, name


def test_one_bad_row_does_not_take_its_neighbours_along(cases):
    sample = [case for case in cases.cases if case.run.group == "hagemann"][:20]

    def fails_for_mbs2(case, batch, *, per_rank=False):
        if (batch.micro_batch == 2).any():
            raise ValueError("no such micro-batch")
        return fake_evaluate(case, batch, per_rank=per_rank)

    good, bad = predict(sample, fails_for_mbs2)
    assert set(good) | set(bad) == {case.run.id for case in sample}
    assert set(bad) == {case.run.id for case in sample if case.run.micro_batch == 2}


def test_open_keys_take_the_fastest_that_fits(cases):
    case = next(c for c in cases.cases if len(c.points) > 2)

    def by_micro_batch(case, batch, *, per_rank=False):
        cost = fake_evaluate(case, batch)
        cost.step_s = 100.0 - batch.micro_batch  # larger is faster
        cost.peak_reserved_bytes = (batch.micro_batch > 1) * 1e15  # but only 1 fits
        return cost

    found = predict([case], by_micro_batch)[0][case.run.id]
    assert case.points[found.point].micro_batch == 1 and found.fits


# ------------------------------------------------------------------------------------------------------ the gate


def _slower(report: Report, group: str, factor: float) -> Report:
    return Report(tuple(
        replace(r, predicted_step_time_s=r.predicted_step_time_s * factor)
        if r.run.report_group == group and r.predicted_step_time_s else r
        for r in report.results
    ))  # fmt: skip


def _scaled_to_truth(report: Report) -> Report:
    return Report(tuple(
        replace(r, predicted_step_time_s=r.run.step_time_s) if r.run.step_time_s and r.predicted_step_time_s else r
        for r in report.results
    ))  # fmt: skip


@pytest.fixture(scope="module")
def truth(fake_report):
    return _scaled_to_truth(fake_report)


def test_gate_passes_on_itself(truth):
    assert gates.violations(truth, gates.baseline_of(truth)) == []


def test_gate_allows_half_a_point(truth):
    baseline = gates.baseline_of(truth)
    assert gates.violations(_slower(truth, "korthikanti/bf16", 1.004), baseline) == []
    found = gates.violations(_slower(truth, "korthikanti/bf16", 1.006), baseline)
    assert len(found) == 1 and "korthikanti/bf16 time_mape" in found[0]


def test_gate_keeps_a_target_that_was_met(truth):
    baseline = gates.baseline_of(_slower(truth, "korthikanti/bf16", 1.033))
    found = gates.violations(_slower(truth, "korthikanti/bf16", 1.037), baseline)  # 0.4 points, but over 3.5%
    assert len(found) == 1 and found[0].startswith("target korthikanti/bf16")


def test_gate_minds_no_target_that_was_never_met(truth):
    baseline = gates.baseline_of(_slower(truth, "korthikanti/bf16", 1.2))
    assert gates.violations(_slower(truth, "korthikanti/bf16", 1.2), baseline) == []


def test_gate_sees_rows_that_went_unpredicted(truth):
    lost = Report(tuple(
        replace(r, predicted_step_time_s=None, skipped="lost") if r.run.id == "korthikanti-175b-full" else r
        for r in truth.results
    ))  # fmt: skip
    found = gates.violations(lost, gates.baseline_of(truth))
    assert any("rows were predicted" in line for line in found)


def test_gate_judges_only_what_was_run(truth, run_set):
    part = compare(run_set, fake_evaluate, [run for run in run_set.runs if run.group == "korthikanti"])
    assert gates.violations(_scaled_to_truth(part), gates.baseline_of(truth)) == []


def test_baseline_file(truth, tmp_path):
    file = tmp_path / "sub" / "baseline.json"
    assert gates.write_baseline(file, truth)
    assert gates.read_baseline(file) == gates.baseline_of(truth)
    assert gates.write_baseline(file, truth) == []
    lines = gates.write_baseline(file, _slower(truth, "korthikanti/bf16", 1.1))
    assert "korthikanti/bf16 time_mape: 0.00% -> 10.00%" in lines
    assert "target korthikanti/bf16: met -> missed" in lines


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other/1"}'])
def test_bad_baselines(tmp_path, text):
    file = tmp_path / "baseline.json"
    with pytest.raises(InputError, match="--baseline"):
        gates.read_baseline(file)
    file.write_text(text)
    with pytest.raises(InputError, match="baseline"):
        gates.read_baseline(file)


# ---------------------------------------------------------------------------------------------------- diagnosis


def test_residuals_by_column(fake_report):
    rows = [r for r in fake_report.results if r.run.report_group == "hagemann/bf16" and r.run.gated]
    found = residuals(rows, ["tp", "norm"])
    assert sum(len(each.ratios) for each in found) == 314
    assert [each.key[0] for each in found] == [1, 2, 4, 8]
    with pytest.raises(InputError, match="--by"):
        residuals(rows, ["no_such_column"])


def test_worst_is_sorted(fake_report):
    errors = [abs(r.time_error_frac) for r in worst(fake_report.results, 10)]
    assert len(errors) == 10 and errors == sorted(errors, reverse=True)


def test_a_target_over_sources_that_were_not_run_is_not_judged(fake_report):
    """Alone, one of the sources of a pooled target may miss it: that is no verdict on the target, and is said to be none."""
    from autodeploy.accuracy import Report
    from autodeploy.accuracy.targets import TARGETS, target_status

    pooled = next(target for target in TARGETS if len(target.sources) > 1 and target.metric == "rank_tau")
    whole = gates.baseline_of(fake_report)
    whole["targets"][pooled.name] = {"value": 0.9, "met": True, "rows": 2000}
    one = Report(tuple(r for r in fake_report.results if r.run.group == pooled.sources[0]))
    assert next(s for s in target_status(one) if s.target.name == pooled.name).rows < 2000
    assert not [line for line in gates.violations(one, whole) if pooled.name in line]
    said = [line for line in gates.unjudged(one, whole) if pooled.name in line]
    assert len(said) == 1 and pooled.sources[1] in said[0]
    assert gates.unjudged(fake_report, whole) == []


def test_the_verdict_for_ci_systems():
    from xml.etree import ElementTree

    suite = ElementTree.fromstring(
        gates.junit(["a/bf16"], ["b/fp8 time_mape: 1% -> 9% & <worse>"], ["target t: not judged"])
    )
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert suite.find("testcase/failure").text.endswith("<worse>")
    assert (
        gates.github_lines(["b: worse"], ["t: no"])
        == "::error title=accuracy::b: worse\n::notice title=accuracy::t: no\n"
    )

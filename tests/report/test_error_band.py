"""The error bands: quantiles by hand, what is near, and how the shipped table holds."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.accuracy.held_out import SOURCES, held_out_families
from autodeploy.hardware import hardware_names, load_hardware
from autodeploy.models import load_model
from autodeploy.report.error_band import (
    ACCURACY,
    LEAST,
    PULL,
    Family,
    band_of,
    read_table,
    shipped_table,
    weighted_quantile,
    write_group_bands,
    write_table,
)
from autodeploy.report.likeness import FIELDS, LEVELS, Likeness, device_family, likeness
from autodeploy.stacks import Program, load_stack, settle
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy

LIKE = Likeness(
    "Hopper", "16 bit", "dense", "nemo-25", "pipelined", "several nodes", "tensor parallel", "few micro-batches"
)
OTHER = LIKE._replace(stack="torchtitan-2025")


def family(name: str, like: Likeness, *errors: float) -> Family:
    return Family(name, like, errors, ())


def test_quantile_by_hand():
    assert weighted_quantile([[[0.1, 0.2, 0.3, 0.4]]], share=0.5) == 0.2
    assert weighted_quantile([[[0.1] * 9, [0.9]]], share=0.9) == 0.9, "nine like runs weigh 9^0.75 = 5.2, not 9"
    assert weighted_quantile([[[0.1] * 10000, [0.9]]], share=0.9) == 0.1
    # 16 runs of one source weigh (16^0.75)^0.5 = 2.83 beside another source's one run: 73.9% of the weight, not 94%.
    assert weighted_quantile([[[0.1] * 16], [[0.9]]], share=0.73) == 0.1
    assert weighted_quantile([[[0.1] * 16], [[0.9]]], share=0.75) == 0.9


def test_a_lone_source_of_a_group_is_pulled_to_the_wider_one():
    near, far = family("a/x", LIKE, 0.02), [family(f"f{i}", OTHER, 0.2) for i in range(9)]
    found = band_of(LIKE, table=[near, *far])
    # Wider groups: ten runs, nine at 0.2; then own at four levels, each pulled: log q = (log .02 + K log wider) / (1 + K).
    wider = np.log(0.2)
    for _ in range(4):
        wider = (np.log(0.02) + PULL * wider) / (1 + PULL)
    assert found.frac == pytest.approx(np.exp(wider))
    assert (found.runs, found.sources) == (1, 1) and "nemo-25" in found.group
    # More families of the same source say nothing new: its errors lean one way.
    more = [family(f"a/{i}", LIKE, 0.02) for i in range(9)]
    assert band_of(LIKE, table=[near, *more, *far]).frac == pytest.approx(np.exp(wider))


def test_its_own_family_has_no_say():
    table = [family("a", LIKE, 0.5), family("b", LIKE, 0.1)]
    assert band_of(LIKE, without="a", table=table).frac == pytest.approx(0.1)
    assert band_of(LIKE, table=table).frac == pytest.approx(0.5)


def test_a_source_left_out_takes_all_its_families():
    table = [family("a/1", LIKE, 0.5), family("a/2", LIKE, 0.4), family("b/1", LIKE, 0.1)]
    assert band_of(LIKE, without="a", table=table).frac == pytest.approx(0.1)
    assert band_of(LIKE, without="a/1", table=table).frac > 0.1


def test_a_case_like_none_gets_the_band_of_all_and_says_so():
    alien = Likeness(
        "other tpu",
        "8 and 4 bit",
        "mixture of experts",
        "x",
        "pipelined",
        "one node",
        "tensor parallel",
        "few micro-batches",
    )
    found = band_of(alien, table=[family("a", LIKE, 0.1), family("b", OTHER, 0.3)])
    assert found.frac == pytest.approx(0.3) and "none is like this case" in found.group
    assert band_of(alien, table=[]).frac == 1.0


def test_no_band_is_below_noise():
    assert band_of(LIKE, table=[family("a", LIKE, 0.0)]).frac == pytest.approx(LEAST)


def test_device_families():
    expected = {
        "a100-80g-sxm": "Ampere", "h100-sxm": "Hopper", "h20": "Hopper", "h800": "Hopper", "gb200-nvl72": "Blackwell",
        "b300": "Blackwell", "mi355x": "CDNA 3 and 4", "atlas-900-a3": "Ascend", "ascend-910b-280t": "Ascend",
    }  # fmt: skip
    assert {name: device_family(load_hardware(name)) for name in expected} == expected
    assert all(not device_family(load_hardware(name)).startswith("other") for name in hardware_names())


def test_likeness_of_a_case():
    hardware = load_hardware("h100-sxm")
    case = settle(
        Program(stack=load_stack("nemo-25")), load_model("qwen3-30b-a3b"), hardware,
        seq_length=4096, global_batch=64, precision="mxfp8",
    )  # fmt: skip
    batch = strategy_to_batch(parse_strategy("TP1/EP8/MBS4"), case.model, 8)
    assert likeness(case, "nemo-25 grad_dtype=fp32", batch, 0) == Likeness(
        "Hopper",
        "8 and 4 bit",
        "mixture of experts",
        "nemo-25",
        "no pipeline",
        "one node",
        "no tensor parallel",
        "few micro-batches",
    )


# ---------------------------------------------------------------------------------------------------- the shipped table


def test_the_shipped_bands_are_those_of_the_shipped_table():
    text = (ACCURACY / "group_bands.json").read_text(encoding="utf-8")
    assert text == write_group_bands(shipped_table()), "run scripts/error_bands.py"
    for like in {f.like for f in shipped_table()} | {LIKE, OTHER}:
        for quantity in ("time", "memory"):
            assert band_of(like, quantity) == band_of(like, quantity, table=shipped_table())


def test_the_table_reads_back_and_leaves_out_what_is_put_aside():
    table = shipped_table()
    assert read_table(write_table(table)) == table
    assert not any(f.name.split("/")[0] in SOURCES for f in table)


@pytest.fixture(scope="module")
def covered(run_set):
    """(family, error, band) of every error in the table, its own family left out."""
    unseen = held_out_families(run_set.runs)
    return [
        (f.name, f.name in unseen, error, band_of(f.like, without=f.name).frac)
        for f in shipped_table()
        for error in f.time
    ]


def test_nine_of_ten_unseen_rows_lie_inside(covered):
    inside = [error <= band for _, unseen, error, band in covered if unseen]
    assert len(inside) > 300 and 0.85 <= np.mean(inside) <= 0.95


def test_every_large_group_is_covered(covered, run_set):
    group_of = {run.family: run.report_group for run in run_set.runs}
    by_group: dict[str, list[bool]] = {}
    for name, _, error, band in covered:
        by_group.setdefault(group_of[name], []).append(error <= band)
    large = {name: np.mean(inside) for name, inside in by_group.items() if len(inside) >= 20}
    assert len(large) > 8
    assert all(0.8 <= share <= 0.98 for share in large.values()), large


def test_bands_are_sharp(covered):
    errors, bands = np.array([(error, band) for _, _, error, band in covered]).T
    assert np.median(bands) <= 3.3 * np.median(errors)


@pytest.mark.parametrize("quantity", ["time", "memory"])
def test_nine_of_ten_rows_of_a_new_source_lie_inside(quantity):
    """A user's cluster is a source that the table has never seen: each source is judged by the others alone."""
    inside: dict[str, list[bool]] = {}
    for f in shipped_table():
        band = band_of(f.like, quantity, without=f.source).frac
        inside.setdefault(f.source, []).extend(error <= band for error in f.errors(quantity))
    known = [each for each in inside.values() if each]
    shares = [np.mean(each) for each in known]
    assert len(known) >= 8
    assert 0.85 <= np.mean(np.concatenate(known)) <= 0.95, "over all rows"
    assert 0.85 <= np.average(shares, weights=[min(len(each), 40) for each in known]) <= 0.95, (
        "40 rows of a source at most"
    )
    assert 0.85 <= np.mean(shares) <= 0.95, "mean over sources"


def test_the_table_is_of_todays_predictions(run_set):
    """One row of every source: its error as typed stands in the table (scripts/error_bands.py writes it)."""
    from autodeploy.accuracy import compare
    from autodeploy.accuracy.bands import families_of

    last = {each.group: each for each in run_set.runs if each.gated and each.step_time_s and (each.pp or 0) <= 16}
    known = {(f.name, f.like): f for f in shipped_table()}
    for today in families_of(compare(run_set, runs=list(last.values())).results):
        written = known[(today.name, today.like)]
        for error in today.time:
            assert min(abs(error - each) for each in written.time) <= 2e-4, f"{today.name}: run scripts/error_bands.py"
    assert LEVELS[-1] == FIELDS

"""The contract of ``autodeploy estimate``."""

from __future__ import annotations

import pytest

from tests.cli.runner import estimate
from tests.cli.test_search import ROW_KEYS


def test_json_has_the_entry_and_lists_by_rank(capsys: pytest.CaptureFixture[str]) -> None:
    ran = estimate(capsys, "TP2/PP2/VPP1/EP1", "--format", "json")
    assert ran.code == 0 and ran.json["schema"] == "autodeploy.estimate/1"
    entry = ran.json["estimate"]
    assert set(ROW_KEYS) <= set(entry)
    ranks = entry["per_rank"]
    assert ranks["rank"] == [0, 1]
    assert max(ranks["peak_memory_gib"]) == pytest.approx(entry["peak_memory_gib"])
    assert ranks["peak_memory_gib"].index(max(ranks["peak_memory_gib"])) == entry["memory_rank"]
    assert sum(entry["time_s"].values()) == pytest.approx(entry["step_time_s"])


def test_what_does_not_fit_is_printed_and_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    ran = estimate(capsys, "TP1/MBS4", "--memory-cap", "20")
    assert ran.code == 3 and "DOES NOT FIT" in ran.out
    ran = estimate(capsys, "TP1/MBS4", "--memory-cap", "20", "--format", "json")
    assert ran.code == 3 and ran.json["estimate"]["fits"] is False


def test_options_complete_the_notation(capsys: pytest.CaptureFixture[str]) -> None:
    ran = estimate(capsys, "TP2/PP2", "--micro-batch", "2", "--recompute", "full", "--format", "json")
    assert ran.json["estimate"]["strategy"] == "TP2/PP2/VPP1/EP1/MBS2/full"
    assert estimate(capsys, "TP2/PP2/MBS1", "--micro-batch", "2").code == 2


def test_table_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    ran = estimate(capsys, "TP2/PP4", "--tokens", "15T", "--price-per-device-hour", "2.5")
    assert ran.code == 0 and max(len(line) for line in ran.out.splitlines()) <= 100
    for word in ("tokens/s/card", "MFU", "days", "card-hours", "rank", "peak"):
        assert word in ran.out


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    lines = estimate(capsys, "TP2/PP4", "--format", "csv").out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("model,hardware")

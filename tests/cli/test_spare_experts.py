"""``--spare-experts``: replicas hold memory like any expert, and dense models have none."""

from __future__ import annotations

import pytest

from tests.cli.runner import estimate, run

MOE = ["mixtral-8x7b", "--hardware", "h100-sxm", "--devices", "64", "--seq-length", "4096", "--global-batch", "256"]


def test_spare_slots_are_charged(capsys: pytest.CaptureFixture[str]) -> None:
    """8 experts on 4 ranks and 4 spare slots: three slots a rank, half as much expert state more."""
    plain, spare = (estimate(capsys, "TP2/PP4/EP4", *more, "--format", "json", case=MOE).json["estimate"]
                    for more in ((), ("--spare-experts", "4")))  # fmt: skip
    memory = [e["per_rank"]["memory_gib"] for e in (plain, spare)]
    experts = 8 * 3 * 4096 * 14336 * 8 / 4  # of 8 layers a stage, an EP rank's share
    grown = memory[1]["weights"][1] - memory[0]["weights"][1]
    assert grown == pytest.approx(0.5 * experts * 2 / 2**30, rel=1e-6)
    assert spare["peak_memory_gib"] > plain["peak_memory_gib"] and spare["step_time_s"] >= plain["step_time_s"]


def test_search_charges_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ("--tp", "2", "--pp", "4", "--ep", "4", "--micro-batch", "1", "--format", "json", "--method", "exhaustive")
    peaks = [
        run(capsys, "search", *MOE, *axes, *more).json["ranked"][0]["memory_gib"]["weights"]
        for more in ((), ("--spare-experts", "4"))
    ]
    assert peaks[1] > peaks[0]


def test_a_dense_model_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    ran = estimate(capsys, "TP2", "--spare-experts", "2")
    assert ran.code == 2 and "--spare-experts" in ran.err

"""A full mesh: n of its cards have (n-1)/(cards-1) of the links. Held against what Ascend A2 nodes were measured at."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.calibrate.curves import intra_collective_s
from autodeploy.calibrate.measurements import CollectiveTable
from autodeploy.hardware import load_hardware

# MindSpeed mindspeed/core/memory/compress/utils.py, GB/s of the whole result by ranks
ALL_GATHER = {2: 36.0, 4: 73.0, 8: 147.0}
ALL_TO_ALL = {2: 37.0, 4: 69.0, 8: 119.0}
MESSAGE = 4e9  # large: latency does not count


def result_gb_per_s(hardware: str, op: str, ranks: int) -> float:
    tier = load_hardware(hardware).tiers[0]
    one = np.array([1.0])
    table = CollectiveTable(
        op=op, ranks=ranks * one, nodes=1, message_bytes=MESSAGE * one, seconds=one, source="a question"
    )
    return (
        MESSAGE
        / float(intra_collective_s(tier.curves[op], table, tier.bandwidth_bytes_per_s, tier.cards, tier.full_mesh)[0])
        / 1e9
    )


@pytest.mark.parametrize(("ranks", "measured"), ALL_GATHER.items())
def test_all_gather_of_a_part_of_the_mesh(ranks: int, measured: float) -> None:
    assert result_gb_per_s("atlas-800t-a2", "all_gather", ranks) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(("ranks", "measured"), ALL_TO_ALL.items())
def test_all_to_all_of_a_part_of_the_mesh(ranks: int, measured: float) -> None:
    assert result_gb_per_s("atlas-800t-a2", "all_to_all", ranks) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(("ranks", "measured"), {2: 350.0, 4: 324.9, 8: 298.8, 16: 283.6}.items())
def test_all_gather_of_a3_dies(ranks: int, measured: float) -> None:
    assert result_gb_per_s("atlas-900-a3", "all_gather", ranks) == pytest.approx(measured, rel=0.08)


def test_a_mesh_is_slower_for_few_cards_and_a_switch_is_not() -> None:
    mesh = [result_gb_per_s("mi300x", "all_gather", ranks) for ranks in (2, 4, 8)]
    assert mesh[0] == pytest.approx(mesh[1] / 2, rel=0.1) and mesh[1] == pytest.approx(mesh[2] / 2, rel=0.1)
    switch = [result_gb_per_s("h100", "all_gather", ranks) for ranks in (2, 8)]
    assert switch[0] > switch[1]  # half of the result stays at home instead of an eighth

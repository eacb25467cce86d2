"""A forward and a backward side by side: worked by hand, and against the replay of the same segments."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.schedule import SimulationRequest, simulate
from cost_models.schedules import closed_form_step_s
from cost_models.schedules.lanes import BALANCED_LANES_FRAC, PIECES, Direction, LaneCosts
from tests.schedule.cases import moe_layers

STAGE = np.array([0])


def direction(compute: float, experts: float, inter: float, intra: float = 0.0) -> Direction:
    parts = (np.array([[value]]) for value in (compute, experts, inter, intra))
    return Direction(
        **dict(zip(("compute_s", "experts_s", "inter_s", "intra_s"), parts, strict=True)), send_s=np.zeros((1, 1))
    )


def stage(forward: Direction, backward: Direction, weight: float = 0.0) -> LaneCosts:
    nothing = direction(0.0, 0.0, 0.0)
    one = np.ones((1, 1))
    return LaneCosts(forward=forward, backward=backward, again=nothing, weight_s=weight * one, layers=one)


def test_compute_hides_short_communication() -> None:
    """3 + 4 + 2 s of computing over 1 + 1 s on the wire: 9 s, to what 2/9 of balance adds (1e-9)."""
    pair = stage(direction(3, 1, 1), direction(4, 1, 1), weight=2).pair_s(STAGE, STAGE)[0, 0]
    assert pair == pytest.approx(9.0, rel=1e-6)


def test_two_wires_are_two_lanes() -> None:
    """4 + 4 s between nodes beside 3 + 3 s inside them and 1 + 1 s of computing: the longer wire, 8 s, not 14."""
    pair = stage(direction(1, 0.5, 4, 3), direction(1, 0.5, 4, 3)).pair_s(STAGE, STAGE)[0, 0]
    balance = (6 / 8) ** 12 + (2 / 8) ** 12
    assert pair == pytest.approx(8.0 * (1 + BALANCED_LANES_FRAC * balance))


def test_one_direction_alone_in_pieces() -> None:
    """1 s of attention, then 2 s of experts in four pieces between 0.5 s in and 0.5 s out: 1 + 2 + 1/4 of the way."""
    assert direction(3, 2, 1).alone_s[0, 0] == pytest.approx(1 + 2 + 1 / PIECES)
    assert direction(3, 2, 1).chain_s[0, 0] == pytest.approx(4)


def lane_costs(segments: np.ndarray) -> LaneCosts:
    """From segments [1, S, L, K] in the order of `autodeploy.schedule.Segment`."""
    k = segments.sum(axis=2)[0].T  # [K, S]

    def of(*rows: int) -> np.ndarray:
        return k[list(rows)].sum(axis=0)[:, None]

    nothing = 0 * of(0)
    return LaneCosts(
        forward=Direction(compute_s=of(0, 3), experts_s=of(3), inter_s=of(1, 5), intra_s=of(2, 4), send_s=nothing),
        backward=Direction(
            compute_s=of(14, 17), experts_s=of(14), inter_s=of(12, 16), intra_s=of(13, 15), send_s=nothing
        ),
        again=Direction(compute_s=of(6, 9), experts_s=of(9), inter_s=of(7, 11), intra_s=of(8, 10), send_s=nothing),
        weight_s=of(18, 19),
        layers=np.full((k.shape[1], 1), float(segments.shape[2])),
    )


@pytest.mark.parametrize("name", ["adaptive-pipe", "dualpipe", "dualpipev"])
@pytest.mark.parametrize("all_to_all", [0.1, 0.4])
def test_against_the_replay_on_lanes(name: str, all_to_all: float) -> None:
    pp, vpp, m = 4, 1 if name == "dualpipe" else 2, 16
    segments = moe_layers(1, pp * vpp, layers=3, all_to_all=all_to_all, seed=4)
    request = SimulationRequest(schedule=name, pp=pp, vpp=vpp, micro_batches=m, costs=segments, ends="none", p2p_s=0.01)
    lanes, whole = lane_costs(segments.seconds), segments.stage_costs()
    form = closed_form_step_s(
        name, whole.forward_s, whole.backward_input_s, whole.backward_weight_s, 0.01, pp, vpp, m, lanes=lanes
    )
    assert form[0] == pytest.approx(simulate(request).pipeline_s[0], rel=0.03)
    serial = closed_form_step_s(
        name, whole.forward_s, whole.backward_input_s, whole.backward_weight_s, 0.01, pp, vpp, m
    )
    assert form[0] < serial[0]

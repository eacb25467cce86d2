"""When a live balancer looks: seldom while loads stay, at once when they turn."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts import Links, Task, Topology, contiguous, max_over_mean
from autodeploy.balance.experts.placement import card_loads
from autodeploy.balance.live import ExpertBalancer
from autodeploy.balance.live.pace import Pace


def looks(pace: Pace, excess: list[float]) -> list[int]:
    found = []
    for step, value in enumerate(excess, 1):
        pace.observe(value)
        if pace.due(step) == "look":
            found.append(step)
    return found


def test_intervals_double_up_to_twice_the_horizon() -> None:
    assert looks(Pace(32), [0.1] * 250) == [2, 4, 8, 16, 32, 64, 128, 192]


def test_a_turn_of_the_loads_is_looked_at_soon() -> None:
    found = looks(Pace(160), [0.1] * 200 + [1.0] * 20)
    assert any(200 < step <= 210 for step in found) and len(found) < 12


def test_called_every_step_it_follows_loads_that_turn_once() -> None:
    """From nearly constant loads to others: balanced before, and again within a sixteenth of the horizon or two."""
    rng = np.random.default_rng(0)
    first, second = (np.stack([rng.permutation(1e5 / np.arange(1, 65)) for _ in range(2)]) for _ in range(2))
    links = Links(bytes_per_expert=1e6, intra_bytes_per_s=4e11, inter_bytes_per_s=5e10)
    task = Task(topology=Topology(nodes=2, cards_per_node=4), links=links, seconds_per_token=1e-6)
    balancer = ExpertBalancer(contiguous(2, 64, 8, 80), task, horizon=32)
    peaks = []
    for step in range(240):
        loads = rng.poisson(first if step < 120 else second).astype(float)
        peaks.append(float(max_over_mean(card_loads(balancer.placement, loads)).mean()))
        balancer.observe(loads)
        balancer.decide()
    assert peaks[0] > 1.5 and np.mean(peaks[60:120]) < 1.05
    assert peaks[120] > 1.3 and np.mean(peaks[200:]) < 1.1

"""The closed form against the simulator: uneven stages, P2P, odd shapes. The script prints the full table."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.schedule import SCHEDULES, SimulationRequest, StageCosts, build_schedule, simulate
from autodeploy.schedule.live_memory import in_flight_chunks as counted
from cost_models.schedules import SCHEDULE_TABLE, closed_form_step_s, in_flight_chunks
from tests.schedule.cases import CHUNKS, shape

MEDIAN_LIMIT = {"zb-v-auto": 0.02, "zb-v-half": 0.02, "zb-v-min": 0.06}  # the rest: 0.01


def differences(name: str, cases: int, seed: int) -> np.ndarray:
    """Relative differences of random cases: eight scenarios a shape, or one where the order depends on the costs."""
    rng = np.random.default_rng(seed)
    rows = 1 if SCHEDULE_TABLE[name].plans_with_costs else 8
    found = []
    for _ in range(cases // 8 if rows == 8 else cases // 3):
        p = 2 * int(rng.integers(1, 7))
        m = 2 * p + 2 * int(rng.integers(0, 2 * p))
        v = CHUNKS[name]
        scale = rng.uniform(0.5, 1.5, (rows, p * v))
        scale[:, -1] *= rng.uniform(1, 2, rows)
        scale[:, 0] *= rng.uniform(1, 2, rows)
        hop = rng.uniform(0, 0.2, rows)
        group = p if m % p == 0 or m % p >= p else m
        request = SimulationRequest(
            schedule=name, pp=p, vpp=v, micro_batches=m, group=group, p2p_s=hop, overlap="none",
            costs=StageCosts(forward_s=scale, backward_input_s=scale, backward_weight_s=0.8 * scale),
        )  # fmt: skip
        form = closed_form_step_s(name, scale, scale, 0.8 * scale, hop, p, v, m, group)
        found.append(form / simulate(request).pipeline_s - 1)
    return np.abs(np.concatenate(found))


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_against_the_simulator(name: str) -> None:
    error = differences(name, 80, seed=5)
    assert np.median(error) < MEDIAN_LIMIT.get(name, 0.01)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "dualpipe", "dualpipev", "zb-h1"])
def test_exact_for_equal_stages(name: str) -> None:
    p, m, v = 8, 32, CHUNKS[name]
    one = np.ones((1, p * v)) / v
    request = SimulationRequest(
        schedule=name, pp=p, vpp=v, micro_batches=m,
        costs=StageCosts(forward_s=one, backward_input_s=one, backward_weight_s=one),
    )  # fmt: skip
    form = closed_form_step_s(name, one, one, one, np.zeros(1), p, v, m)
    assert form[0] == pytest.approx(simulate(request).pipeline_s[0], rel=1e-3)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_in_flight_counts_agree(name: str) -> None:
    """The closed form's count is the simulated one, or the limit that an automatic schedule keeps."""
    for pp, m in ((4, 8), (8, 32)):
        ours = in_flight_chunks(name, pp, CHUNKS[name], np.array([m]), np.array([pp]))[0]
        theirs = counted(build_schedule(name, shape(name, pp, m)))
        if name.startswith("zb"):
            assert (theirs <= ours).all() and theirs.max() >= 0.9 * ours.max() - 1
        else:
            assert ours.tolist() == theirs.tolist()


def test_one_rank_is_all_the_work() -> None:
    two = np.full((3, 1), 2.0)
    for name in ("1f1b", "zb-2p", "gpipe"):
        assert closed_form_step_s(name, two, two, two, 0.1, 1, 1, np.array([1, 2, 5])).tolist() == [6.0, 12.0, 30.0]


def test_batch_of_mixed_shapes_equals_one_by_one() -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(0.5, 1.5, (6, 8))
    m, g = np.array([8, 8, 12, 16, 8, 12]), np.array([4, 8, 4, 4, 4, 12])
    together = closed_form_step_s("interleaved", a, a, a, 0.1, 4, 2, m, g)
    for n in range(6):
        alone = closed_form_step_s("interleaved", a[n : n + 1], a[n : n + 1], a[n : n + 1], 0.1, 4, 2, m[n], g[n])
        assert alone[0] == together[n]

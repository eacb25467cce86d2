"""Random pipelines of any schedule: uneven and empty stages, hops, few and many micro-batches, odd groups, lanes."""

from __future__ import annotations

import numpy as np

from cost_models.schedules import SCHEDULE_TABLE, PipelineCosts
from cost_models.schedules.lanes import Direction, LaneCosts


def random_pipeline(name: str, seed: int, *, on_lanes: bool = False, strategies: int = 4) -> PipelineCosts:
    """All its strategies share one shape that the schedule runs; each has layers of its own."""
    record, rng = SCHEDULE_TABLE[name], np.random.default_rng(seed)
    pp = 1 if name == "none" else 2 * int(rng.integers(1, 5))
    m = max(record.least_turns * pp, int(rng.choice([rng.integers(1, pp + 1), rng.integers(pp, 12 * pp)])))
    m += m % 2 if record.even else 0
    vpp = record.chunks.least if record.chunks.most else int(rng.integers(2, 5))
    group = int(rng.choice([pp, 2 * pp, rng.integers(1, 3 * pp)])) if record.grouped else pp
    shape = (pp * vpp, strategies)
    layers = rng.choice([0.0, 0.01, 0.3, 1.0], shape, p=[0.05, 0.05, 0.1, 0.8]) * rng.uniform(
        1 - rng.random(), 1, shape
    )
    layers[-1] *= rng.uniform(1, 3)
    return PipelineCosts(
        forward_s=layers, input_s=layers * rng.uniform(0.3, 3), weight_s=layers * rng.choice([0.0, 0.1, 1.0, 2.0]),
        p2p_s=rng.choice([0.0, 0.1], strategies), micro_batches=np.full(strategies, m),
        group=np.full(strategies, group), pp=pp, vpp=vpp, lanes=random_lanes(layers, rng) if on_lanes else None,
    )  # fmt: skip


def random_lanes(layers: np.ndarray, rng: np.random.Generator) -> LaneCosts:
    """Any lane may be the fullest one of a stage."""

    def direction(share: float, send: float) -> Direction:
        compute, inter, intra = (share * layers * rng.uniform(0, 1, layers.shape) for _ in range(3))
        return Direction(
            compute_s=compute, experts_s=compute * rng.uniform(0, 1, layers.shape), inter_s=inter, intra_s=intra,
            send_s=np.full_like(layers, send),
        )  # fmt: skip

    return LaneCosts(
        forward=direction(1.0, rng.choice([0.0, 0.05])), backward=direction(1.5, rng.choice([0.0, 0.05])),
        again=direction(rng.choice([0.0, 1.0]), 0.0), weight_s=layers * rng.uniform(0, 1, layers.shape),
        layers=rng.integers(1, 6, layers.shape).astype(np.float64),
    )  # fmt: skip

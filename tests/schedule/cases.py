"""Small requests that the tests share."""

from __future__ import annotations

import numpy as np

from autodeploy.schedule import SEGMENTS, LayerSegments, PipelineShape, Segment, SimulationRequest, StageCosts
from cost_models.schedules import SCHEDULE_TABLE

CHUNKS = {name: record.chunks.least for name, record in SCHEDULE_TABLE.items()}


def shape(name: str, pp: int, micro_batches: int, **more: int) -> PipelineShape:
    return PipelineShape(pp=pp, micro_batches=micro_batches, vpp=CHUNKS[name], **more)


def equal_costs(stages: int, forward_s: float, input_s: float, weight_s: float, chunks: int = 1) -> StageCosts:
    """Rank costs cut evenly over `chunks`."""
    one = np.ones((1, stages)) / chunks
    return StageCosts(forward_s=forward_s * one, backward_input_s=input_s * one, backward_weight_s=weight_s * one)


def equal(
    name: str,
    pp: int,
    micro_batches: int,
    forward_s: float = 1.0,
    input_s: float = 1.0,
    weight_s: float = 1.0,
    **more: object,
) -> SimulationRequest:
    chunks = int(more.pop("vpp", CHUNKS[name]))  # type: ignore[call-overload]
    costs = equal_costs(pp * chunks, forward_s, input_s, weight_s, chunks)
    return SimulationRequest(schedule=name, pp=pp, vpp=chunks, micro_batches=micro_batches, costs=costs, **more)  # type: ignore[arg-type]


def uneven(
    name: str, pp: int, micro_batches: int, seed: int = 0, scenarios: int = 1, **more: object
) -> SimulationRequest:
    rng = np.random.default_rng(seed)
    stages = pp * CHUNKS[name]
    costs = StageCosts(
        forward_s=rng.uniform(0.5, 1.5, (scenarios, stages)),
        backward_input_s=rng.uniform(0.5, 1.5, (scenarios, stages)),
        backward_weight_s=rng.uniform(0.5, 1.5, (scenarios, stages)),
    )
    return SimulationRequest(
        schedule=name,
        pp=pp,
        vpp=CHUNKS[name],
        micro_batches=micro_batches,
        costs=costs,
        p2p_s=rng.uniform(0, 0.2, scenarios),
        **more,  # type: ignore[arg-type]
    )


def moe_layers(
    scenarios: int, stages: int, layers: int = 2, all_to_all: float = 0.5, dense_stages: int = 0, seed: int = 0
) -> LayerSegments:
    """Layers with every segment; the first `dense_stages` stages have attention parts only."""
    rng = np.random.default_rng(seed)
    seconds = np.zeros((scenarios, stages, layers, SEGMENTS))
    for segment in list(Segment)[:20]:
        if segment.name.endswith("_R") and "ATTENTION" not in segment.name:
            continue
        scale = all_to_all if "INTER" in segment.name or "INTRA" in segment.name else 1.0
        seconds[..., segment] = scale * rng.uniform(0.8, 1.2, seconds.shape[:3])
    moe_only = [s for s in Segment if "ATTENTION" not in s.name]
    seconds[:, :dense_stages, :, moe_only] = 0.0
    return LayerSegments(seconds=seconds)

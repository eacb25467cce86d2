"""One strategy under many scenarios: machine and load vary, the event graph and its lane order stay.

Axes: N scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from autodeploy.errors import InputError
from autodeploy.replay.groups import groups_of
from autodeploy.replay.request import step_request
from autodeploy.schedule import LayerSegments, ScheduleError, Segment, SimulationRequest, simulate
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

BLOCK = 64  # scenarios that propagate together: what fits the cache
_NAMES = [segment.name for segment in Segment]
EXPERTS = np.array(["EXPERTS" in name for name in _NAMES])
INTRA = np.array(["INTRA" in name for name in _NAMES])
INTER = np.array(["INTER" in name for name in _NAMES])
COMPUTE = ~(INTRA | INTER | np.array(["SEND" in name for name in _NAMES]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What each scenario multiplies, [N] each: 1 is the case as priced. Bandwidths divide."""

    compute: F64  # seconds of everything on the compute lane
    imbalance: F64  # load of the busiest expert rank: its products and its tokens on the wire
    intra_bandwidth: F64
    inter_bandwidth: F64  # of expert communication, P2P and the gradient reduction

    def __len__(self) -> int:
        return len(self.compute)

    def take(self, rows: slice) -> Factors:
        return Factors(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @staticmethod
    def same(count: int) -> Factors:
        return Factors(**{f.name: np.ones(count) for f in fields(Factors)})


def scenario_step_s(case: Case, strategy: StrategyBatch, factors: Factors) -> F64:
    """Seconds of the replayed step of a batch of one under each scenario, [N]."""
    group = next(groups_of(case, strategy))
    asked = step_request(group, layers=True)
    try:
        nominal = simulate(asked.request)
        fixed = replace(asked.request, lane_order=nominal.lane_order[0] or None, ends=nominal.ends[0])
        parts = [factors.take(slice(i, i + BLOCK)) for i in range(0, len(factors), BLOCK)]
        simulated = np.concatenate([simulate(_under(fixed, part)).step_s for part in parts]) if parts else np.zeros(0)
    except ScheduleError as error:
        raise InputError(
            "STRATEGY", group.schedule.name, "a schedule that can run in this shape", str(error)
        ) from error
    return np.asarray((simulated + asked.constant_s[0]) * (1.0 + asked.straggler_frac[0]))


def _under(nominal: SimulationRequest, factors: Factors) -> SimulationRequest:
    assert isinstance(nominal.costs, LayerSegments)
    seconds = nominal.costs.seconds
    scale = np.ones((len(factors), seconds.shape[-1]))
    scale *= np.where(COMPUTE, factors.compute[:, None], 1.0)
    scale *= np.where(EXPERTS | INTRA | INTER, factors.imbalance[:, None], 1.0)
    scale /= np.where(INTRA, factors.intra_bandwidth[:, None], 1.0)
    scale /= np.where(INTER, factors.inter_bandwidth[:, None], 1.0)
    tail = nominal.tail
    wire = factors.inter_bandwidth[:, None]
    return replace(
        nominal,
        costs=LayerSegments(seconds=seconds * scale[:, None, None, :]),
        p2p_s=np.broadcast_to(nominal.p2p_s, (len(factors),)) / factors.inter_bandwidth,
        tail=replace(
            tail,
            gradient_reduction_s=np.broadcast_to(tail.gradient_reduction_s, (len(factors), nominal.pp)) / wire,
            optimizer_s=np.broadcast_to(tail.optimizer_s, (len(factors), nominal.pp)),
            parameter_gather_s=np.broadcast_to(tail.parameter_gather_s, (len(factors), nominal.pp)) / wire,
        ),
        memory=None,
        order_costs=None,
    )

"""The event graph of a request; kept by shape, since a search asks for the same ones over and over."""

from __future__ import annotations

from functools import lru_cache

from autodeploy.schedule.adaptive_pipe import adaptive_pipe_with
from autodeploy.schedule.alike import order_costs, plan_costs_s
from autodeploy.schedule.blocks import BlockGraph, build_graph
from autodeploy.schedule.operations import OrderCosts, PipelineShape
from autodeploy.schedule.request import SimulationRequest
from autodeploy.schedule.table import build_schedule
from cost_models.schedules import SCHEDULE_TABLE

KEPT = 32  # graphs; of 100 ranks and 1,000 micro-batches one is 10 MB


def graph_of(request: SimulationRequest, ends: str) -> BlockGraph:
    """The slots of `request` where micro-batches of one direction are paired at these `ends`."""
    return _graph(request.schedule, request.shape(_order_costs(request)), ends)


@lru_cache(maxsize=KEPT)
def _graph(name: str, shape: PipelineShape, ends: str) -> BlockGraph:
    if not SCHEDULE_TABLE[name].pairs_ends:
        return build_graph(build_schedule(name, shape))
    paired = adaptive_pipe_with(
        shape, pair_warm_up=ends in ("warm-up", "both"), pair_cool_down=ends in ("cool-down", "both")
    )
    return build_graph(paired)


def _order_costs(request: SimulationRequest) -> OrderCosts | None:
    """What an automatic schedule plans with: as given, or the costs of these scenarios, which plan alike."""
    if not SCHEDULE_TABLE[request.schedule].plans_with_costs or request.order_costs is not None:
        return request.order_costs
    kept = request.memory.weight_kept_frac if request.memory else 0.5
    return order_costs(plan_costs_s(request)[0], kept)

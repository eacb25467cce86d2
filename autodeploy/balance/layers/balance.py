"""The whole of P: items in, the placement out, exact where it can be proven in time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from autodeploy.balance.layers.chain import balance_chain
from autodeploy.balance.layers.integer import solve_exactly
from autodeploy.balance.layers.items import LayerItems
from autodeploy.balance.layers.local_search import search_locally
from autodeploy.balance.layers.memory import InFlight, in_flight_counts
from autodeploy.balance.layers.plan import LayerPlan, evaluate, evaluate_layout, even_layout
from autodeploy.balance.layers.problem import TIE_FRAC, LayerProblem, Placement, largest
from autodeploy.balance.layers.rules import check_layout
from autodeploy.errors import InputError

FEW_RESTARTS = 4  # of a local search that nothing else limits
SEARCH_SHARE = 0.4  # of the time limit at most, for the local search


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceOptions:
    """Everything beside the items and the pipeline's shape."""

    micro_batches: int = 0  # 0: 2 * PP, enough for every in-flight count to reach its largest
    micro_batch_group: int = 0  # 0: PP
    memory_cap_bytes: float | tuple[float, ...] = float("inf")  # one for all ranks, or [P]
    in_flight: InFlight | None = None  # of another schedule; default 1F1B or interleaved 1F1B
    extra_warmup: int = 0  # 1 with forward/backward expert overlap
    mtp_apart: bool = True
    time_limit_s: float = 10.0
    proven: bool = True  # False: VPP > 1 by local search alone, which takes no clock: the same answer on every machine
    before: tuple[str, ...] = ()  # the layout now; default equal slots


def balance_layers(items: LayerItems, pp: int, vpp: int = 1, options: BalanceOptions | None = None) -> LayerPlan:
    """Assign the items to ``pp * vpp`` virtual stages: the least (largest rank sum, then largest chunk).

    VPP 1: dynamic programming. VPP > 1: local search, then an integer program until proven or out of time.
    """
    options = options or BalanceOptions()
    problem = problem_of(items, pp, vpp, options)
    before = (
        evaluate_layout(problem, options.before)
        if options.before
        else evaluate(problem, even_layout(items, pp, vpp), choose_options=True)
    )
    if vpp == 1:
        placement = balance_chain(problem)
        return _plan(problem, before, placement, "dynamic programming", np.nan, np.nan)
    begin = time.monotonic()
    if options.proven:
        start = search_locally(problem, SEARCH_SHARE * options.time_limit_s)
    else:
        start = search_locally(problem, restarts=FEW_RESTARTS)
    if before.placement.mtp_stage in (-1, *problem.mtp_stages):  # never worse than what the user has
        start = min(start, before.placement, key=lambda placement: largest(problem, placement))
    if not options.proven:
        return _plan(problem, before, start, "local search", problem.mean_rank_s, 0.0)
    solved = solve_exactly(problem, start, options.time_limit_s - (time.monotonic() - begin))
    method = "local search" if solved.placement == start else "integer program"
    return _plan(problem, before, solved.placement or start, method, solved.rank_bound_s, solved.chunk_bound_s)


def problem_of(items: LayerItems, pp: int, vpp: int, options: BalanceOptions) -> LayerProblem:
    for name, value in (("pp", pp), ("vpp", vpp)):
        if value < 1:
            raise InputError(name, value, "a whole number >= 1")
    if pp == 1 and vpp > 1:
        raise InputError("vpp", vpp, "1 when PP is 1")
    cap = np.asarray(options.memory_cap_bytes, dtype=np.float64)
    if cap.ndim > 1 or (cap.ndim == 1 and cap.size != pp) or np.isnan(cap).any() or (cap <= 0).any():
        raise InputError("memory_cap_bytes", options.memory_cap_bytes, f"one number > 0, or {pp} of them")
    in_flight = options.in_flight or in_flight_counts(
        pp, vpp, options.micro_batches or 2 * pp, options.micro_batch_group, options.extra_warmup
    )
    return LayerProblem(
        items=items,
        pp=pp,
        vpp=vpp,
        in_flight=in_flight,
        memory_cap_bytes=np.broadcast_to(cap, (pp,)).copy(),
        mtp_apart=options.mtp_apart,
    )


def _plan(problem, before, placement: Placement | None, method, rank_bound, chunk_bound) -> LayerPlan:  # type: ignore[no-untyped-def]
    """The plan; bounds that are not a number are the placement's own (it is exact)."""
    after = before if placement is None else evaluate(problem, placement)
    feasible = placement is not None and after.excess_bytes <= 0
    if feasible:
        check_layout(after.stages, problem.pp, problem.items.num_layers, problem.items.mtp_modules)
    rank_bound = after.largest_rank_s if np.isnan(rank_bound) else rank_bound
    chunk_bound = after.largest_chunk_s if np.isnan(chunk_bound) else chunk_bound
    close = 1 + 4 * TIE_FRAC
    exact = feasible and after.largest_rank_s <= rank_bound * close and after.largest_chunk_s <= chunk_bound * close
    return LayerPlan(
        problem=problem,
        before=before,
        after=after,
        method=method,
        feasible=feasible,
        exact=exact,
        rank_bound_s=rank_bound,
        chunk_bound_s=chunk_bound,
    )

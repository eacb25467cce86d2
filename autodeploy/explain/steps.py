"""One step along each axis from a strategy: the neighbours that a person would try next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from autodeploy.strategy.backends import Backend, backend_named
from autodeploy.strategy.notation import Strategy, default_schedule
from autodeploy.strategy.options import selective_sets
from cost_models.case import Case

DOUBLED = ("tp", "pp", "cp", "ep", "micro_batch")


@dataclass(frozen=True, slots=True)
class Step:
    """``change``: as a person says it, such as ``TP 8 -> 4``."""

    axis: str
    change: str
    strategy: Strategy


def steps_from(strategy: Strategy, case: Case, backend: str) -> list[Step]:
    """Every step once; those that lead nowhere are left out."""
    seen, found = {str(strategy)}, []
    for step in _all(strategy, case, backend_named(backend)):
        if str(step.strategy) not in seen:
            seen.add(str(step.strategy))
            found.append(step)
    return found


def _all(s: Strategy, case: Case, backend: Backend) -> Iterator[Step]:
    moe = any(half.is_moe for kind in case.model.kinds for half in kind.feed_forwards)
    for name in DOUBLED:
        if name != "ep" or moe:
            yield from _sizes(s, name)
    yield from _chunks(s)
    if moe:
        yield from _expert_options(s, backend)
    yield from _schedules(s, backend)
    yield from _relief(s, case, backend)
    yield from _sharding(s, backend)


def _with(s: Strategy, **changes: Any) -> Strategy:
    """Changed, with what follows from the change: the default schedule, layout and sequence parallel."""
    sized = {"pp", "vpp", "schedule"} & set(changes)
    pp, vpp = changes.get("pp", s.pp), changes.get("vpp", s.vpp)
    if sized:
        changes = {"layout": "", "micro_batch_group": 0} | changes
    if {"pp", "vpp"} & set(changes) and "schedule" not in changes and s.schedule == default_schedule(s.pp, s.vpp):
        changes["schedule"] = default_schedule(pp, vpp)
    if "tp" in changes and s.sequence_parallel == (s.tp > 1):
        changes["sequence_parallel"] = changes["tp"] > 1
    return replace(s, dp=0, **changes)


def _sizes(s: Strategy, name: str) -> Iterator[Step]:
    now = getattr(s, name)
    token = "MBS" if name == "micro_batch" else name.upper()
    for then in (now * 2, now // 2):
        if then < 1:
            continue
        changes: dict[str, Any] = {name: then}
        if name == "tp" and s.etp == s.tp > 1:
            changes["etp"] = then
        if name == "pp" and then == 1:
            changes |= {"vpp": 1, "schedule": "none"}
        yield Step(name, f"{token}{now} -> {token}{then}", _with(s, **changes))


def _chunks(s: Strategy) -> Iterator[Step]:
    if s.pp == 1 or s.schedule not in ("1f1b", "interleaved"):
        return
    for then in (s.vpp * 2, s.vpp + 1, s.vpp // 2, s.vpp - 1):
        if then >= 1:
            yield Step("vpp", f"VPP{s.vpp} -> VPP{then}", _with(s, vpp=then))


def _expert_options(s: Strategy, backend: Backend) -> Iterator[Step]:
    for then in (1, s.tp):
        yield Step("etp", f"ETP{s.etp} -> ETP{then}", _with(s, etp=then))
    for name in backend.dispatchers:
        yield Step("dispatcher", f"{s.dispatcher} -> {name}", _with(s, dispatcher=name))
    word = "off" if s.ep_overlap else "on"
    yield Step("ep_overlap", f"EP overlap {word}", _with(s, ep_overlap=not s.ep_overlap))


def _schedules(s: Strategy, backend: Backend) -> Iterator[Step]:
    if s.pp == 1:
        return
    from cost_models.schedules import SCHEDULE_TABLE

    for name in backend.search_schedules:
        chunks = SCHEDULE_TABLE[name].chunks
        vpp = 1 if chunks.most == 1 else chunks.least if chunks.most == chunks.least else max(s.vpp, 2)
        if name != "none":
            overlap = s.ep_overlap or SCHEDULE_TABLE[name].needs_overlap
            changed = _with(s, schedule=name, vpp=vpp, ep_overlap=overlap)
            yield Step("schedule", f"{s.schedule} -> {name}" + (f", VPP{vpp}" if vpp != s.vpp else ""), changed)


def _relief(s: Strategy, case: Case, backend: Backend) -> Iterator[Step]:
    now = _named(s)
    for modules in ((), *selective_sets(case.model, case.workload), ("full",)):
        then = _with(s, recompute=modules, recompute_layers=0)
        yield Step("recompute", f"recompute {now} -> {_named(then)}", then)
    if backend.swaps_activations:
        yield Step(
            "swap", f"swap {s.swap_frac:g} -> {1 - round(s.swap_frac)}", _with(s, swap_frac=1.0 - round(s.swap_frac))
        )
    if backend.offloads_optimizer:
        other = 1.0 - round(s.offload_frac)
        yield Step("offload", f"offload {s.offload_frac:g} -> {other:g}", _with(s, offload_frac=other))


def _named(s: Strategy) -> str:
    return ",".join(s.recompute) or "none"


def _sharding(s: Strategy, backend: Backend) -> Iterator[Step]:
    stages = backend.zero_stages_pipelined if s.pp > 1 else backend.zero_stages
    for stage in stages:
        if abs(stage - s.zero_stage) == 1:
            yield Step("zero", f"ZeRO{s.zero_stage} -> ZeRO{stage}", _with(s, zero_stage=stage))

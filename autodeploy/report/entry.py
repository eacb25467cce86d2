"""One priced strategy as the JSON entry of ``search`` and ``estimate`` (interfaces: ``autodeploy.search/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autodeploy.report.binding import binds
from autodeploy.report.error_band import band_of
from autodeploy.report.likeness import likeness
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.notation import Strategy
from cost_models.case import Case as PricedCase
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.records import record
from cost_models.strategies import DISPATCHERS, SCHEDULES, StrategyBatch, recompute_modules

if TYPE_CHECKING:
    from cost_models.step import StepCost

GIB = 2**30
SECONDS_PER_DAY = 86400.0
DUST = 1e-12  # what is left of sums in another order
FLOPS_CONVENTION = "causal attention, head and MTP, no recompute"
PEAK_OF_PRECISION = {"fp8": "fp8", "fp8_block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "fp16": "fp16", "bf16": "bf16"}


@record
class Case:
    """What every entry of a document has in common."""

    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    backend: str
    stack: str = ""
    tokens: float | None = None
    price_per_device_hour: float | None = None

    @cached_property
    def priced(self) -> PricedCase:
        """What the cost models know of it: one object, whose price list all its strategies share."""
        return PricedCase(model=self.model, hardware=self.hardware, workload=self.workload)

    @property
    def peak_flop_per_s(self) -> float:
        peaks = self.hardware.device.peak_flop_per_s
        return peaks.get(PEAK_OF_PRECISION[self.workload.precision]) or peaks["bf16"]


def entry(
    case: Case, batch: StrategyBatch, cost: StepCost, i: int, *, not_launchable: str, simulated_s: float | None = None
) -> dict[str, Any]:
    """Row ``i`` of a priced batch. ``not_launchable`` says why no release launches it; "" where one does."""
    strategy = batch_to_strategy(batch, i)
    screened_s = float(cost.step_s[i])
    step_s = screened_s if simulated_s is None else simulated_s
    time_s = times_to(step_s, {cause: float(seconds[i]) for cause, seconds in cost.time_s.items()})
    memory = {cause: float(size[i]) / GIB for cause, size in cost.memory_bytes.items()}
    reserved = float(cost.peak_reserved_bytes[i])
    memory_rank, critical_rank = int(cost.memory_rank[i]), int(cost.critical_rank[i])
    devices = int(batch.devices[i])
    like = likeness(case.priced, case.stack, batch, i)
    band, memory_band = band_of(like), band_of(like, "memory")
    tokens_per_s = case.workload.global_batch * case.workload.seq_length / step_s
    return {
        "rank": i + 1,
        **axes_of(strategy, batch, i, case.workload.global_batch),
        "stack": case.stack,
        "launchable": not not_launchable,
        "not_launchable_because": not_launchable or None,
        "step_time_s": step_s,
        "screened_step_time_s": screened_s,
        "simulated_step_time_s": simulated_s,
        "step_time_error_frac": band.frac,
        "step_time_error_group": f"{band.group} ({band.runs} runs)",
        "peak_memory_error_frac": memory_band.frac,
        "peak_memory_error_group": f"{memory_band.group} ({memory_band.runs} runs)",
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_device": tokens_per_s / devices,
        "mfu": float(cost.model_flop[i]) / (step_s * devices * case.peak_flop_per_s),
        "flops_convention": FLOPS_CONVENTION,
        "bubble_frac": time_s.get("bubble", 0.0) / step_s,
        "peak_memory_gib": reserved / GIB,
        "peak_allocated_gib": float(cost.peak_allocated_bytes[i]) / GIB,
        "fits": bool(cost.feasible[i]),
        "memory_rank": memory_rank,
        "critical_rank": critical_rank,
        "binds": binds(time_s, step_s, reserved, case.hardware.usable_bytes, memory_rank, critical_rank),
        **training_cost(case, step_s, devices),
        "time_s": time_s,
        "memory_gib": memory,
    }


def axes_of(strategy: Strategy, batch: StrategyBatch, i: int, global_batch: int) -> dict[str, Any]:
    """The strategy as text and as one key per axis."""
    mask = int(batch.recompute[i])
    modules = list(recompute_modules(mask))
    kind = "none" if not modules else "full" if "full" in modules else "selective"
    pp, group = int(batch.pp[i]), int(batch.micro_batch_group[i])
    return {
        "strategy": str(strategy),
        "label": strategy.label,
        "devices": int(batch.devices[i]),
        **{name: int(getattr(batch, name)[i]) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")},
        "micro_batches": int(batch.micro_batches(global_batch)[i]),
        "micro_batch_group": group or pp,
        "sequence_parallel": bool(batch.sequence_parallel[i]),
        "zero_stage": int(batch.zero_stage[i]),
        "recompute": kind,
        "recompute_modules": modules,
        "recompute_layers": int(batch.recompute_layers[i]),
        "schedule": SCHEDULES[int(batch.schedule[i])],
        "dispatcher": DISPATCHERS[int(batch.dispatcher[i])],
        "ep_overlap": bool(batch.ep_overlap[i]),
        "offload_frac": float(batch.offload_frac[i]),
        "swap_frac": float(batch.swap_frac[i]),
        "layout": batch.layouts[int(batch.layout[i])].text,
    }


# What a replay may hide more of than the closed form does, in the order in which it is taken off.
HIDDEN_FIRST = ("ep_comm", "pp_comm", "dp_comm", "swap", "recompute")


def times_to(step_s: float, time_s: Mapping[str, float]) -> dict[str, float]:
    """The causes, adjusted so that they sum to ``step_s``: what the replay finds beyond the closed form is waiting, what
    it finds less is waiting that did not happen and, after that, communication that it hides."""
    times = dict(time_s)
    bubble = times.get("bubble", 0.0) + step_s - sum(times.values())
    for cause in HIDDEN_FIRST if bubble < 0.0 else ():
        hidden = min(times.get(cause, 0.0), -bubble)
        if hidden > 0.0:
            times[cause], bubble = times[cause] - hidden, bubble + hidden
    times["bubble"] = 0.0 if abs(bubble) < DUST * step_s else bubble
    return times


def training_cost(case: Case, step_s: float, devices: int) -> dict[str, float]:
    """Days, card-hours and price of ``--tokens``; nothing where no tokens are asked for."""
    if case.tokens is None:
        return {}
    steps = case.tokens / (case.workload.global_batch * case.workload.seq_length)
    seconds = steps * step_s
    found = {
        "tokens": case.tokens,
        "steps": steps,
        "days": seconds / SECONDS_PER_DAY,
        "device_hours": seconds * devices / 3600.0,
    }
    if case.price_per_device_hour is not None:
        found["price"] = found["device_hours"] * case.price_per_device_hour
    return found


def per_rank(batch: StrategyBatch, cost: StepCost, i: int) -> dict[str, Any]:
    """Lists over pipeline ranks, from a cost priced with ``per_rank=True``."""
    ranks = int(batch.pp[i])
    assert cost.rank_memory_bytes is not None and cost.rank_busy_s is not None
    memory = {cause: [float(v) / GIB for v in sizes[i, :ranks]] for cause, sizes in cost.rank_memory_bytes.items()}
    lists: dict[str, Any] = {
        "rank": list(range(ranks)),
        "busy_s": [float(v) for v in cost.rank_busy_s[i, :ranks]],
        "peak_memory_gib": [sum(column) for column in zip(*memory.values(), strict=True)],
        "memory_gib": memory,
    }
    return lists

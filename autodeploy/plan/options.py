"""The best strategy of each machine and number of cards as an option for the whole job, and the choice among options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodeploy.plan.goodput import Reliability, goodput

JOULES_PER_MWH = 3.6e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A token budget, and limits on days and money (None: none). ``margin_frac``: by how much a prediction may be short
    where no band is known."""

    tokens: float
    within_days: float | None = None
    max_cost: float | None = None
    reliability: Reliability = Reliability()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What an entry does not say of its machine. None: not stated in the profile."""

    name: str
    price_per_card_hour: float | None
    power_w_per_card: float | None


def option_of(
    entry: Mapping[str, Any], tokens_per_step: float, machine: Machine, parameters: float, wanted: Wanted
) -> dict[str, Any]:
    """One entry of ``search`` as an option. Days count failures; ``days_at_worst`` also the band of the prediction."""
    cards, step_s = int(entry["devices"]), float(entry["step_time_s"])
    training_s = wanted.tokens / tokens_per_step * step_s
    useful = goodput(parameters, cards, wanted.reliability)
    wall_s = training_s / useful.frac
    band = entry.get("step_time_error_frac")
    hours = wall_s * cards / 3600.0
    price = machine.price_per_card_hour
    watts = machine.power_w_per_card
    return {
        "hardware": machine.name,
        "devices": cards,
        "strategy": entry["strategy"],
        "step_time_s": step_s,
        "step_time_error_frac": band,
        "training_days": training_s / 86400.0,
        "goodput_frac": useful.frac,
        "checkpoint_interval_s": useful.interval_s,
        "checkpoint_s": useful.checkpoint_s,
        "mtbf_s": useful.mtbf_s,
        "days": wall_s / 86400.0,
        "days_at_worst": wall_s * (1.0 + (band or 0.0)) / 86400.0,
        "device_hours": hours,
        "price": None if price is None else hours * price,
        "price_at_worst": None if price is None else hours * (1.0 + (band or 0.0)) * price,
        "energy_mwh": None if watts is None else wall_s * cards * watts / JOULES_PER_MWH,
    }  # fmt: skip


def meets(option: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether an option keeps the limits even at the far end of its band. Money that is not known keeps none."""
    in_time = wanted.within_days is None or option["days_at_worst"] <= wanted.within_days
    price = option["price_at_worst"]
    affordable = wanted.max_cost is None or (price is not None and price <= wanted.max_cost)
    return in_time and affordable


def plan(options: Sequence[Mapping[str, Any]], wanted: Wanted) -> dict[str, Any]:
    """Smallest, cheapest and fastest option that keeps the limits, and the front of days against money."""
    kept = [option for option in options if meets(option, wanted)]
    cost = "price" if kept and all(option["price"] is not None for option in kept) else "device_hours"
    return {
        "tokens": wanted.tokens,
        "within_days": wanted.within_days,
        "max_cost": wanted.max_cost,
        "options": len(options),
        "meet": len(kept),
        "cost_by": cost,
        "smallest": min(kept, key=lambda o: (o["devices"], o[cost]), default=None),
        "cheapest": min(kept, key=lambda o: (o[cost], o["days"]), default=None),
        "fastest": min(kept, key=lambda o: (o["days"], o[cost]), default=None),
        "nearest": None if kept else min(options, key=lambda o: o["days_at_worst"], default=None),
        "front": front(kept, cost),
        "reliability": {
            "mtbf_hours_per_device": wanted.reliability.mtbf_hours_per_card,
            "checkpoint_bytes_per_s": wanted.reliability.checkpoint_bytes_per_s,
            "restart_s": wanted.reliability.restart_s,
        },
    }


def front(options: Sequence[Mapping[str, Any]], cost: str) -> list[Mapping[str, Any]]:
    """Options that no other beats in both days and cost, fastest first."""
    found: list[Mapping[str, Any]] = []
    for option in sorted(options, key=lambda o: (o["days"], o[cost])):
        if not found or option[cost] < found[-1][cost]:
            found.append(option)
    return found

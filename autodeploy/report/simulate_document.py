"""The JSON document of ``simulate``: an entry of ``estimate`` with what the replay adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autodeploy.report.documents import estimate_document
from autodeploy.report.entry import GIB, Case
from autodeploy.schedule import CATALOGUE
from autodeploy.schedule.segments import LANE_NAMES
from cost_models.strategies import StrategyBatch

if TYPE_CHECKING:
    from autodeploy.replay import SimulatedStep
    from cost_models.step import StepCost

CUTS = {entry.name: entry.cut for entry in CATALOGUE}


def simulate_document(case: Case, batch: StrategyBatch, cost: StepCost, step: SimulatedStep) -> dict[str, Any]:
    """``autodeploy.simulate/1``. Times of ``time_s`` are the closed form's, the bubble what the replay makes of it."""
    document = estimate_document(case, batch, cost, simulated_s=step.step_s)
    document["schema"] = "autodeploy.simulate/1"
    entry, result = document["estimate"], step.result
    ranks = step.group.layout.pp
    order = result.lane_order[0]
    entry |= {
        "pipeline_time_s": float(result.pipeline_s[0]),
        "compute_idle_frac": float(result.bubble_frac[0]),
        "simulated_as": step.group.simulated_as,
        "ep_time_s": step.ep_s / ranks,
        "ep_exposed_s": step.ep_exposed_s / ranks,
        "ep_masked_frac": step.masked_frac,
        "ep_masked_frac_steady": step.steady_masked_frac,
        "cut": CUTS.get(order, "none"),
        "lane_order": order,
        "paired_ends": result.ends[0],
    }
    entry["per_rank"] |= _lanes(step)
    lists = entry["per_rank"]
    held = zip(
        lists["peak_memory_gib"], lists["memory_gib"]["activations"], lists["replayed_activations_gib"], strict=True
    )
    lists["replayed_peak_memory_gib"] = [peak - closed + replayed for peak, closed, replayed in held]
    return document


def _lanes(step: SimulatedStep) -> dict[str, Any]:
    """Busy and idle seconds of each lane, from the first operation of any rank to the last of any rank; memory."""
    result = step.result
    activation = result.peak_activation_bytes
    assert activation is not None
    return {
        "lanes": {
            name: {
                "busy_s": [float(v) for v in result.busy_s[0, :, lane]],
                "idle_s": [float(v) for v in result.idle_s[0, :, lane]],
            }
            for lane, name in enumerate(LANE_NAMES)
        },
        "in_flight_chunks": [int(v) for v in result.in_flight_chunks],
        "replayed_activations_gib": [float(v) / GIB for v in activation[0]],
    }

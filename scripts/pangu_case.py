"""The case of the published claims: model, machine, strategies, and how each is simulated. Used by pangu_chain.py."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.replay import SimulatedStep, simulate_strategy
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from cost_models.case import Case
from cost_models.imbalance import rank_imbalance
from cost_models.inputs import Workload
from cost_models.strategies import StrategyBatch

GIB = 2**30
DEVICES, SEQ_LENGTH, BATCH, EP, DP = 6144, 8192, 4608, 32, 48
MODEL, HARDWARE = load_model("pangu-ultra-moe-718b"), load_hardware("atlas-800t-a2")
CORE, RECOMPUTE = "TP8/PP16/VPP2/EP32/MBS2", "selective(mla_up_proj,layernorm,moe)"
PLACED = "layout(noop:61,62,63)"
SERIAL, HIERARCHICAL = f"{CORE}/{RECOMPUTE}/{PLACED}", f"{CORE}/{RECOMPUTE}/hierarchical-allgather/{PLACED}"
ADAPTIVE = f"{CORE}/{RECOMPUTE}/adaptive-pipe/hierarchical-allgather/{PLACED}"
VARIANTS = {
    "no overlap, flat (baseline)": SERIAL,
    "no overlap, hierarchical": HIERARCHICAL,
    "Adaptive Pipe, flat": f"{CORE}/{RECOMPUTE}/adaptive-pipe/{PLACED}",
    "Adaptive Pipe, hierarchical (all-gather)": ADAPTIVE,
    "Adaptive Pipe, hierarchical (de-duplicated)": ADAPTIVE.replace("allgather", "dedup"),
    "DualPipeV, flat": f"{CORE}/{RECOMPUTE}/dualpipev/ep-overlap",
    "DualPipeV, hierarchical": f"{CORE}/{RECOMPUTE}/dualpipev/ep-overlap/hierarchical-allgather",
    "DualPipe, flat": f"TP8/PP16/EP32/MBS2/{RECOMPUTE}/dualpipe/ep-overlap",
    "DualPipe, hierarchical": f"TP8/PP16/EP32/MBS2/{RECOMPUTE}/dualpipe/ep-overlap/hierarchical-allgather",
}


@cache
def workload(imbalance: float, chunks: int = 1) -> Workload:
    """A stated imbalance of the expert ranks; `chunks` > 1 pipelines the two steps of a hierarchical all-to-all."""
    stack = replace(HARDWARE.stack, hierarchical_chunks=chunks)
    return Workload(seq_length=SEQ_LENGTH, global_batch=BATCH, stack=stack, expert_imbalance=imbalance)


def case_of(given: Workload) -> Case:
    return Case(model=MODEL, hardware=HARDWARE, workload=given)


def batch_of(text: str) -> StrategyBatch:
    return strategy_to_batch(parse_strategy(text), MODEL, DEVICES, "any")


def simulated(text: str, imbalance: float, chunks: int = 1) -> SimulatedStep:
    return simulate_strategy(case_of(workload(imbalance, chunks)), batch_of(text))


def scaled_to_ep32(of_16_ranks: float) -> float:
    """Of 16 ranks of 4 experts each -> of 32 ranks of 8, by the rule of `cost_models.imbalance`."""
    asked = Workload(seq_length=1, global_batch=1, expert_imbalance=of_16_ranks, imbalance_by_ep=True)
    return float(rank_imbalance(asked, 256.0, np.array([float(EP)]))[0])


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def table(head: str, rows: list[list[str]]) -> None:
    names = [name.strip() for name in head.split("|")]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    print()

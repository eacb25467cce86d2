"""Closed form against event simulator on random uneven pipelines: median and 99th percentile per schedule.

    python scripts/closed_form_vs_simulator.py [--cases 1000] [--schedules 1f1b interleaved] [--seed 0] [--overlap 200]

Stage costs uniform in 0.5-1.5, half of the cases with a head and half with an embedding up to 3x; P2P 0-20% of F; p in
2..32; a third of the cases with fewer micro-batches than ranks where the schedule runs them, else m in p..8p (DualPipe: at
least 2p). Backward for the input 0.9-1.2 F, and F more in the third of the cases under full recompute; for the weights
0.7-1.0 F. `--overlap`: strategies of MoE models that overlap expert communication, whole steps, closed form against replay.
"""

from __future__ import annotations

import argparse
import random

import numpy as np

from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.replay import simulated_step_s
from autodeploy.schedule import SCHEDULES, SimulationRequest, StageCosts, simulate
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import parse_strategy
from autodeploy.strategy.rules import check
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import Workload
from cost_models.schedules import SCHEDULE_TABLE, closed_form_step_s
from cost_models.step.evaluate import evaluate

OVERLAPPED = (  # model, hardware, sequence length
    ("deepseek-v3", "h100-sxm", 4096),
    ("deepseek-v3", "atlas-800t-a2", 4096),
    ("pangu-ultra-moe-718b", "atlas-800t-a2", 8192),
    ("mixtral-8x7b", "h100-sxm", 4096),
    ("deepseek-v2-lite", "h100-sxm", 4096),
    ("qwen3-30b-a3b", "b200", 4096),
    ("gpt-oss-20b", "mi300x", 8192),
)


def random_shape(name: str, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """(pp, vpp, micro-batches, group)"""
    record = SCHEDULE_TABLE[name]
    p = int(rng.integers(2, 33))
    p += p % 2 if record.even else 0
    m = int(rng.integers(1, p)) if rng.random() < 1 / 3 else int(rng.integers(p, 8 * p + 1))
    m = max(record.least_turns * p, m)
    m += m % 2 if record.even else 0
    vpp = record.chunks.least if record.chunks.most else int(rng.choice([2, 3, 4]))
    if not record.grouped:
        return p, vpp, m, 0
    if m < p:
        return p, vpp, m, m
    group = p if rng.random() < 0.7 else int(rng.integers(p, m + 1))
    return p, vpp, m - m % group if 0 < m % group < p else m, group


def random_case(name: str, rng: np.random.Generator) -> tuple[SimulationRequest, float]:
    """A request of one scenario, and the closed form's seconds."""
    p, vpp, m, group = random_shape(name, rng)
    forward = rng.uniform(0.5, 1.5, (1, p * vpp))
    if rng.random() < 0.5:
        forward[0, -1] *= rng.uniform(1, 3)
    if rng.random() < 0.5:
        forward[0, 0] *= rng.uniform(1, 3)
    again = float(rng.random() < 1 / 3)
    costs = StageCosts(
        forward_s=forward,
        backward_input_s=forward * (rng.uniform(0.9, 1.2) + again),
        backward_weight_s=forward * rng.uniform(0.7, 1.0),
    )
    hop = rng.uniform(0, 0.2)
    request = SimulationRequest(
        schedule=name, pp=p, vpp=vpp, micro_batches=m, group=group, costs=costs, p2p_s=hop, overlap="none"
    )
    form = closed_form_step_s(
        name, costs.forward_s, costs.backward_input_s, costs.backward_weight_s, hop, p, vpp, m, group
    )
    return request, float(form[0])


def random_strategy(name: str, rng: random.Random) -> tuple[str, int, int]:
    """Text, cards and sequences of a strategy of the schedule with EP overlap."""
    record = SCHEDULE_TABLE[name]
    p = rng.choice((2, 4, 8, 16))
    vpp = record.chunks.least if record.chunks.most else rng.choice((2, 3, 4))
    tp, dp, ep, mbs = rng.choice((1, 2, 4, 8)), rng.choice((4, 8, 16, 32)), rng.choice((4, 8, 16, 32, 64)), 1
    m = max(rng.choice((1, 2, 3, 4, 6)), record.least_turns) * p
    parts = [f"TP{tp}/PP{p}/VPP{vpp}/EP{ep}", name, "" if record.needs_overlap else "ep-overlap"]
    parts.append(rng.choice(("", "", "", "full", "selective(layernorm,moe)")))
    parts.append(rng.choice(("", "", "hierarchical-dedup", "hierarchical-allgather")))
    return "/".join(part for part in parts if part), tp * p * dp, m * dp * mbs


def overlapped_errors(name: str, cases: int, seed: int) -> list[float]:
    """Percent, of whole steps."""
    rng, errors = random.Random(seed), []
    while len(errors) < cases:
        model, profile, sequence = rng.choice(OVERLAPPED)
        text, devices, sequences = random_strategy(name, rng)
        hardware = load_hardware(profile)
        workload = Workload(
            seq_length=sequence,
            global_batch=sequences,
            stack=hardware.stack,
            expert_imbalance=hardware.expert_imbalance,
        )
        case = Case(model=load_model(model), hardware=hardware, workload=workload)
        try:
            batch = strategy_to_batch(parse_strategy(text, "any"), case.model, devices, "any", sequences)
        except ConfigError:
            continue
        if check(case.model, hardware, workload, batch, "any", devices=devices)[0]:
            continue
        errors.append(100 * float(evaluate(case, batch).step_s[0] / simulated_step_s(case, batch)[0] - 1))
    return errors


def line(name: str, errors: list[float]) -> str:
    size = np.abs(errors)
    return (
        f"{name:24s} {len(size):6d} {np.median(size):9.2f} {np.quantile(size, 0.9):7.2f} {np.quantile(size, 0.99):7.2f} "
        f"{size.max():7.2f} {np.mean(errors):+7.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--overlap", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schedules", nargs="*", default=list(SCHEDULES))
    options = parser.parse_args()
    print(f"{'schedule':24s} {'cases':>6s} {'median %':>9s} {'p90 %':>7s} {'p99 %':>7s} {'max %':>7s} {'bias %':>7s}")
    for name in options.schedules:
        if options.cases:
            rng = np.random.default_rng(options.seed)
            pairs = (random_case(name, rng) for _ in range(options.cases))
            print(line(name, [100 * (form / simulate(asked).pipeline_s[0] - 1) for asked, form in pairs]), flush=True)
        if options.overlap and SCHEDULE_TABLE[name].runs_overlapped:
            print(line(f"{name}, EP overlap", overlapped_errors(name, options.overlap, options.seed)), flush=True)


if __name__ == "__main__":
    main()

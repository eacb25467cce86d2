"""Closed form against event simulator on random uneven pipelines: median and 99th percentile per schedule.

    python scripts/closed_form_vs_simulator.py [--cases 1000] [--schedules 1f1b interleaved] [--seed 0]

Stage costs uniform in 0.5-1.5, half of the cases with a head and half with an embedding up to 3x; P2P 0-20% of F; p in
2..32, m in p..8p (DualPipe: at least 2p). Backward for the input 0.9-1.2 F, for the weights 0.7-1.0 F.
"""

from __future__ import annotations

import argparse

import numpy as np

from autodeploy.schedule import SimulationRequest, StageCosts, simulate
from cost_models.schedules import SCHEDULE_TABLE, closed_form_step_s

TWO_CHUNKS = {"zb-v", "zb-v-half", "zb-v-min", "dualpipev"}
ANY_CHUNKS = {"interleaved", "adaptive-pipe"}


def random_case(name: str, rng: np.random.Generator) -> tuple[SimulationRequest, float]:
    """A request of one scenario, and the closed form's seconds."""
    p = int(rng.integers(2, 33))
    p += p % 2 if name == "dualpipe" else 0
    m = int(rng.integers(p, 8 * p + 1))
    if name.startswith("dualpipe"):
        m = max(2 * p, m)
        m += m % 2 if name == "dualpipe" else 0
    vpp = 2 if name in TWO_CHUNKS else int(rng.choice([2, 3, 4])) if name in ANY_CHUNKS else 1
    group = p if rng.random() < 0.7 else int(rng.integers(p, m + 1))
    if name in ANY_CHUNKS and m % group and m % group < p:
        m -= m % group
    forward = rng.uniform(0.5, 1.5, (1, p * vpp))
    if rng.random() < 0.5:
        forward[0, -1] *= rng.uniform(1, 3)
    if rng.random() < 0.5:
        forward[0, 0] *= rng.uniform(1, 3)
    costs = StageCosts(
        forward_s=forward,
        backward_input_s=forward * rng.uniform(0.9, 1.2),
        backward_weight_s=forward * rng.uniform(0.7, 1.0),
    )
    hop = rng.uniform(0, 0.2)
    request = SimulationRequest(
        schedule=name, pp=p, vpp=vpp, micro_batches=m, group=group if name in ANY_CHUNKS else 0, costs=costs, p2p_s=hop,
        overlap="none",
    )  # fmt: skip
    form = closed_form_step_s(
        name, costs.forward_s, costs.backward_input_s, costs.backward_weight_s, hop, p, vpp, m, request.group
    )
    return request, float(form[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schedules", nargs="*", default=[name for name in SCHEDULE_TABLE if name != "none"])
    options = parser.parse_args()
    print(f"{'schedule':14s} {'cases':>6s} {'median %':>9s} {'p99 %':>7s} {'max %':>7s} {'bias %':>7s}")
    for name in options.schedules:
        rng = np.random.default_rng(options.seed)
        errors = []
        for _ in range(options.cases):
            request, form = random_case(name, rng)
            errors.append(100 * (form / simulate(request).pipeline_s[0] - 1))
        size = np.abs(errors)
        print(
            f"{name:14s} {len(size):6d} {np.median(size):9.2f} {np.quantile(size, 0.99):7.2f} {size.max():7.2f} "
            f"{np.mean(errors):+7.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

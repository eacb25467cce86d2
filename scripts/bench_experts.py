"""Measure the expert balancer: balance and time on Zipf loads, total time on generators and on trained routing.

Usage: python scripts/bench_experts.py [FOLDER OF TRACES]. Prices of the replays: an expert of 0.7 GB (44 M parameters
x 16 B), 400 GB/s inside a node and 50 GB/s between, and the stated milliseconds a card works per layer and step.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from autodeploy.balance.experts import (
    GENERATORS,
    Links,
    Predictor,
    Shape,
    Task,
    Topology,
    best_fixed,
    best_in_hindsight,
    card_loads,
    contiguous,
    eplb_style,
    generate,
    load_bound,
    max_over_mean,
    place,
    replay,
)
from autodeploy.balance.experts.placement import F64
from autodeploy.balance.experts.replay import mean_max_over_mean, replay_static

LINKS = Links(bytes_per_expert=0.7e9, intra_bytes_per_s=400e9, inter_bytes_per_s=50e9)


def zipf(layers: int = 61, experts: int = 256, seed: int = 0) -> F64:
    """Zipf 1.0 loads, permuted in each layer [L, E]."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(1e6 / np.arange(1, experts + 1)) for _ in range(layers)])


def bench_placements() -> None:
    loads = zipf()
    print("61 x 256 Zipf 1.0: max/mean averaged over layers, largest gap to the bound, best seconds of 5")
    for nodes, slots, groups in ((4, 288, 1), (32, 512, 1), (4, 288, 8), (4, 256, 1)):
        topology = Topology(nodes=nodes, cards_per_node=8)
        for name, policy in (("ours", place), ("eplb_style", eplb_style)):
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                placement = policy(loads, topology, slots, groups)
                seconds.append(time.perf_counter() - start)
            by_card = card_loads(placement, loads)
            gap = (by_card.max(axis=1) / load_bound(loads, topology.cards, slots)).max() - 1
            print(
                f"  {topology.cards:3} cards {slots} slots {groups} groups {name:10} {max_over_mean(by_card).mean():.4f} "
                f"{gap:7.2%} {min(seconds):.3f} s  repeats {placement.duplicates().sum()}"
            )


def bench_prediction() -> None:
    predictor, rng = Predictor(61, 256, (6, 25, 100)), np.random.default_rng(0)
    steps = rng.poisson(zipf() / 1000, size=(50, 61, 256)).astype(float)
    start = time.perf_counter()
    for loads in steps:
        predictor.observe(loads)
    observed = (time.perf_counter() - start) / len(steps)
    start = time.perf_counter()
    predictor.forecast(100)
    print(
        f"prediction, 61 x 256: {observed * 1e3:.2f} ms a step, {(time.perf_counter() - start) * 1e3:.2f} ms a forecast"
    )


def bench_generators(seeds: int = 2) -> None:
    print("generators: total / static (EPLB style, ours, best in hindsight), plans of ours, regret / work")
    topology = Topology(nodes=2, cards_per_node=8)
    for card_ms in (100, 10, 1):
        task = Task(topology=topology, links=LINKS, seconds_per_token=card_ms * 1e-3 / 4096)
        for name in GENERATORS:
            for seed in range(seeds):
                history, start = generate(name, Shape(), seed), contiguous(4, 64, 16)
                results = replay(history, start, task, 64)
                best = best_in_hindsight(history, start, task, (16, 64))
                static, eplb, ours = (results[key] for key in ("static", "eplb_style", "ours"))
                print(
                    f"  {card_ms:3} ms {name:10} seed {seed}: {eplb.total_s / static.total_s:6.3f} "
                    f"{ours.total_s / static.total_s:.3f} {best.total_s / static.total_s:.3f} ({best.policy}) "
                    f"plans {ours.plans} regret {(ours.total_s - best.total_s) / ours.work_s:.2%}",
                    flush=True,
                )


def bench_traces(folder: Path) -> None:
    print("trained routing, 16 ranks, horizon 100; max/mean from step 100 on, mean over layers and steps")
    topology = Topology(nodes=2, cards_per_node=8)
    for variant in ("no_balancing", "aux_loss", "bias_loss_free"):
        history = np.load(folder / f"{variant}_loads.npz")["loads"].astype(float)
        for slots in (64, 80):
            for card_ms in (100, 10, 1):
                task = Task(topology=topology, links=LINKS, seconds_per_token=card_ms * 1e-3 / 1024)
                results = replay(history, contiguous(7, 64, 16, slots), task, 100)
                fixed = replay_static(history[100:], best_fixed(history[100:], task, slots, tries=1500), task)
                means = [mean_max_over_mean(results[key], 100) for key in ("static", "eplb_style", "ours")]
                ours = results["ours"]
                print(
                    f"  {variant} {slots} slots {card_ms:3} ms: static {means[0]:.3f} EPLB style {means[1]:.3f} "
                    f"ours {means[2]:.3f} best fixed {mean_max_over_mean(fixed):.3f}; total / static: EPLB style "
                    f"{results['eplb_style'].total_s / results['static'].total_s:.3f} "
                    f"ours {ours.total_s / results['static'].total_s:.3f}; plans {ours.plans}",
                    flush=True,
                )


def main() -> None:
    bench_placements()
    bench_prediction()
    bench_generators()
    if len(sys.argv) > 1:
        bench_traces(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""EDPB beside its peers: balance of placements, real routing, live cost, data order. Fetches nothing.

    python scripts/bench_experts.py [FOLDER OF TRACES] [--replays] > docs/balance_figures.md  # --replays: minutes more

Peers' figures were measured once (docs/balance.md says how) and stand here as constants; ours are
computed now. Loads: Zipf 1.0, 61 layers x 256 experts, permuted in each layer (seed 0). Seconds are of one process on
whatever machine runs this; peers' were taken on two cores of another, so compare their order only.
"""

from __future__ import annotations

import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from autodeploy.balance.data import BatchShape, SampleCost, rearrange
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.balance.experts import (
    GENERATORS,
    Links,
    Shape,
    Task,
    Topology,
    best_in_hindsight,
    card_loads,
    contiguous,
    generate,
    max_over_mean,
    place,
    place_expected,
    replay,
    shared_card_loads,
)
from autodeploy.balance.experts.migrate import relabel
from autodeploy.balance.experts.placement import F64, Placement
from autodeploy.balance.experts.replay import replay_fixed
from autodeploy.balance.live import ExpertBalancer

LINKS = Links(bytes_per_expert=0.7e9, intra_bytes_per_s=400e9, inter_bytes_per_s=50e9)
VARIANTS = ("no_balancing", "aux_loss", "bias_loss_free")
# (nodes, slots, groups): max/mean averaged over layers, and seconds, of deepseek-ai/EPLB, vLLM's default policy and
# vllm-ascend's FlashLB. None: not run.
PEERS: dict[tuple[int, int, int], dict[str, tuple[float, float | None]]] = {
    (4, 288, 1): {"EPLB": (1.0047, 1.70), "vLLM": (1.0062, 0.079), "FlashLB": (1.0009, 2.0)},
    (32, 512, 1): {"EPLB": (1.1372, 15.0), "vLLM": (1.1372, 0.124), "FlashLB": (1.1165, None)},
    (4, 288, 8): {"EPLB": (1.4254, 0.57), "vLLM": (1.4234, 0.087)},
    (4, 256, 1): {"EPLB": (5.370, None)},
}
# 80 slots on 16 cards, planned on steps [t - 100, t), scored on the next 100 (t = 200 .. 1,400), shares even
TRACE_PEERS = {"no_balancing": (1.227, 1.209), "aux_loss": (1.243, 1.229), "bias_loss_free": (1.196, 1.177)}
LIMITS = {"no_balancing": 1.10, "aux_loss": 1.12, "bias_loss_free": 1.08}  # asked of shares solved per step
# rates of D: FLOP of a DeepSeek-V3-size model, 6 x 37.6e9 a token, 3 x 61 x 128 x (192 + 128) a squared token (causal)
COST = SampleCost(alpha_s_per_token=6 * 37.6e9, beta_s_per_token2=3 * 61 * 128 * (192 + 128))


def zipf(layers: int = 61, experts: int = 256, seed: int = 0) -> F64:
    """Zipf 1.0 loads, permuted in each layer [L, E]."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(1e6 / np.arange(1, experts + 1)) for _ in range(layers)])


def node_optimum(loads: F64, nodes: int, groups: int) -> float:
    """Largest over mean node load of the best assignment of whole groups, every one tried; mean over layers."""

    def best(values: list[float], left: int) -> float:
        if left == 1:
            return sum(values)
        found = float("inf")
        for others in combinations(range(1, len(values)), groups // nodes - 1):
            own = values[0] + sum(values[i] for i in others)
            rest = [values[i] for i in range(1, len(values)) if i not in others]
            found = min(found, max(own, best(rest, left - 1)))
        return found

    by_group = loads.reshape(len(loads), groups, -1).sum(axis=2)
    return float(np.mean([best(row.tolist(), nodes) / (row.sum() / nodes) for row in by_group]))


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def head(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


def timed(policy, *arguments) -> tuple[Placement, float]:  # type: ignore[no-untyped-def]
    """(placement, the least CPU seconds of three)."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = policy(*arguments)
        seconds.append(time.process_time() - start)
    return found, min(seconds)


def placements() -> None:
    print("\n## E: placement of given loads, max/mean card load\n")
    head("cards, slots, groups", "EPLB", "vLLM default", "FlashLB", "ours", "CPU s", "bound")
    loads = zipf()
    for (nodes, slots, groups), peers in PEERS.items():
        topology = Topology(nodes=nodes, cards_per_node=8)
        placement, seconds = timed(place, loads, topology, slots, groups)
        ours = max_over_mean(card_loads(placement, loads)).mean()
        cells = [f"{peers[n][0]:.4f}" if n in peers else "-" for n in ("EPLB", "vLLM", "FlashLB")]
        bound = f"nodes {node_optimum(loads, nodes, groups):.4f}" if groups > 1 else ""
        name = f"{topology.cards}, {slots}, {groups if groups > 1 else 'none'}"
        row(name, *cells, f"{ours:.4f}", f"{seconds:.3f}", bound)
    topology = Topology(nodes=4, cards_per_node=8)
    for name, slots, relaxed in (("strict, 320 slots", 320, False), ("relaxed, 288 slots", 288, True)):
        start = time.process_time()
        placement = place(loads, topology, slots, 8, relaxed=relaxed)
        seconds = time.process_time() - start
        ours = max_over_mean(card_loads(placement, loads)).mean()
        row(f"32, groups 8, {name}", "-", "-", "-", f"{ours:.4f}", f"{seconds:.3f}", "")


def traces(folder: Path) -> None:
    print("\n## E: routing of trained models, 16 cards, 80 slots, planned on 100 steps and scored on the next 100\n")
    head("routing", "EPLB", "FlashLB", "ours, even", "ours, shares solved per step", "asked")
    topology = Topology(nodes=2, cards_per_node=8)
    for variant in VARIANTS:
        history = np.load(folder / f"{variant}_loads.npz")["loads"].astype(float)
        even, step = [], []
        for start in range(200, 1500, 100):
            placement = place_expected(history[start - 100 : start], topology, 80)
            ahead = history[start : start + 100]
            even.append(max_over_mean(card_loads(placement, ahead)).mean())
            step.append(max_over_mean(shared_card_loads(placement, ahead, "step")).mean())
        eplb, flash = TRACE_PEERS[variant]
        row(variant, eplb, flash, f"{np.mean(even):.3f}", f"{np.mean(step):.3f}", f"<= {LIMITS[variant]:.2f}")


def trace_replays(folder: Path) -> None:
    print("\n## E: replays, total time lost over static (exposed imbalance and migration), horizon 100\n")
    head("routing, slots, ms a card and layer", "EPLB style (renumbered)", "ours", "plans of ours")
    topology = Topology(nodes=2, cards_per_node=8)
    for variant in VARIANTS:
        history = np.load(folder / f"{variant}_loads.npz")["loads"].astype(float)
        for slots in (64, 80):
            for card_ms in (100, 10, 1):
                task = Task(topology=topology, links=LINKS, seconds_per_token=card_ms * 1e-3 / 1024)
                results = replay(history, contiguous(7, 64, 16, slots), task, 100)
                static = results["static"].total_s
                shares = [f"{results[name].total_s / static:.3f}" for name in ("eplb_style", "ours")]
                row(f"{variant}, {slots}, {card_ms}", *shares, results["ours"].plans)


def generated() -> None:
    print("\n## E: replays of generated loads, total over static\n")
    head("loads, ms a card and layer", "EPLB style", "ours", "best in hindsight", "plans of ours")
    topology = Topology(nodes=2, cards_per_node=8)
    for card_ms in (100, 10, 1):
        task = Task(topology=topology, links=LINKS, seconds_per_token=card_ms * 1e-3 / 4096)
        for name in GENERATORS:
            history, start = generate(name, Shape(), 0), contiguous(4, 64, 16)
            results = replay(history, start, task, 64)
            best = best_in_hindsight(history, start, task, (16, 64))
            static = results["static"].total_s
            shares = [f"{r.total_s / static:.3f}" for r in (results["eplb_style"], results["ours"], best)]
            row(f"{name}, {card_ms}", *shares, results["ours"].plans)


def constant() -> None:
    print("\n## E: constant loads, 300 steps: net gain of the replay over that of the full placement at step 0\n")
    head("cards, slots, groups", "share of the net gain", "max/mean at the end", "full placement")
    loads = zipf(4)
    for nodes, slots, groups in ((4, 288, 1), (32, 512, 1), (4, 288, 8)):
        topology = Topology(nodes=nodes, cards_per_node=8)
        rate = 1e-2 / (loads[0].sum() / topology.cards)
        task = Task(topology=topology, links=LINKS, seconds_per_token=rate, groups=groups)
        start = contiguous(4, 256, topology.cards, slots, nodes if groups > 1 else 1)
        results = replay(np.repeat(loads[None], 300, axis=0), start, task, 100)
        full = place(loads, topology, slots, groups)
        full = relabel(full, start, topology, LINKS, keep_nodes=groups > 1)
        fixed = replay_fixed(np.repeat(loads[None], 300, axis=0), start, full, task).total_s
        static, ours = results["static"].total_s, results["ours"]
        ends = ours.max_over_mean[-1].mean(), max_over_mean(card_loads(full, loads)).mean()
        row(f"{topology.cards}, {slots}, {groups}", f"{(static - ours.total_s) / (static - fixed):.4f}",
            *(f"{end:.4f}" for end in ends))  # fmt: skip


def live() -> None:
    loads = zipf()
    rate = 1e-2 / (loads[0].sum() / 100 / 32)  # a card works 10 ms a layer and step
    task = Task(topology=Topology(nodes=4, cards_per_node=8), links=LINKS, seconds_per_token=rate)
    balancer = ExpertBalancer(contiguous(61, 256, 32, 288), task, 100)
    rng, observed, decided = np.random.default_rng(0), [], []
    for _ in range(600):
        step = rng.poisson(loads / 100).astype(float)
        start = time.process_time()
        balancer.observe(step)
        middle = time.process_time()
        balancer.decide()
        observed.append(middle - start)
        decided.append(time.process_time() - middle)
    late = sum(decided[200:]) / 400
    print(f"\nLive, 61 x 256 in 288 slots, 600 steps, CPU: observe {np.median(observed) * 1e3:.2f} ms a step (median); decide, "
          f"called every step, {np.mean(decided) * 1e3:.2f} ms on average, {late * 1e3:.2f} ms from step 200 on; "
          f"{sum(d > 0.02 for d in decided)} looks, the longest {max(decided) * 1e3:.0f} ms.")  # fmt: skip


def data(folder: Path) -> None:
    print("\n## D: 48 ranks, expert groups of 4, one document a sample: step over the mean\n")
    head(
        "lengths",
        "as dealt",
        "padded (fixed counts)",
        "free counts",
        "split over up to 48 ranks",
        "delayed up to 4 batches",
    )
    cases = [("log-normal", length, count, median, sigma) for length, count in ((8192, 8), (131072, 16))
             for median in (512, 2048, 16384) for sigma in (1.0, 1.5) if median <= length]  # fmt: skip
    for name, length, count, median, sigma in cases:
        drawn = np.exp(np.random.default_rng(0).normal(np.log(median), sigma, 48 * count * 2)).astype(np.int64)
        data_row(f"{name} {median}, {sigma}, {length // 1024}K", np.clip(drawn, 1, length), length, count)
    path = folder / "document_lengths.npz"
    if path.exists():
        lengths = np.load(path)["lengths"].astype(np.int64)
        np.random.default_rng(0).shuffle(lengths)
        for length, count in ((8192, 8), (131072, 8), (131072, 16)):
            cut = split_overlong(lengths, length)[0][: 48 * count * 6]
            data_row(f"real, {length // 1024}K, {count} a rank", cut, length, count)


def data_row(name: str, lengths: np.ndarray, length: int, count: int) -> None:
    base = {"ranks": 48, "ep_ranks": 4, "micro_batches": count}
    ways: tuple[dict[str, int], ...] = ({"free_counts": False}, {}, {"most_parts": 48}, {"most_delay": 4})
    plans = [rearrange(lengths, length, BatchShape(**base, **way), COST) for way in ways]  # type: ignore[arg-type]
    row(name, f"{plans[0].before.coupled_over_mean:.3f}", *(f"{plan.after.coupled_over_mean:.4f}" for plan in plans))


def main() -> None:
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2] / "shared" / "traces"
    flags = "".join(f" {a}" for a in sys.argv[1:] if a.startswith("--"))
    print(
        f"# Figures of EDPB beside its peers\n\nPrinted by `python scripts/bench_experts.py{flags}`; peers: see balance.md."
    )
    placements()
    if folder.is_dir():
        traces(folder)
    constant()
    live()
    data(folder)
    if "--replays" in sys.argv[1:]:
        generated()
        if folder.is_dir():
            trace_replays(folder)


if __name__ == "__main__":
    main()

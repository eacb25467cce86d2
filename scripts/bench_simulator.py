"""Speed of the event simulator on one Pangu Ultra MoE step: PP16, VPP2, 48 micro-batches, three lanes.

    python scripts/bench_simulator.py [--scenarios 1024] [--workers 1]

Prints the time of one step alone (first call and later calls, import excluded) and scenarios per second in batches.
The segment durations are made up (the order of a Pangu layer on Atlas 800T A2), varied by 20%; speed does not depend
on them.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from autodeploy.schedule import SEGMENTS, LayerSegments, Segment, SimulationRequest, simulate

PP, VPP, MICRO_BATCHES, LAYERS, DENSE = 16, 2, 48, 62, 3


def pangu_layers(scenarios: int, seed: int = 0) -> LayerSegments:
    """[N, 32 stages, 2 layers, K]: 61 layers and one MTP layer, the first three dense."""
    seconds = np.zeros((scenarios, PP * VPP, 2, SEGMENTS))
    nominal = {
        Segment.ATTENTION_F: 3.0, Segment.ATTENTION_B: 3.3, Segment.ATTENTION_W: 2.4, Segment.ATTENTION_R: 0.7,
        Segment.EXPERTS_F: 2.2, Segment.EXPERTS_B: 2.2, Segment.EXPERTS_W: 2.2, Segment.EXPERTS_R: 0.4,
    }  # fmt: skip
    for segment in Segment:
        if "INTER" in segment.name and not segment.name.endswith("_R"):
            nominal[segment] = 1.5
        if "INTRA" in segment.name and not segment.name.endswith("_R"):
            nominal[segment] = 0.6
    vary = np.random.default_rng(seed).uniform(0.8, 1.2, seconds.shape)
    for layer in range(LAYERS):
        for segment, milliseconds in nominal.items():
            if layer >= DENSE or "ATTENTION" in segment.name:
                seconds[:, layer // 2, layer % 2, segment] = 1e-3 * milliseconds
    return LayerSegments(seconds=seconds * vary)


def request(scenarios: int, seed: int, **more: object) -> SimulationRequest:
    return SimulationRequest(
        schedule="adaptive-pipe",
        pp=PP,
        vpp=VPP,
        micro_batches=MICRO_BATCHES,
        costs=pangu_layers(scenarios, seed),
        p2p_s=2e-4,
        **more,  # type: ignore[arg-type]
    )


def batch_rate(arguments: tuple[int, int, int]) -> tuple[int, float]:
    """(scenarios, seconds) of a worker: batches of `block`, lane order and ends given, as after the choice."""
    scenarios, block, seed = arguments
    asked = [request(block, seed + k, lane_order="sub-layer-1.0", ends="none") for k in range(scenarios // block)]
    simulate(asked[0])
    start = time.perf_counter()
    for one in asked:
        simulate(one)
    return len(asked) * block, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=1024)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    alone = request(1, 0)
    for label in ("first call", "second call"):
        start = time.perf_counter()
        result = simulate(alone)
        print(f"one step alone, {label}: {1e3 * (time.perf_counter() - start):.0f} ms ({result.lane_order[0]})")
    work = [(options.scenarios, options.block, 1000 * worker) for worker in range(options.workers)]
    with ProcessPoolExecutor(options.workers) as pool:
        rates = [count / seconds for count, seconds in pool.map(batch_rate, work)]
    print(f"batches of {options.block}: {sum(rates):.0f} scenarios/s on {options.workers} worker(s)")
    start = time.perf_counter()
    simulate(request(256, 5))
    print(f"batch of 256 with the choice of lane order and ends: {256 / (time.perf_counter() - start):.0f} scenarios/s")


if __name__ == "__main__":
    main()

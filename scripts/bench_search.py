#!/usr/bin/env python3
"""Speed of the search: strategies priced per second on one core, peak memory, and the whole command end to end.

    .venv/bin/python scripts/bench_search.py [--strategies 1000000] [--model ...] [--hardware ...] [--devices ...]

Every strategy is priced in full: time, and memory of every pipeline rank. The space of the case is walked again and again
until the number asked for is reached. Rates are per second of processor time, so that a busy machine does not lower them; the
commands are timed by the clock. Exit code 1 where a figure misses its target.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

TARGET_PER_S = 50_000
TARGET_GIB = 1.0
TARGET_COMMAND_S = 10.0
TARGET_START_S = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", type=int, default=1_000_000)
    parser.add_argument("--model", default="pangu-ultra-moe-718b")
    parser.add_argument("--hardware", default="atlas-800t-a2")
    parser.add_argument("--devices", type=int, default=6144)
    parser.add_argument("--seq-length", type=int, default=8192)
    parser.add_argument("--global-batch", type=int, default=4608)
    options = parser.parse_args()
    figures = [
        *price_many(options),
        (
            f"search, {options.model} on {options.devices} cards, end to end",
            command_s(search_command(options)),
            "s",
            "<=",
            TARGET_COMMAND_S,
        ),
        ("--help", command_s(["--help"]), "s", "<=", TARGET_START_S),
    ]
    missed = 0
    for name, value, unit, relation, target in figures:
        met = value >= target if relation == ">=" else value <= target
        missed += not met
        print(f"{name}: {value:,.2f} {unit} (target {relation} {target:g}){'' if met else '  MISSED'}")
    return 1 if missed else 0


def price_many(options: argparse.Namespace) -> list[tuple[str, float, str, str, float]]:
    """Prices ``options.strategies`` strategies in this process. Figures: strategies per second, peak memory."""
    import resource

    from autodeploy.hardware import load_hardware
    from autodeploy.models import load_model
    from autodeploy.search import SearchRequest
    from autodeploy.search.candidates import price
    from autodeploy.search.real_parts import standard_space
    from autodeploy.search.screen import keeping_of
    from autodeploy.search.shortlist import shorten
    from autodeploy.search.space import WalkCounts, chunks
    from cost_models.case import Case
    from cost_models.inputs import Workload
    from cost_models.step import evaluate

    hardware = load_hardware(options.hardware)
    workload = Workload(
        seq_length=options.seq_length, global_batch=options.global_batch, stack=hardware.stack,
        expert_imbalance=hardware.expert_imbalance,
    )  # fmt: skip
    request = SearchRequest(
        case=Case(model=load_model(options.model), hardware=hardware, workload=workload), devices=(options.devices,),
        backend=hardware.backend,
    )  # fmt: skip
    done, shortlist, pricing_s = 0, None, 0.0
    began, wall_began = time.process_time(), time.perf_counter()
    while done < options.strategies:
        before = done
        for batch in chunks(standard_space, request, WalkCounts()):
            batch = batch.take(slice(0, options.strategies - done))
            started = time.process_time()
            candidates = price(request, batch, evaluate)
            pricing_s += time.process_time() - started
            part = shorten(candidates, keeping_of(request))
            shortlist = part if shortlist is None else shortlist.merge(part, keeping_of(request))
            done += len(batch)
            if done >= options.strategies:
                break
        if done == before:
            sys.exit("the space of this case is empty")
    total_s, wall_s = time.process_time() - began, time.perf_counter() - wall_began
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30
    return [
        (
            f"priced alone ({done:,} strategies, {pricing_s:.1f} s of one core)",
            done / pricing_s,
            "strategies/s",
            ">=",
            TARGET_PER_S,
        ),
        (
            f"enumerated, priced and ranked ({total_s:.1f} s of one core, {wall_s:.1f} s by the clock)",
            done / total_s,
            "strategies/s",
            ">=",
            TARGET_PER_S,
        ),
        ("peak memory", peak_gib, "GiB", "<=", TARGET_GIB),
    ]


def search_command(options: argparse.Namespace) -> list[str]:
    return [
        "search", options.model, "--hardware", options.hardware, "--devices", str(options.devices),
        "--seq-length", str(options.seq_length), "--global-batch", str(options.global_batch),
    ]  # fmt: skip


def command_s(arguments: list[str]) -> float:
    """Best of three runs of the command in a process of its own."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "autodeploy", *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())

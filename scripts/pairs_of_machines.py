#!/usr/bin/env python3
"""Are machines in the right order? Pairs of machines that ran one model, each with its own best setting.

    python scripts/pairs_of_machines.py [--devices b200,gb200,b300,gb300]

A pair: two devices that ran the same model at the same number of cards, sequence, batch and precision class for one source.
Each stands for itself by the fastest of its measured rows. Pairs measured within 2% of each other do not count.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import combinations

from autodeploy.accuracy import RunResult, compare, read_runs
from cost_models.step import evaluate

TIE_FRAC = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="b200,gb200,b300,gb300")
    devices = parser.parse_args().devices.split(",")
    run_set = read_runs()
    runs = [run for run in run_set.runs if run.device in devices and run.gated and run.step_time_s]
    best = fastest(list(compare(run_set, runs=runs, evaluate=evaluate).results))
    right = wrong = 0
    for key, machines in sorted(best.items(), key=str):
        for (one, a), (other, b) in combinations(sorted(machines.items()), 2):
            measured = (a.run.step_time_s or 0.0) / (b.run.step_time_s or 1.0)
            predicted = (a.predicted_step_time_s or 0.0) / (b.predicted_step_time_s or 1.0)
            if abs(measured - 1) <= TIE_FRAC:
                continue
            agrees = (measured > 1) == (predicted > 1)
            right, wrong = right + agrees, wrong + (not agrees)
            if not agrees:
                print(
                    f"{one} / {other} on {' '.join(map(str, key))}: measured {measured:.3f}, predicted {predicted:.3f}"
                )
    print(f"{right} of {right + wrong} pairs in the right order")


def fastest(results: list[RunResult]) -> dict[tuple, dict[str, RunResult]]:
    """The fastest measured row of every device, by what the rows share."""
    best: dict[tuple, dict[str, RunResult]] = defaultdict(dict)
    for result in results:
        run = result.run
        if result.predicted_step_time_s is None:
            continue
        key = (run.group, run.model, run.precision_class, run.num_devices, run.seq_length, run.global_batch)
        held = best[key].get(run.device)
        if held is None or (run.step_time_s or 0.0) < (held.run.step_time_s or 0.0):
            best[key][run.device] = result
    return best


if __name__ == "__main__":
    main()

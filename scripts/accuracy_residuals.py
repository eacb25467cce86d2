"""Predicted / measured by columns, quick and without the command line: which mechanism is missing?

python scripts/accuracy_residuals.py --group hagemann --by attention_kernel,tp [--memory] [--worst 10] [--causes]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from autodeploy.accuracy import RunResult, compare, read_runs
from autodeploy.accuracy.residuals import describe, residuals, worst
from cost_models.step import evaluate


def main() -> None:
    options = _options()
    run_set = read_runs()
    words = [word for word in options.group.split(",") if word]
    runs = [
        run for run in run_set.runs
        if (options.all_rows or run.gated) and (not words or any(word in run.report_group for word in words))
    ]  # fmt: skip
    start = time.perf_counter()
    report = compare(run_set, runs=runs, evaluate=evaluate)  # the closed form alone: no replay of what users type
    print(f"{len(runs)} runs in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    results = list(report.results)
    for name in options.by:
        _print_residuals(results, name.split(","), options.memory)
    if options.causes:
        _print_causes(results)
    for result in worst(results, options.worst, memory=options.memory):
        _print_row(result, options.memory)
    for result in results:
        if result.skipped and options.skipped:
            print(f"skipped {result.run.id}: {result.skipped}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", default="", help="part of source/precision; several with commas")
    parser.add_argument("--by", action="append", default=[], help="columns, comma-separated; repeat for several tables")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--all-rows", action="store_true", help="also partial and suspect rows")
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--causes", action="store_true", help="mean share of each cause in the predicted step")
    parser.add_argument("--skipped", action="store_true")
    options = parser.parse_args()
    options.by = options.by or ["report_group"]
    return options


def _print_residuals(results: list[RunResult], names: list[str], memory: bool) -> None:
    print(f"\n{' '.join(names):<60} {'rows':>5} {'median':>7} {'min':>7} {'max':>7} {'MAPE':>7}")
    for each in residuals(results, names, memory=memory):
        key = " ".join(str(value) for value in each.key)
        low, high = each.spread
        print(f"{key:<60.60} {len(each.ratios):>5} {each.median:>7.3f} {low:>7.3f} {high:>7.3f} {each.mape:>7.2%}")


def _print_causes(results: list[RunResult]) -> None:
    predicted = [r for r in results if r.predicted_step_time_s]
    print()
    for cause in predicted[0].time_s if predicted else ():
        share = float(np.mean([r.time_s[cause] / (r.predicted_step_time_s or 1) for r in predicted]))
        if abs(share) >= 5e-4:
            print(f"{cause:<24} {share:>7.1%} of the predicted step")


def _print_row(result: RunResult, memory: bool) -> None:
    run = result.run
    measured, predicted = (
        (run.peak_memory_gib, result.predicted_memory_gib)
        if memory
        else (run.step_time_s, result.predicted_step_time_s)
    )
    causes = sorted(result.time_s.items(), key=lambda item: -item[1])[:6]
    print(f"\n{run.id}: {measured:.4g} measured, {predicted:.4g} predicted, ratio {predicted / measured:.3f}")
    print(f"  {describe(run)} on {run.num_devices} {run.device}; {run.attention_kernel or ''} {run.schedule or ''}")
    print("  " + "  ".join(f"{name} {value:.4g}" for name, value in causes))


if __name__ == "__main__":
    main()

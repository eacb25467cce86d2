#!/usr/bin/env python3
"""The constants of old software stacks that no document states, each fitted alone on families that fits may use.

    python scripts/fit_stack_constants.py

Prints, for each value tried, the mean absolute error of step time on fitted and on held-out families. The best on the
fitted ones is what stands in the code; run scripts/fit_training.py first, since the machine's constants come before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from autodeploy.accuracy import compare, facts, read_runs
from cost_models import layer_price

MEGATRON_DEEPSPEED = ("vtrain_single", "vtrain_multi", "bloom_bench")


def host_cost_factor(value: float) -> None:
    for group in MEGATRON_DEEPSPEED:
        old = facts.STACK_FACTS[group]
        facts.STACK_FACTS[group] = replace(old, stack={**old.stack, "host_cost_factor": value})


def blocking_round_trip(value: float) -> None:
    layer_price.BLOCKING_ROUND_TRIP = value


# constant -> (what sets it, sources that it acts on, values tried)
CONSTANTS: dict[str, tuple[Callable[[float], None], tuple[str, ...], tuple[float, ...]]] = {
    "host_cost_factor": (host_cost_factor, ("vtrain_single",), (4, 5, 5.5, 6, 6.5, 7, 7.5, 8, 9)),
    "BLOCKING_ROUND_TRIP": (blocking_round_trip, ("bloom_bench",), (1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.4)),
}


def main() -> int:
    run_set = read_runs()
    for name, (put, sources, values) in CONSTANTS.items():
        runs = [run for run in run_set.runs if run.group in sources and run.gated and run.step_time_s]
        figures = {}
        for value in values:
            put(value)
            results = [r for r in compare(run_set, runs=runs).results if r.time_error_frac is not None]
            errors = {
                part: [abs(r.time_error_frac or 0.0) for r in results if r.fitted_on is part] for part in (True, False)
            }
            figures[value] = (float(np.mean(errors[True])), float(np.mean(errors[False])))
            print(f"{name} {value:g}: fitted {figures[value][0]:.2%}, held out {figures[value][1]:.2%}")
        best = min(values, key=lambda value: figures[value][0])
        put(best)
        print(f"{name}: {best:g}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

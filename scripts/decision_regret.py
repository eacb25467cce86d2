"""How much slower the strategy that is predicted fastest runs than the best measured one, over the published runs.

python scripts/decision_regret.py [RUNS...]    all problems pooled, by source, and with rows that no fit has seen
    --list N    also the N problems with the largest regret
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from autodeploy.accuracy import compare, merge, read_runs
from autodeploy.accuracy.held_out import SOURCES
from autodeploy.accuracy.regret import Problem, Seconds, as_configured, as_typed, problems_of, strategy_of

MANY = 5  # problems of a source that counts by itself


def report(problems: list[Problem], seconds: Seconds) -> list[str]:
    by_source: dict[str, list[float]] = {}
    for problem in problems:
        by_source.setdefault(problem.source, []).append(problem.regret(seconds))
    everything = [regret for regrets in by_source.values() for regret in regrets]
    unseen = [problem.regret(seconds) for problem in problems if problem.unseen]
    large = {source: float(np.mean(regrets)) for source, regrets in by_source.items() if len(regrets) >= MANY}
    lines = [_line("all", everything), _line("with rows that no fit has seen", unseen)]
    lines.append(f"  {'mean over sources of 5 problems or more':<42} {np.mean(list(large.values())):7.2%}")
    return lines + [_line(f"  {source}", regrets) for source, regrets in sorted(by_source.items())]


def _line(name: str, regrets: list[float]) -> str:
    within = float(np.mean(np.array(regrets) <= 0.01)) if regrets else float("nan")
    mean = float(np.mean(regrets)) if regrets else float("nan")
    return f"  {name:<42} {mean:7.2%}  {len(regrets):>4} problems, within 1%: {within:.0%}"


def worst(problems: list[Problem], seconds: Seconds, count: int) -> list[str]:
    lines = []
    for problem in sorted(problems, key=lambda p: -p.regret(seconds))[:count]:
        chosen = min(problem.results, key=lambda r: seconds(r) or 0.0)
        best = min(problem.results, key=lambda r: r.run.step_time_s or 0.0)
        lines.append(f"  {problem.regret(seconds):6.1%} of {len(problem.results)}: {problem.key[0]} {problem.key[3]} "
                     f"{problem.key[5]} x {problem.key[4]}")  # fmt: skip
        for word, result in (("chosen", chosen), ("best", best)):
            lines.append(f"         {word:<6} {result.run.id}: measured {result.run.step_time_s:.4g}, predicted "
                         f"{seconds(result):.4g}; {strategy_of(result.run)[:9]}")  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--list", type=int, default=0)
    parser.add_argument("--put-aside", action="store_true", help="include the sources that are put aside whole")
    given = parser.parse_args()
    run_set = merge([read_runs(folder) for folder in given.runs]) if given.runs else read_runs()
    results = [r for r in compare(run_set).results if given.put_aside or r.run.group not in SOURCES]
    for title, seconds in (("with the rows' own software facts", as_configured), ("as typed", as_typed)):
        problems = problems_of(results, seconds)
        print(f"regret of the first choice, predicted {title}: {len(problems)} problems, "
              f"{sum(len(p.results) for p in problems)} rows")  # fmt: skip
        print("\n".join(report(problems, seconds)))
        if given.list:
            print("\n".join(worst(problems, seconds, given.list)))


if __name__ == "__main__":
    main()

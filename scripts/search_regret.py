#!/usr/bin/env python3
"""How far each way of searching stays behind the simulator's optimum, on problems small enough to replay every strategy; and how
far the sweep of the fine moves and a study of them stay behind the best of all moves of all strategies.

    python scripts/search_regret.py [--problems 20] [--trials 200,1000] [--methods auto,tpe,nsga2,random] [--largest 1500]
    python scripts/search_regret.py --fine [--problems 20] [--trials 200]

A problem: a model, a machine, cards, a batch and a few fixed axes. All strategies that fit are replayed; regret is how much
slower the first row of a search is than the best of them (negative: finer moves beat the grid). ``auto`` sweeps the fine moves
and needs no trials. Prints one row a problem, and the worst of each method.

With ``--fine`` recompute, swap, offload and micro-batch group are left free, on cards where little fits: every base of the space
(not only the screen's best) is swept, which is the optimum of the fine space by the closed form.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from dataclasses import dataclass

import numpy as np

from autodeploy.cli.case import CaseOptions, load_case
from autodeploy.replay import simulated_step_s
from autodeploy.search import SearchRequest, run_search
from autodeploy.search.candidates import Candidates
from autodeploy.search.moves import base_variants, free_moves
from autodeploy.search.real_parts import rules_allow, standard_space
from autodeploy.search.screen import screen
from autodeploy.search.space import WalkCounts, chunks
from autodeploy.search.study import refine_around
from autodeploy.search.sweep import origins_around, sweep_around
from autodeploy.search.twin import Twin
from autodeploy.strategy.axes import Axes
from cost_models.step import bounds, evaluate, price
from cost_models.strategies import StrategyBatch


@dataclass(frozen=True, slots=True)
class Problem:
    """``axes``: as on the command line. The last ones have fewer micro-batches than pipeline ranks."""

    model: str
    hardware: str
    devices: int
    global_batch: int
    axes: dict[str, str]


PLAIN = {"swap": "0", "offload": "0", "recompute": "none,full", "micro_batch": "1,2"}
MOE = {**PLAIN, "etp": "1", "cp": "1", "dispatcher": "alltoall"}
PROBLEMS = (
    Problem("llama-3.1-8b", "h100-sxm", 16, 64, PLAIN),
    Problem("llama-3.1-8b", "h100-sxm", 32, 128, PLAIN),
    Problem("llama-3.1-8b", "a100-80g-sxm", 32, 64, PLAIN),
    Problem("llama-3.1-8b", "mi300x", 16, 64, PLAIN),
    Problem("llama-3.1-70b", "h100-sxm", 64, 128, {**PLAIN, "cp": "1"}),
    Problem("llama-3.1-70b", "b200", 64, 128, {**PLAIN, "cp": "1"}),
    Problem("llama-3.1-70b", "gb200-nvl72", 72, 144, {**PLAIN, "cp": "1"}),
    Problem("llama-3.1-70b", "atlas-800t-a2", 128, 256, {**PLAIN, "cp": "1", "tp": "4,8"}),
    Problem("gpt3-175b", "a100-80g-sxm", 128, 256, {**PLAIN, "cp": "1", "tp": "4,8"}),
    Problem("qwen3-32b", "h100-sxm", 32, 64, {**PLAIN, "cp": "1"}),
    Problem("qwen2.5-72b", "h200", 64, 128, {**PLAIN, "cp": "1"}),
    Problem("mixtral-8x7b", "h100-sxm", 32, 64, {**MOE, "tp": "1,2,4"}),
    Problem("mixtral-8x7b", "a100-80g-sxm", 64, 128, {**MOE, "tp": "1,2,4"}),
    Problem("qwen3-30b-a3b", "h100-sxm", 16, 64, {**MOE, "tp": "1,2"}),
    Problem("qwen3-30b-a3b", "atlas-800t-a2", 32, 128, {**MOE, "tp": "1,2"}),
    Problem("deepseek-v2-lite", "h100-sxm", 16, 64, {**MOE, "tp": "1,2"}),
    Problem("deepseek-v2-lite", "mi300x", 16, 128, {**MOE, "tp": "1,2"}),
    Problem("llama-3.1-70b", "h100-sxm", 64, 8, {**PLAIN, "cp": "1", "tp": "4,8"}),
    Problem("gpt3-175b", "h100-sxm", 128, 8, {**PLAIN, "cp": "1", "tp": "8"}),
    Problem("mixtral-8x7b", "h100-sxm", 64, 16, {**MOE, "tp": "1,2,4"}),
)


TIGHT = {"micro_batch": "1,2,4"}
FINE = (
    Problem("llama-3.1-70b", "h100-sxm", 16, 64, TIGHT),
    Problem("llama-3.1-70b", "a100-80g-sxm", 16, 64, TIGHT),
    Problem("llama-3.1-70b", "h100-sxm", 64, 256, {**TIGHT, "cp": "1"}),
    Problem("gpt3-175b", "a100-80g-sxm", 48, 96, TIGHT),
    Problem("gpt3-175b", "h100-sxm", 128, 256, {**TIGHT, "cp": "1"}),
    Problem("mixtral-8x7b", "h100-sxm", 16, 64, TIGHT),
    Problem("mixtral-8x7b", "a100-80g-sxm", 32, 128, {**TIGHT, "cp": "1"}),
    Problem("qwen3-30b-a3b", "atlas-800t-a2", 32, 128, {**TIGHT, "cp": "1"}),
    Problem("llama-3.1-70b", "atlas-800t-a2", 32, 128, {**TIGHT, "cp": "1"}),
    Problem("deepseek-v2-lite", "h100-sxm", 8, 64, TIGHT),
    Problem("qwen2.5-72b", "h200", 32, 128, {**TIGHT, "cp": "1"}),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=len(PROBLEMS))
    parser.add_argument("--trials", default="200,1000")
    parser.add_argument("--methods", default="auto,tpe,nsga2,random")
    parser.add_argument(
        "--largest", type=int, default=1500, help="problems with more strategies that fit are left out, and said"
    )
    parser.add_argument(
        "--fine", action="store_true", help="regret of the fine moves against all moves of all strategies"
    )
    options = parser.parse_args()
    if options.fine:
        return fine_moves(options.problems, int(options.trials.split(",")[0]))
    trials = [int(t) for t in options.trials.split(",")]
    ways = [(m, t) for m in options.methods.split(",") for t in (trials if m != "auto" else [0])]
    header = " ".join(f"{f'{m} {t}':>12}" for m, t in ways)
    print(f"{'problem':44} {'fit':>5} {'best s':>8} {header}")
    found: list[list[float]] = []
    for problem in PROBLEMS[: options.problems]:
        request = request_of(problem)
        optimum, fitting = optimum_s(request, options.largest)
        name = f"{problem.model} {problem.devices} x {problem.hardware} B{problem.global_batch}"
        if optimum is None:
            print(f"{name:44} {fitting:5d} too many to replay")
            continue
        regrets = [regret(dataclasses.replace(request, method=m, trials=t or None), optimum) for m, t in ways]
        found.append(regrets)
        print(f"{name:44} {fitting:5d} {optimum:8.3f} " + " ".join(f"{100 * r:11.2f}%" for r in regrets), flush=True)
    if found:
        for label, figure in (("mean", np.mean), ("worst", np.max)):
            print(f"{label:59} " + " ".join(f"{100 * figure(column):11.2f}%" for column in zip(*found, strict=True)))
    return 0


def request_of(problem: Problem) -> SearchRequest:
    blank = dict.fromkeys(field.name for field in dataclasses.fields(CaseOptions))
    given = {"model": problem.model, "hardware": problem.hardware, "global_batch": problem.global_batch,
             "seq_length": 4096, "precision": "bf16"}  # fmt: skip
    loaded = load_case(CaseOptions(**{**blank, **given}))  # type: ignore[arg-type]
    return SearchRequest(
        case=loaded.case,
        devices=(problem.devices,),
        backend=loaded.backend,
        axes=Axes.of(problem.axes),
        top=1,
        seed=0,
        rank_by="predicted",
    )


def optimum_s(request: SearchRequest, largest: int) -> tuple[float | None, int]:
    """The fastest replayed step of all strategies that fit (None where there are too many), and how many fit."""
    best, fitting = np.inf, 0
    parts = []
    for batch in chunks(standard_space, request, WalkCounts()):
        parts.append(batch.take(evaluate(request.case, batch).feasible))
        fitting += len(parts[-1])
    if fitting > largest:
        return None, fitting
    for part in parts:
        for at in range(0, len(part), 256):
            seconds = simulated_step_s(request.case, part.take(slice(at, at + 256)))
            if len(seconds):
                best = min(best, float(np.nanmin(seconds)))
    return best, fitting


def regret(request: SearchRequest, optimum: float) -> float:
    result = run_search(request)
    assert result.ranking is not None, "a problem in which something fits"
    return float(result.ranking.candidates.step_s[0]) / optimum - 1.0


# ------------------------------------------------------------------------------------------------ the fine moves


def fine_moves(problems: int, trials: int) -> int:
    """Best score that the screen, a study around it and the sweep find by the closed form, against the sweep of everything."""
    print(f"{'problem':44} {'bases':>6} {'best s':>8} {'screen':>9} {f'study {trials}':>9} {'sweep':>9}")
    found = []
    for problem in FINE[:problems]:
        request = dataclasses.replace(request_of(problem), method="auto", trials=trials, top=20)
        everything, screened, study, swept = fine_scores(request)
        name = f"{problem.model} {problem.devices} x {problem.hardware} B{problem.global_batch}"
        regrets = [score / everything.best - 1.0 for score in (screened, study, swept)]
        found.append(regrets)
        figures = " ".join(f"{100 * r:8.2f}%" for r in regrets)
        print(f"{name:44} {everything.bases:6d} {everything.best:8.3f} {figures}", flush=True)
    for label, figure in (("mean", np.mean), ("worst", np.max)):
        print(f"{label:60} " + " ".join(f"{100 * figure(column):8.2f}%" for column in zip(*found, strict=True)))
    return 0


@dataclass(frozen=True, slots=True)
class Everything:
    """The optimum of the fine space, and how many bases it has."""

    best: float
    bases: int


def fine_scores(request: SearchRequest) -> tuple[Everything, float, float, float]:
    """(optimum, best of the screen, with a study, with the sweep)."""
    twin = Twin(evaluate=evaluate, price=price, bounds=bounds, space=standard_space, valid=rules_allow)
    shortlist = screen(request, twin).shortlist
    assert shortlist is not None
    pool = Candidates.concatenate([shortlist.groups, shortlist.overall, shortlist.front])
    origins = origins_around(pool, shortlist.almost)
    around = Candidates.concatenate([origins, shortlist.front])
    swept = sweep_around(request, around, pool, twin, 36)
    study = refine_around(request, origins, shortlist.front, twin, None, None)
    blank = dataclasses.replace(request, keep_oversized=True)
    space = StrategyBatch.concatenate(list(chunks(standard_space, blank, WalkCounts())))
    zero = np.zeros(len(space))
    every = Candidates(space, zero, zero, zero == 0.0, zero)
    all_moves = sweep_around(request, every, pool, twin, 1)
    screened = best_score(pool)
    bases = base_variants(space, request.workload.global_batch, free_moves(request.axes))
    everything = Everything(min(screened, best_score(all_moves.candidates)), len(bases))
    return (
        everything,
        screened,
        min(screened, best_score(study.candidates)),
        min(screened, best_score(swept.candidates)),
    )


def best_score(candidates: Candidates | None) -> float:
    return np.inf if candidates is None else float(np.min(candidates.score, initial=np.inf, where=candidates.feasible))


if __name__ == "__main__":
    sys.exit(main())

"""One piece of an event-level sweep: every strategy replayed under the same draws, counted in bins that can be added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autodeploy.replay.scenarios import Factors, scenario_step_s
from cost_models.case import Case
from cost_models.strategies import F64, StrategyBatch

BIN = math.log(1.002)  # bins of step time are 0.2% wide, so a quantile is right within 0.1%


def replay_part(case: Case, strategies: Mapping[str, StrategyBatch], asked: Mapping[str, Any]) -> dict[str, Any]:
    """``asked``: ``first``, ``draws``, ``seed`` and a range for each factor. Draws do not depend on how they are cut."""
    factors = draw(asked)
    times = np.stack([scenario_step_s(case, batch, factors) for batch in strategies.values()])  # [strategies, N]
    first = np.argmin(times, axis=0)
    return {
        "draws": len(factors),
        "strategies": {
            name: _counted(times[i], int((first == i).sum())) for i, name in enumerate(strategies)
        },
    }  # fmt: skip


def draw(asked: Mapping[str, Any]) -> Factors:
    """Uniform factors of draws ``first`` .. ``first + draws``: each piece has a stream of its own."""
    chance = np.random.default_rng([int(asked["seed"]), int(asked["first"])])
    names = ("compute", "imbalance", "intra_bandwidth", "inter_bandwidth")
    count = int(asked["draws"])
    return Factors(**{name: chance.uniform(float(asked[name][0]), float(asked[name][1]), count) for name in names})


def _counted(seconds: F64, wins: int) -> dict[str, Any]:
    bins, counts = np.unique(np.floor(np.log(seconds) / BIN).astype(np.int64), return_counts=True)
    return {
        "sum_s": float(seconds.sum()), "min_s": float(seconds.min()), "max_s": float(seconds.max()), "wins": wins,
        "bins": {str(b): int(c) for b, c in zip(bins, counts, strict=True)},
    }  # fmt: skip


def added_up(parts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Pieces of one case as figures per strategy: draws, mean, 5th, 50th and 95th percentile, share of draws it wins."""
    totals: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, found in part["strategies"].items():
            total = totals.setdefault(name, {"draws": 0, "sum_s": 0.0, "wins": 0, "bins": {}})
            total["draws"] += part["draws"]
            total["sum_s"] += found["sum_s"]
            total["wins"] += found["wins"]
            for b, count in found["bins"].items():
                total["bins"][int(b)] = total["bins"].get(int(b), 0) + count
    return {
        name: {
            "draws": total["draws"],
            "mean_s": total["sum_s"] / total["draws"],
            **{f"p{q}_s": _quantile(total["bins"], q / 100) for q in (5, 50, 95)},
            "fastest_frac": total["wins"] / total["draws"],
        }
        for name, total in totals.items()
    }


def _quantile(bins: Mapping[int, int], share: float) -> float:
    order: Sequence[int] = sorted(bins)
    counts = np.cumsum([bins[b] for b in order])
    at = order[int(np.searchsorted(counts, share * counts[-1]))]
    return math.exp((at + 0.5) * BIN)

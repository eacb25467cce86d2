"""What is found around the screen's best, or by a study: strategies to rank beside them."""

from __future__ import annotations

from dataclasses import dataclass

from autodeploy.search.candidates import Candidates


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    """``candidates``: what was found, in closed-form prices; of a study everything that it holds, from earlier runs and other
    workers too. ``trials``: of a study; of a sweep the strategies that it weighed."""

    candidates: Candidates | None
    trials: int
    seconds: float
    timed_out: bool = False
    interrupted: bool = False
    settled: bool = False  # stopped because the bound says that nothing unseen can be better


NOTHING = Refined(None, 0, 0.0)

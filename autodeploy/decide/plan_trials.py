"""Which few measurements are worth their cards before the job starts: runs of strategies, and microbenchmarks.

Axes: N rows, C causes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autodeploy.decide.belief import Belief, believe
from autodeploy.decide.draws import draw_step_s
from autodeploy.decide.ranking import Decision
from autodeploy.decide.trials import Outlook, knowledge_gradient, next_run, outlook_of
from cost_models.strategies import F64, Bool

START_S = 600.0  # of a job: containers, communicators, checkpoints, the first compilation; ten minutes
STEPS = 30  # of a trial: warm-up cut, enough for a mean to a fraction of a percent
MICRO_S = 600.0  # of a microbenchmark: what scripts/measure.py takes on one node
MICRO_SD = 0.05  # of log(cost in the step / cost in isolation): what an isolated measurement leaves open
NORMAL = 1000.0  # degrees of a t that is as good as normal
LEAST_SHARE = 0.01  # of a step: a cause below it is not worth a microbenchmark
# Cause -> what measures it, and the axes whose product is the cards that it takes.
MICROBENCHMARKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ep_comm": ("all-to-all over the expert group (nccl-tests alltoall_perf, or hccl_test)", ("ep",)),
    "tp_comm": ("all-gather and reduce-scatter over the tensor group (nccl-tests)", ("tp",)),
    "dp_comm": ("reduce-scatter and all-gather over the data group (nccl-tests)", ("dp",)),
    "cp_comm": ("send and receive around the context ring (nccl-tests sendrecv_perf)", ("cp",)),
    "experts": ("grouped GEMM at the model's widths (scripts/measure.py)", ()),
    "gemm": ("GEMMs of the model's shapes (scripts/measure.py)", ()),
    "attention": ("attention forward and backward (scripts/measure.py)", ()),
    "memory_bound": ("memory-bound passes (scripts/measure.py)", ()),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement: of ``row``, or of ``cause`` in isolation. Gains are expected falls in the regret of the choice after it,
    as a share of the job and (where the job's tokens are known) in card-hours."""

    row: int | None
    cause: str | None
    what: str
    against: int | None  # the row that it is settled against
    gain_frac: float
    gain_device_hours: float | None
    cost_device_hours: float

    @property
    def net_device_hours(self) -> float | None:
        return None if self.gain_device_hours is None else self.gain_device_hours - self.cost_device_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """``regret_frac``: how far the row that would be run now is expected to be behind the fastest."""

    runs: tuple[Trial, ...]
    microbenchmarks: tuple[Trial, ...]
    choice: int
    regret_frac: float


def plan_trials(decision: Decision, devices: F64, job_steps: float | None, count: int, measured: Bool) -> TrialPlan:
    """``count`` runs, each chosen as if those before it had come out as expected; then the microbenchmarks that promise more
    than they cost. ``measured`` [N]: rows of which a run is at hand."""
    question = decision.question
    likely = decision.fit_probability >= question.fit_probability
    pool = np.flatnonzero(likely if likely.any() else np.ones(len(likely), dtype=bool))
    belief = believe(question.model, question.rows.take(pool), question.evidence)
    outlook = outlook_of(belief)
    order = np.argsort(outlook.mean, kind="stable").tolist()
    hours = (
        None if job_steps is None else float(np.exp(outlook.mean.min()) * job_steps * devices[pool[order[0]]] / 3600.0)
    )
    done = [int(i) for i in np.flatnonzero(measured[pool])]
    runs: list[Trial] = []
    now = outlook
    while len(runs) < count and len(done) < len(pool):
        row = next_run(now, question.model.noise_sd, order, done)
        variance = float(now.covariance[row, row] + question.model.noise_sd**2)
        gain = float(knowledge_gradient(now, now.covariance[None, row], np.array([variance]))[0])
        cost = (START_S + STEPS * float(np.exp(now.mean[row]))) * float(devices[pool[row]]) / 3600.0
        against = next(i for i in [*order, row] if i != row or len(pool) == 1)
        runs.append(
            Trial(
                row=int(pool[row]), cause=None, what="short run", against=int(pool[against]), gain_frac=gain,
                gain_device_hours=None if hours is None else gain * hours, cost_device_hours=cost,
            )
        )  # fmt: skip
        now = now.without(now.covariance[row].copy(), variance)
        done.append(row)
    micro = _microbenchmarks(belief, outlook, hours)
    choice = int(decision.order[0])
    regret = _expected_regret(belief, int(np.flatnonzero(pool == choice)[0]), question.seed)
    return TrialPlan(runs=tuple(runs), microbenchmarks=micro, choice=choice, regret_frac=regret)


def _microbenchmarks(belief: Belief, outlook: Outlook, hours: float | None) -> tuple[Trial, ...]:
    """Those that promise something, most first."""
    from autodeploy.decide.rows import SIZES

    found = []
    for c, cause in enumerate(belief.rows.causes):
        if cause not in MICROBENCHMARKS or belief.rows.shares[:, c].max() < LEAST_SHARE:
            continue
        what, axes = MICROBENCHMARKS[cause]
        column = belief.scale * (belief.design @ belief.covariance[:, c])
        variance = belief.scale * float(belief.covariance[c, c]) + MICRO_SD**2
        gain = float(knowledge_gradient(outlook, column[None], np.array([variance]))[0])
        cards = max(
            float(2 ** max((belief.rows.levels[:, SIZES.index(axis)].max() for axis in axes), default=0.0)), 1.0
        )
        found.append(
            Trial(
                row=None, cause=cause, what=f"{what}, {cards:.0f} cards", against=None, gain_frac=gain,
                gain_device_hours=None if hours is None else gain * hours, cost_device_hours=MICRO_S * cards / 3600.0,
            )
        )  # fmt: skip
    return tuple(sorted((one for one in found if one.gain_frac > 1e-4), key=lambda one: -one.gain_frac))


def _expected_regret(belief: Belief, choice: int, seed: int) -> float:
    """From normal draws: the mean of a ratio to the least of many t-distributed times is all tail. On measured problems of
    stacks not seen before it says 8% where 5% was lost."""
    draws_s = draw_step_s(replace(belief, degrees=NORMAL), seed)
    return float(np.mean(draws_s[:, choice] / draws_s.min(axis=1)) - 1.0)


def worth(plan: Sequence[Trial]) -> list[Trial]:
    """Those whose expected gain is above their cost; all with a gain where the job's length is not known."""
    return [one for one in plan if one.gain_frac > 0 and (one.net_device_hours is None or one.net_device_hours > 0)]

"""The probability that a strategy fits: a probit in log(predicted peak / usable memory).

log(measured peak / predicted) is taken as normal, with a shift and a standard deviation that belong to the stack: 13% over
two A100 programs whose buffers nobody lists, 0.4% where the memory model is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autodeploy.decide import priors
from autodeploy.decide.normal import normal_cdf, normal_middles, normal_quantile
from cost_models.records import record
from cost_models.strategies import F64

LEAST_SD = 0.004  # no memory model of ours is known to be better


@record
class MemoryModel:
    """log(measured peak / predicted) ~ N(shift, sd^2). ``growth``: the same of a run over its first step, mean and sd."""

    shift: float = priors.MEMORY_SHIFT
    sd: float = priors.MEMORY_SD
    growth: float = 0.0
    growth_sd: float = 0.0
    source: str = "prior"

    def fit_probability(self, usage: F64) -> F64:
        """P(the whole run stays within the usable memory), [N]; ``usage`` is predicted over usable."""
        return self._probability(usage, self.shift + self.growth, np.hypot(self.sd, self.growth_sd))

    def first_step_probability(self, usage: F64) -> F64:
        """P(the first step does), [N]: dying there costs minutes, dying at step 10,000 days."""
        return self._probability(usage, self.shift, self.sd)

    def draw_fits(self, usage: F64, draws: int, seed: int) -> F64:
        """1 where the row fits in that draw, [D, N]: the error of the memory model is common to all rows."""
        error = self.shift + self.growth + np.hypot(self.sd, self.growth_sd) * _shuffled_middles(seed, draws)
        return (np.log(usage)[None, :] + error[:, None] <= 0).astype(float)

    @staticmethod
    def _probability(usage: F64, shift: float, sd: float) -> F64:
        return normal_cdf(-(np.log(usage) + shift) / max(sd, LEAST_SD))

    def usage_at(self, probability: float) -> float:
        """Predicted peak over usable memory up to which a strategy fits with that probability."""
        z = float(normal_quantile(probability))
        return float(np.exp(-(self.shift + self.growth) - z * max(float(np.hypot(self.sd, self.growth_sd)), LEAST_SD)))

    def over_a_run(self) -> MemoryModel:
        """The same for a dropless mixture of experts: its hottest card and its allocator grow after the first step."""
        return MemoryModel(
            shift=self.shift, sd=self.sd, growth=priors.DROPLESS_GROWTH, growth_sd=priors.DROPLESS_GROWTH_SD,
            source=self.source,
        )  # fmt: skip


@lru_cache(maxsize=4)
def _shuffled_middles(seed: int, draws: int) -> F64:
    """One normal a draw; not to be written to."""
    return normal_middles(draws)[np.random.default_rng([seed, 1]).permutation(draws)]


@record(kw_only=False, eq=False)
class MemoryData:
    """What measured runs tell, by source. ``log_ratio``: of measured peaks; ``log_usage``, ``died``: of verdicts."""

    log_ratio: F64
    log_usage: F64
    died: F64

    def __len__(self) -> int:
        return len(self.log_ratio) + len(self.died)


def fit_memory(data: Sequence[MemoryData], source: str) -> MemoryModel:
    """Shift and sd of the likeliest normal: density of the measured peaks, probability of the verdicts. The prior counts as
    ``PRIOR_RUNS`` peaks, so that three runs do not make a memory model exact."""
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    ratio = np.concatenate([one.log_ratio for one in data])
    usage = np.concatenate([one.log_usage for one in data])
    died = np.concatenate([one.died for one in data]).astype(bool)

    def objective(x: F64) -> float:
        shift, sd = x[0], float(np.exp(x[1]))
        peaks = np.sum(0.5 * ((ratio - shift) / sd) ** 2 + x[1])
        z = (usage + shift) / sd
        verdicts = -np.sum(log_ndtr(np.where(died, z, -z)))
        return float(peaks + verdicts + PRIOR_RUNS * (x[1] + 0.5 * (priors.MEMORY_SD / sd) ** 2))

    found = minimize(objective, [0.0, np.log(0.05)], method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-4})
    return MemoryModel(shift=float(found.x[0]), sd=max(float(np.exp(found.x[1])), LEAST_SD), source=source)


PRIOR_RUNS = 0.02


def memory_document(models: Mapping[str, MemoryModel]) -> dict[str, Any]:
    return {name: {"shift": one.shift, "sd": one.sd, "source": one.source} for name, one in models.items()}

"""How far a prediction is to be trusted: the share of error that nine of ten measured runs of its kind stay within.

The table ``accuracy/bands.json`` (written by ``scripts/error_bands.py``) holds the errors of the published runs, priced as
a user would type them. A band is the 0.9 quantile of the nearest group, pulled towards that of the wider groups around it
where few families of runs stand behind it: log q = (n log q_group + K log q_wider) / (n + K), n families, group by group
from coarse to fine. In a group a family of m runs weighs m^0.75: its runs are not independent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import numpy as np

from autodeploy.report.likeness import LEVELS, Likeness

NOMINAL = 0.9
PULL = 3.0  # K, in families
ROWS_POWER = 0.75
LEAST = 0.005  # no band is narrower than the noise of a measurement
SCHEMA = "autodeploy.bands/1"


@dataclass(frozen=True, slots=True)
class Family:
    """The errors of runs of one family that are alike. ``time`` and ``memory``: absolute fractions."""

    name: str
    like: Likeness
    time: tuple[float, ...]
    memory: tuple[float, ...]

    def errors(self, quantity: str) -> tuple[float, ...]:
        return self.time if quantity == "time" else self.memory


@dataclass(frozen=True, slots=True)
class Band:
    """``frac``: nine of ten like runs are off by less. ``group``: whose errors these are."""

    frac: float
    group: str
    runs: int
    families: int


def band_of(
    like: Likeness, quantity: str = "time", *, without: str = "", table: Sequence[Family] | None = None
) -> Band:
    """The band of a case; ``without``: the family of runs that must have no say (a run's own)."""
    return _shipped_band(like, quantity, without) if table is None else _band(like, quantity, without, table)


@lru_cache(maxsize=1024)
def _shipped_band(like: Likeness, quantity: str, without: str) -> Band:
    return _band(like, quantity, without, shipped_table())


def _band(like: Likeness, quantity: str, without: str, families: Sequence[Family]) -> Band:
    found: Band | None = None
    for level, names in enumerate(LEVELS):
        group = like.at(level)
        near = [f for f in families if f.like.at(level) == group and f.name != without and f.errors(quantity)]
        if not near:
            break
        own = weighted_quantile([f.errors(quantity) for f in near])
        count = len({f.name for f in near})
        frac = own if found is None else _pulled(own, count, found.frac)
        runs = sum(len(f.errors(quantity)) for f in near)
        text = ", ".join(group) if names else "all measured runs: none is like this case"
        found = Band(max(frac, LEAST), text, runs, count)
    if found is None:
        return Band(1.0, "nothing was measured", 0, 0)
    return found


def _pulled(own: float, families: int, wider: float) -> float:
    logs = families * math.log(max(own, LEAST)) + PULL * math.log(max(wider, LEAST))
    return math.exp(logs / (families + PULL))


def weighted_quantile(groups: Iterable[Sequence[float]], share: float = NOMINAL) -> float:
    """The error that ``share`` of the weight stays within; a group of m errors weighs m^ROWS_POWER in all."""
    lists = [np.asarray(errors, dtype=np.float64) for errors in groups]
    errors = np.concatenate(lists)
    weights = np.concatenate([np.full(len(e), len(e) ** (ROWS_POWER - 1.0)) for e in lists])
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) / weights.sum()
    place = min(int(np.searchsorted(reached, share - 1e-12)), len(errors) - 1)
    return float(errors[order[place]])


@cache
def shipped_table() -> tuple[Family, ...]:
    file = resources.files("autodeploy") / "accuracy" / "bands.json"
    return read_table(file.read_text(encoding="utf-8")) if file.is_file() else ()


def read_table(text: str) -> tuple[Family, ...]:
    return tuple(
        Family(row[0], Likeness(*row[1]), tuple(row[2]), tuple(row[3])) for row in json.loads(text)["families"]
    )


def write_table(families: Sequence[Family]) -> str:
    """One line a family, so that a difference reads well."""
    rows = ",\n".join(json.dumps([f.name, list(f.like.at(-1)), list(f.time), list(f.memory)]) for f in families)
    return f'{{"schema": "{SCHEMA}", "written_by": "scripts/error_bands.py", "families": [\n{rows}\n]}}\n'

"""How far a prediction is to be trusted: the share of error that nine of ten measured runs of its kind stay within.

The table ``accuracy/bands.json`` holds the errors of the published runs, priced as a user would type them, and
``group_bands.json`` the bands that follow from it (``scripts/error_bands.py`` writes both). A user's own cluster is a source
that the table has never seen, and the errors of one source lean one way: what counts is how many sources stand behind a
group. A band is the upper quantile of the nearest group, pulled towards that of the wider groups around it where few sources
do: log q = (n log q_group + K log q_wider) / (n + K), n sources,
group by group from coarse to fine. In a group m like runs of a family weigh m^0.75, and a source of weight W weighs
W^0.5 in all. The quantile is taken at SHARE, above the nominal one, so that nine of ten rows of a source lie inside when
the whole source is left out; scripts/error_bands.py prints how that holds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from autodeploy.report.likeness import LEVELS, Likeness
from cost_models.records import record

SHARE = 0.92  # for a nominal 0.9 over rows of new sources: a quantile of few sources falls short of its own share
PULL = 3.0  # K, in sources
ROWS_POWER = 0.75
SOURCE_POWER = 0.5
LEAST = 0.005  # no band is narrower than the noise of a measurement
SCHEMA = "autodeploy.bands/1"


class Family(NamedTuple):
    """The errors of runs of one family that are alike. ``time`` and ``memory``: absolute fractions."""

    name: str
    like: Likeness
    time: Sequence[float]
    memory: Sequence[float]

    @property
    def source(self) -> str:
        """What stands before the first slash of the name."""
        return self.name.split("/")[0]

    def errors(self, quantity: str) -> Sequence[float]:
        return self.time if quantity == "time" else self.memory


@record(kw_only=False)
class Band:
    """``frac``: nine of ten like runs are off by less. ``group``: whose errors these are, of how many runs and sources."""

    frac: float
    group: str
    runs: int
    sources: int


NOTHING = Band(1.0, "nothing was measured", 0, 0)


def band_of(
    like: Likeness, quantity: str = "time", *, without: str = "", table: Sequence[Family] | None = None
) -> Band:
    """The band of a case; ``without``: the family, or the whole source, of runs that must have no say (a run's own)."""
    return _shipped_band(like, quantity, without) if table is None else _band(like, quantity, without, table)


@lru_cache(maxsize=1024)
def _shipped_band(like: Likeness, quantity: str, without: str) -> Band:
    return _band(like, quantity, without, shipped_table()) if without else _looked_up(like, quantity)


def _looked_up(like: Likeness, quantity: str) -> Band:
    """The band of the finest group that runs were measured in."""
    known = _shipped_bands()
    for level in range(len(LEVELS) - 1, -1, -1):
        group = like.at(level)
        figures = known.get((quantity, "|".join(group)))
        if figures is not None:
            return Band(figures[0], _shown(group), *figures[1:])
    return NOTHING


def _band(like: Likeness, quantity: str, without: str, families: Sequence[Family], levels: int = len(LEVELS)) -> Band:
    """By the first ``levels`` of the groups."""
    found: Band | None = None
    near = [f for f in families if f.errors(quantity) and (not without or without not in (f.name, f.source))]
    for level, names in enumerate(LEVELS[:levels]):
        group = like.at(level)
        if names:  # a level's groups lie within those of the level before
            near = [f for f in near if f.like.at(level) == group]
        if not near:
            break
        by_source: dict[str, list[Sequence[float]]] = {}
        for f in near:
            by_source.setdefault(f.source, []).append(f.errors(quantity))
        own, count = weighted_quantile(by_source.values()), len(by_source)
        frac = own if found is None else _pulled(own, count, found.frac)
        runs = sum(len(f.errors(quantity)) for f in near)
        found = Band(max(frac, LEAST), _shown(group), runs, count)
    return found or NOTHING


def _shown(group: Sequence[str]) -> str:
    return ", ".join(group) or "all measured runs: none is like this case"


def _pulled(own: float, sources: int, wider: float) -> float:
    logs = sources * math.log(max(own, LEAST)) + PULL * math.log(max(wider, LEAST))
    return math.exp(logs / (sources + PULL))


def weighted_quantile(sources: Iterable[Sequence[Sequence[float]]], share: float = SHARE) -> float:
    """The error that ``share`` of the weight stays within. A source is a list of lists of like errors: a list of m weighs
    m^ROWS_POWER, and a source whose lists weigh W weighs W^SOURCE_POWER in all."""
    errors: list[float] = []
    weights: list[float] = []
    for lists in sources:
        whole = sum(len(like) ** ROWS_POWER for like in lists)
        for like in lists:
            errors += like
            weights += [len(like) ** (ROWS_POWER - 1.0) * whole ** (SOURCE_POWER - 1.0)] * len(like)
    values, weight = np.array(errors, dtype=np.float64), np.array(weights)
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) / weight.sum()
    place = min(int(np.searchsorted(reached, share - 1e-12)), len(values) - 1)
    return float(values[order[place]])


ACCURACY = Path(__file__).parents[1] / "accuracy"


@cache
def shipped_table() -> tuple[Family, ...]:
    file = ACCURACY / "bands.json"
    return read_table(file.read_text(encoding="utf-8")) if file.is_file() else ()


Figures = tuple[float, int, int]  # of a band: frac, runs, sources


@cache
def _shipped_bands() -> dict[tuple[str, str], Figures]:
    """What ``group_bands`` makes of the table, worked out when it was written."""
    rows = json.loads((ACCURACY / "group_bands.json").read_text(encoding="utf-8"))
    return {(quantity, group): (frac, runs, sources) for quantity, group, frac, runs, sources in rows}


def group_bands(families: Sequence[Family]) -> dict[tuple[str, str], Figures]:
    """By quantity and group (its words between bars), of every group that runs were measured in."""
    found: dict[tuple[str, str], Figures] = {}
    for quantity in ("time", "memory"):
        for like in dict.fromkeys(f.like for f in families if f.errors(quantity)):
            for level in range(len(LEVELS)):
                key = quantity, "|".join(like.at(level))
                if key not in found:
                    band = _band(like, quantity, "", families, levels=level + 1)
                    found[key] = band.frac, band.runs, band.sources
    return found


def write_group_bands(families: Sequence[Family]) -> str:
    """One line a group."""
    rows = ",\n".join(json.dumps([*key, *figures]) for key, figures in group_bands(families).items())
    return f"[\n{rows}\n]\n"


def read_table(text: str) -> tuple[Family, ...]:
    return tuple(
        [Family(name, Likeness(*like), time, memory) for name, like, time, memory in json.loads(text)["families"]]
    )


def write_table(families: Sequence[Family]) -> str:
    """One line a family, so that a difference reads well."""
    rows = ",\n".join(json.dumps([f.name, list(f.like.at(-1)), list(f.time), list(f.memory)]) for f in families)
    return f'{{"schema": "{SCHEMA}", "written_by": "scripts/error_bands.py", "families": [\n{rows}\n]}}\n'

"""What the Python API returns: frozen values with the figures that are asked for most, and the whole JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from autodeploy.errors import InputError

if TYPE_CHECKING:
    import pandas


def frame(rows: list[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a table, nested values as ``time_s.bubble``. InputError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas()", "pandas", "installed", "pip install pandas") from None
    return pandas.json_normalize([dict(row) for row in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One priced strategy. ``values``: every key of its JSON entry (docs/search.md)."""

    strategy: str
    devices: int
    step_time_s: float
    tokens_per_s_per_device: float
    mfu: float  # of 1
    bubble_frac: float
    peak_memory_gib: float
    fits: bool
    binds: str
    time_s: Mapping[str, float]  # by cause; sums to step_time_s
    memory_gib: Mapping[str, float]  # by cause; sums to peak_memory_gib
    values: Mapping[str, Any]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Row:
        return Row(values=entry, **{key.name: entry[key.name] for key in fields(Row) if key.name != "values"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """``document``: what ``autodeploy estimate --format json`` prints."""

    row: Row
    document: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        return cls(row=Row.of(document["estimate"]), document=document)

    @property
    def step_time_s(self) -> float:
        return self.row.step_time_s

    @property
    def peak_memory_gib(self) -> float:
        return self.row.peak_memory_gib

    @property
    def fits(self) -> bool:
        return self.row.fits

    def to_pandas(self) -> pandas.DataFrame:
        """One line per pipeline rank."""
        lists = self.row.values["per_rank"]
        flat = {key: lists[key] for key in ("rank", "busy_s", "peak_memory_gib")}
        flat |= {f"memory_gib.{cause}": sizes for cause, sizes in lists["memory_gib"].items()}
        return frame([dict(zip(flat, line, strict=True)) for line in zip(*flat.values(), strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Estimate):
    """``document``: what ``autodeploy simulate --format json`` prints."""

    @property
    def pipeline_time_s(self) -> float:
        return float(self.row.values["pipeline_time_s"])

    @property
    def ep_masked_frac(self) -> float | None:
        """Share of expert communication that lies under computing; None where there is none."""
        found = self.row.values["ep_masked_frac"]
        return None if found is None else float(found)

    @property
    def lanes(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Busy and idle seconds of every lane, by pipeline rank."""
        return self.row.values["per_rank"]["lanes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """``document``: what ``autodeploy search --format json`` prints."""

    rows: tuple[Row, ...]
    nearest: tuple[Mapping[str, Any], ...]  # what comes closest, where nothing fits
    document: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> SearchResult:
        rows = tuple(Row.of(entry) for entry in document["ranked"])
        return cls(rows=rows, nearest=tuple(document["nearest"]), document=document)

    @property
    def best(self) -> Row | None:
        return self.rows[0] if self.rows else None

    def to_pandas(self) -> pandas.DataFrame:
        """One line per ranked strategy."""
        return frame([row.values for row in self.rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change of one axis. ``gain_s``: seconds saved; None where the strategy cannot be run. ``why_not``: None if better."""

    axis: str
    change: str
    strategy: str
    gain_s: float | None
    fits: bool | None
    better: bool
    why_not: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """``document``: what ``autodeploy explain --format json`` prints."""

    row: Row
    binds: str
    why: str
    steps: tuple[Step, ...]  # those that gain most first
    advice: str
    document: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Explanation:
        names = [key.name for key in fields(Step) if key.name != "values"]
        steps = tuple(Step(values=step, **{name: step[name] for name in names}) for step in document["steps"])
        return cls(
            row=Row.of(document["estimate"]), binds=document["binds"]["what"], why=document["binds"]["why"],
            steps=steps, advice=document["advice"], document=document,
        )  # fmt: skip

    def to_pandas(self) -> pandas.DataFrame:
        """One line per step."""
        return frame([step.values for step in self.steps])

"""The file of a sweep: lists of what varies, options that all cells share; each cell is one command line of ``search``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

import autodeploy
from autodeploy.errors import InputError

LARGEST_FILE_BYTES = 1 << 20
MOST_CELLS = 1_000_000
# Not for a cell: the sweep itself writes, shards and spreads.
OWN = frozenset(
    {"format", "output", "rejected", "report", "export-dir", "storage", "study", "workers", "hardware", "devices"}
)
Value = StrictBool | StrictInt | StrictFloat | StrictStr
Word = StrictStr | StrictInt


Range = tuple[float, float]


class Scenarios(BaseModel):
    """Event-level scenarios: each strategy is replayed under the same draws. Ranges are of uniform factors; 1 is the case as
    priced."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategies: tuple[StrictStr, ...] = Field(min_length=1)
    draws: int = Field(gt=0, le=1_000_000_000)
    seed: int = Field(default=0, ge=0)
    compute: Range = (1.0, 1.0)
    imbalance: Range = (1.0, 1.0)
    intra_bandwidth: Range = (1.0, 1.0)
    inter_bandwidth: Range = (1.0, 1.0)

    @model_validator(mode="after")
    def _ranges(self) -> Scenarios:
        for name in FACTORS:
            low, high = getattr(self, name)
            if not 0 < low <= high < 1e3:
                raise ValueError(f"{name}: two numbers LOW <= HIGH, above 0 and below 1000")
        return self


FACTORS = ("compute", "imbalance", "intra_bandwidth", "inter_bandwidth")


class Matrix(BaseModel):
    """What a sweep varies, outermost first, and the options of every cell. A value may stand for a list of one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[StrictStr, ...] = Field(min_length=1)
    hardware: tuple[StrictStr, ...] = Field(min_length=1)
    devices: tuple[Word, ...] = Field(min_length=1)
    seq_length: tuple[StrictInt, ...] = ()
    global_batch: tuple[StrictInt, ...] = ()
    precision: tuple[StrictStr, ...] = ()
    backend: tuple[StrictStr, ...] = ()
    stack: tuple[StrictStr, ...] = ()
    options: Mapping[str, Value | tuple[Value, ...]] = Field(default_factory=dict)
    scenarios: Scenarios | None = None

    def cells(self, shard: Shard | None = None) -> list[Cell]:
        """Every combination, or the part of it that a shard takes: each n-th, so that shards are alike in size."""
        axes = {name: getattr(self, name) or (None,) for name in VARIED}
        count = 1
        for values in axes.values():
            count *= len(values)
        parts = self._parts()
        if count * len(parts) > MOST_CELLS:
            raise InputError("sweep", count * len(parts), f"at most {MOST_CELLS} cells", "split the file")
        flags = _flags(self.options)
        cells = [
            Cell(
                values=tuple((name, value) for name, value in zip(axes, each, strict=True) if value is not None),
                flags=flags,
                scenarios=part,
            )
            for each in product(*axes.values())
            for part in parts
        ]
        return cells if shard is None else cells[shard.index - 1 :: shard.count]

    def _parts(self) -> list[str]:
        """What a cell replays, as JSON: the scenarios in pieces that a worker does in seconds. "": a search."""
        if self.scenarios is None:
            return [""]
        if self.options:
            raise InputError(
                "options", dict(self.options), "absent where scenarios are replayed", "name the strategies in full"
            )
        asked = self.scenarios.model_dump()
        return [
            json.dumps({**asked, "first": first, "draws": min(PART, self.scenarios.draws - first)})
            for first in range(0, self.scenarios.draws, PART)
        ]


PART = 16384  # draws of one cell
VARIED = ("models", "hardware", "devices", "seq_length", "global_batch", "precision", "backend", "stack")
KEYS = {"models": "model"}


@dataclass(frozen=True, slots=True)
class Shard:
    """Part ``index`` (from 1) of ``count``."""

    index: int
    count: int

    @staticmethod
    def of(text: str) -> Shard:
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise InputError("--shard", text, "i/n with 1 <= i <= n, such as 2/8")
        return Shard(int(index), int(count))


@dataclass(frozen=True, slots=True)
class Cell:
    """One search. ``values``: what the matrix varies; ``flags``: the options that all cells share."""

    values: tuple[tuple[str, str | int], ...]
    flags: tuple[str, ...]
    scenarios: str = ""  # JSON of what is replayed instead of a search

    @property
    def columns(self) -> dict[str, str | int]:
        part = {"first_draw": int(json.loads(self.scenarios)["first"])} if self.scenarios else {}
        return {KEYS.get(name, name): value for name, value in self.values} | part

    @property
    def argv(self) -> list[str]:
        """The command line of ``autodeploy``, without format and output; for scenarios: the word, the case, what to replay."""
        named = {KEYS.get(name, name): value for name, value in self.values}
        if self.scenarios:
            return ["scenarios", json.dumps(named), self.scenarios]
        model = str(named.pop("model"))
        options = [part for name, value in named.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        return ["search", model, *options, *self.flags]

    def fingerprint(self, content: Mapping[str, str]) -> str:
        """Names the question: the command line, the version of the tool, and ``content``, hashes of what model and
        hardware say, by name. A cell with an equal fingerprint is done."""
        told = {
            name: content.get(str(value), "") for name, value in self.columns.items() if name in ("model", "hardware")
        }
        question = {"argv": self.argv, "version": autodeploy.__version__, "content": told}
        return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]


def read_matrix(path: Path) -> Matrix:
    """Reads and checks a sweep file. InputError names the field that is wrong."""
    document = _read_yaml(path)
    if not isinstance(document, dict):
        raise InputError("sweep", str(path), "a mapping with models, hardware and devices")
    listed = {
        key: value if key in ("options", "scenarios") or isinstance(value, list) else [value]
        for key, value in document.items()
    }
    try:
        return Matrix.model_validate(listed)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        allowed = f"{first['msg'].lower()}; fields: {', '.join(Matrix.model_fields)}"
        raise InputError(f"{path}: {place}", first.get("input"), allowed) from error


def _read_yaml(path: Path) -> Any:
    import yaml

    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError("sweep", str(path), f"a file of at most {LARGEST_FILE_BYTES} bytes")
        text = path.read_text(encoding="utf-8-sig")
        if "&" in text and "*" in text:  # aliases may multiply without limit
            raise InputError("sweep", str(path), "YAML without anchors and aliases", "write the lists out")
        return yaml.safe_load(text)
    except OSError as error:
        raise InputError("sweep", str(path), "a file that can be read", str(error.strerror)) from error
    except (UnicodeDecodeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError("sweep", str(path), "a YAML file", " ".join(str(error).split())[:200]) from error


def _flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """``{tp: "1..8", ep-overlap: false, set: [a=1, b=2]}`` as words of a command line."""
    words: list[str] = []
    for name, value in options.items():
        option = name.replace("_", "-").lstrip("-")
        if option in OWN:
            raise InputError(
                f"options.{name}", value, "an option of search that a cell may have", f"the sweep sets --{option}"
            )
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, bool):
                words.append(f"--{option}" if one else f"--no-{option}")
            else:
                words += [f"--{option}", str(one)]
    return tuple(words)

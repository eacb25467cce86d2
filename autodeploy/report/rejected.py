"""``--rejected FILE``: every strategy left out and why, written while the space is walked, in bounded memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from autodeploy.files.write import replacing
from autodeploy.search.candidates import Candidates
from autodeploy.search.request import SearchRequest
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.rules import RULES
from cost_models.strategies import StrategyBatch

GIB = 2**30
HEADER = ("devices", "strategy", "reason", "detail", "short_by_gib")


class RejectedWriter:
    """CSV, or a JSON array where the file ends in .json."""

    def __init__(self, path: Path, request: SearchRequest) -> None:
        self._path, self._cap, self._devices = path, request.hardware.usable_bytes, max(request.devices)
        self._file: IO[str] | None = None
        self._rows = 0
        self._stack = ExitStack()

    def __enter__(self) -> RejectedWriter:
        self._file = self._stack.enter_context(replacing(self._path, "--rejected"))
        if self._is_json:
            self._file.write("[")
        else:
            csv.writer(self._file, lineterminator="\n").writerow(HEADER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        if self._is_json:
            self._file.write("\n]\n")
        self._stack.__exit__(kind, error, trace)

    @property
    def _is_json(self) -> bool:
        return self._path.suffix.lower() == ".json"

    def priced(self, candidates: Candidates) -> None:
        """Strategies that do not fit."""
        misses = candidates.take(~candidates.feasible)
        for i in range(len(misses)):
            short = (float(misses.reserved_bytes[i]) - self._cap) / GIB
            self._write(
                _text(misses.batch, i), int(misses.batch.devices[i]), "does-not-fit", f"short by {short:.2f} GiB", short
            )

    def rules(self, counts: Mapping[str, int]) -> None:
        """One row for each rule: how much of the space it excludes."""
        texts = {rule.name: f"{rule.text}; {rule.remedy}" for rule in RULES}
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            self._write("*", self._devices, name, f"{count} excluded: {texts.get(name, '')}", None)

    def _write(self, strategy: str, devices: int, reason: str, detail: str, short: float | None) -> None:
        assert self._file is not None
        row: tuple[Any, ...] = (devices, strategy, reason, detail, short)
        if self._is_json:
            self._file.write(
                ("," if self._rows else "") + "\n" + json.dumps(dict(zip(HEADER, row, strict=True)), allow_nan=False)
            )
        else:
            cells = ["" if value is None else value for value in row[:-1]] + ["" if short is None else f"{short:.3f}"]
            csv.writer(self._file, lineterminator="\n").writerow(cells)
        self._rows += 1


def _text(batch: StrategyBatch, i: int) -> str:
    return str(batch_to_strategy(batch, i))

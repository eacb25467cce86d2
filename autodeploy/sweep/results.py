"""The results of a sweep as JSON lines on disk: appended under a lock, whole lines only, read back to go on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from autodeploy.errors import InputError


class ResultFile:
    """Records by fingerprint. Without a path they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.cut_bytes = 0  # of a last line that a kill or a full disk had torn
        self.records: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        with _locked(path) as file:
            whole = 0
            for number, line in enumerate(file, start=1):
                record = _record(line) if line.endswith(b"\n") else None
                if record is None:
                    rest = file.read()
                    if rest.strip():
                        raise InputError("--output", f"{path}:{number}", "JSON lines of a sweep", "give another file")
                    self.cut_bytes = len(line) + len(rest)
                    break
                whole += len(line)
                self.records[record["fingerprint"]] = record
            if self.cut_bytes:
                file.truncate(whole)

    def append(self, record: Mapping[str, Any]) -> None:
        """One line, on disk before this returns."""
        self.records[record["fingerprint"]] = dict(record)
        if self.path is None:
            return
        line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        with _locked(self.path) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError as error:  # a full disk: what was there before stays whole
                file.truncate(end)
                raise InputError("--output", str(self.path), "a file that can grow", str(error.strerror)) from error


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("fingerprint"), str) else None


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    try:
        file = path.open("r+b" if path.exists() else "w+b", buffering=0)
    except OSError as error:
        raise InputError("--output", str(path), "a file that can be written", str(error.strerror)) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file  # type: ignore[misc]

"""Outputs are written beside their place and renamed: a full disk, an error or a kill leaves the old file or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from autodeploy.errors import InputError

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def write_text(path: Path, text: str, option: str = "--output") -> None:
    """Writes ``text`` as UTF-8, whole or not at all. Devices and pipes are written as they are."""
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            return
        _replace(path.resolve(), text.encode("utf-8"))
    except OSError as error:
        remedy = "the disk is full: the old file is kept" if error.errno in FULL_DISK else error.strerror or ""
        raise InputError(option, str(path), "a file that can be written", remedy) from None


@contextmanager
def replacing(path: Path, option: str = "--output") -> Iterator[IO[str]]:
    """A stream whose text takes the place of ``path`` when the block ends without an error."""
    path = path.resolve()
    special = path.exists() and not path.is_file()
    scratch = path if special else path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        with scratch.open("w", encoding="utf-8", newline="") as stream:
            yield stream
            stream.flush()
        if not special:
            os.replace(scratch, path)
    except OSError as error:
        remedy = "the disk is full: the old file is kept" if error.errno in FULL_DISK else error.strerror or ""
        raise InputError(option, str(path), "a file that can be written", remedy) from None
    finally:
        if not special:
            with suppress(OSError):
                scratch.unlink()


def _replace(path: Path, data: bytes) -> None:
    """A scratch file in the same folder, flushed to disk, takes the place and the permissions of the old one."""
    scratch = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            os.chmod(scratch, path.stat().st_mode & 0o7777)
        os.replace(scratch, path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise

"""A file's bytes or text, bounded in size; and what any reader of file contents may raise, as one line.

Devices are refused; a pipe (``<(...)``) is read up to the limit. A byte-order mark and Windows line ends are read away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from autodeploy.errors import InputError
from cost_models.errors import ConfigError

LARGEST_TEXT_BYTES = (
    64 * 2**20
)  # logs and tables of measurements have megabytes; weights passed by mistake have gigabytes


@cache
def broken() -> tuple[type[Exception], ...]:
    """Whatever a reader of broken contents raises; its modules are imported only when something is raised."""
    import csv
    import struct
    import zipfile
    import zlib

    return (
        ValueError, OSError, EOFError, KeyError, IndexError, TypeError, AttributeError, RecursionError, MemoryError,
        zipfile.BadZipFile, zlib.error, csv.Error, struct.error, NotImplementedError, ArithmeticError,
    )  # fmt: skip


@contextmanager
def guarded(name: str | Path, allowed: str, remedy: str = "") -> Iterator[None]:
    """Turns whatever reading broken contents raises into one line that names the file and what should be there.

    InputError and ConfigError pass: they already say it, and better.
    """
    try:
        yield
    except ConfigError:
        raise
    except broken() as error:
        raise InputError(str(name), _told(error), allowed, remedy) from None


def _told(error: BaseException) -> str:
    """The first line of an error, without the hint to numpy's loader that runs code."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "too large for the memory"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return f"nothing named {error.args[0]!r}" if error.args else "a missing name"
    text = (str(error) or type(error).__name__).splitlines()[0]
    return "not a plain numpy file" if "pickle" in text else text[:160]


def check_regular(path: Path, allowed: str) -> None:
    """Refuses what is absent, a folder, or a device that never ends."""
    with guarded(path, allowed):
        if not path.exists():
            raise InputError(str(path), "no such file", f"a readable file that exists: {allowed}")
        if path.is_dir():
            raise InputError(str(path), "a folder", allowed)
        if path.is_block_device() or path.is_char_device() or path.is_socket():
            raise InputError(str(path), "a device", allowed)


def read_bytes(path: Path, allowed: str = "a readable file", limit_bytes: int = LARGEST_TEXT_BYTES) -> bytes:
    """The file's bytes, at most ``limit_bytes``."""
    check_regular(path, allowed)
    with guarded(path, allowed):
        if path.is_file() and path.stat().st_size > limit_bytes:
            raise _too_large(path, path.stat().st_size, limit_bytes)
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise _too_large(path, len(data), limit_bytes)
    return data


def _too_large(path: Path, size: int, limit_bytes: int) -> InputError:
    allowed = f"a text file under {limit_bytes / 2**20:.0f} MiB"
    return InputError(str(path), f"{size / 2**20:.0f} MiB", allowed, "weights are not needed")


def read_text(path: Path, allowed: str = "a text file in UTF-8", limit_bytes: int = LARGEST_TEXT_BYTES) -> str:
    """The file's text: UTF-8 with or without a byte-order mark, line ends as they come; refuses empty and binary files."""
    data = read_bytes(path, allowed, limit_bytes)
    if not data.strip():
        raise InputError(str(path), "empty file", allowed)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # as Windows' shell redirects
        with guarded(path, allowed):
            return data.decode("utf-16")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(str(path), "binary data", "UTF-8 text", f"give {allowed}")
    return text

"""Document or sample lengths from a file: text, CSV, npy, npz or a Megatron ``.idx``."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from autodeploy.balance.data.megatron_idx import read_idx_lengths
from autodeploy.errors import InputError
from autodeploy.files import guarded, load_arrays, read_text

LARGEST_BYTES = 2**30
COLUMNS = ("length", "lengths", "tokens", "num_tokens")  # looked for in CSV headers and npz names, in this order


def _read_text(path: Path, column: str) -> np.ndarray:
    words = read_text(path, "lengths, one a line", LARGEST_BYTES).split()
    return _numbers(words, path)


def _read_csv(path: Path, column: str) -> np.ndarray:
    text = read_text(path, "a CSV of lengths", LARGEST_BYTES)
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    if not rows:
        return np.empty(0)
    header = [cell.strip() for cell in rows[0]]
    if len(header) == 1 and not column and _is_number(header[0]):
        return _numbers([row[0] for row in rows], path)
    index = header.index(_pick(header, column, path))
    return _numbers([row[index] if index < len(row) else "" for row in rows[1:]], path)


def _read_npy(path: Path, column: str) -> np.ndarray:
    return next(iter(load_arrays(path, "a numpy array of lengths").values()))


def _read_npz(path: Path, column: str) -> np.ndarray:
    arrays = load_arrays(path, "an npz of lengths")
    return arrays[_pick(list(arrays), column, path)]


def _read_idx(path: Path, column: str) -> np.ndarray:
    return read_idx_lengths(path)


FORMATS: dict[str, Callable[[Path, str], np.ndarray]] = {
    "text": _read_text,
    "csv": _read_csv,
    "npy": _read_npy,
    "npz": _read_npz,
    "idx": _read_idx,
}


def read_lengths(path: Path, input_format: str = "", column: str = "") -> np.ndarray:
    """Lengths in tokens, int64 [D], in file order. The format is guessed from the suffix, ``text`` where unknown."""
    if not path.is_file():
        raise InputError("lengths file", str(path), "a file that exists")
    chosen = input_format or (path.suffix[1:].lower() if path.suffix[1:].lower() in FORMATS else "text")
    if chosen not in FORMATS:
        raise InputError("--input-format", input_format, f"one of {', '.join(FORMATS)}")
    with guarded(path, f"a readable {chosen} file", "name it by --input-format"):
        return check_lengths(FORMATS[chosen](path, column))


def check_lengths(values: np.ndarray) -> np.ndarray:
    """The lengths as int64 [D], or an error that names the first bad one: NaN, below 1, fractional, none at all."""
    values = np.asarray(values)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InputError("lengths", f"{values.dtype} of shape {values.shape}", "a list of whole numbers")
    if values.size == 0:
        raise InputError("lengths", [], "at least one length", "the batch is empty")
    ok = np.isfinite(values) & (values >= 1) & (values == np.floor(values)) & (values < 2**53)
    if not ok.all():
        first = int(np.argmin(ok))
        raise InputError(f"lengths[{first}]", values[first].item(), "a whole number of tokens >= 1")
    return values.astype(np.int64)


def split_overlong(lengths: np.ndarray, sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut what is longer than a sequence into pieces: (length of each piece [D'], its document [D']). No token lost."""
    pieces = -(-lengths // sequence_length)
    source = np.repeat(np.arange(lengths.size), pieces)
    result = np.full(source.size, sequence_length, dtype=np.int64)
    result[np.cumsum(pieces) - 1] = lengths - (pieces - 1) * sequence_length
    return result, source


def check_fits(lengths: np.ndarray, sequence_length: int) -> None:
    too_long = lengths > sequence_length
    if too_long.any():
        first = int(np.argmax(too_long))
        raise InputError(
            f"lengths[{first}]",
            int(lengths[first]),
            f"<= sequence length {sequence_length} ({int(too_long.sum())} of {lengths.size} are longer)",
            "raise --seq-length, or cut them with --overlong split",
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(words: list[str], path: Path) -> np.ndarray:
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        bad = next(i for i, word in enumerate(words) if not _is_number(word))
        raise InputError(f"{path}: value {bad + 1}", words[bad], "a number") from None


def _pick(names: list[str], column: str, path: Path) -> str:
    wanted = [column] if column else [name for name in COLUMNS if name in names] or (names if len(names) == 1 else [])
    if not wanted or wanted[0] not in names:
        raise InputError(f"{path}: column", column or None, f"one of {', '.join(names)}", "name it with --column")
    return wanted[0]

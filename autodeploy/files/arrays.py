"""Numpy files, bounded before they are unpacked; pickled objects are never loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autodeploy.errors import InputError
from autodeploy.files.guard import check_regular, guarded

LARGEST_ARRAY_BYTES = 2 * 2**30


def load_arrays(path: Path, allowed: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an npz file by name; those of an npy file under the name "". InputError says what is wrong."""
    check_regular(path, allowed)
    with guarded(path, allowed):
        if path.stat().st_size == 0:
            raise InputError(str(path), "empty file", allowed)
        _check_size(path, allowed)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    return arrays


def numbers(arrays: dict[str, np.ndarray[Any, Any]], name: str, path: Path, allowed: str) -> np.ndarray[Any, Any]:
    """The array of this name, which must hold numbers; others beside it may hold what they like."""
    if name not in arrays:
        raise InputError(str(path), f"arrays {', '.join(sorted(arrays)) or 'none'}", allowed)
    if arrays[name].dtype.kind not in "biuf":
        raise InputError(str(path), f"{name} holds {arrays[name].dtype}, no numbers", allowed)
    return arrays[name]


def _check_size(path: Path, allowed: str) -> None:
    """What the file says that it unpacks to."""
    import zipfile

    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGEST_ARRAY_BYTES:
        told = f"{size / 2**30:.1f} GiB of arrays"
        raise InputError(str(path), told, f"{allowed}, at most {LARGEST_ARRAY_BYTES // 2**30} GiB")

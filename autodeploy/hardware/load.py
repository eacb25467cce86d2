"""``load_hardware``: a name, an alias or a path becomes a ``HardwareProfile``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from autodeploy.errors import InputError
from autodeploy.hardware.build import build_profile
from autodeploy.hardware.document import plain, read_document
from autodeploy.hardware.library import find_profile
from autodeploy.hardware.network import split_network, with_network
from cost_models.inputs import HardwareProfile


def load_hardware(name_or_path: str | Path) -> HardwareProfile:
    """The profile of a shipped name or alias (with another network: NAME@50Gbps), or of a YAML file.

    Shipped files are trusted (a test validates them all), others go through the schema first. Bad input raises
    InputError: one line with field, value, what is allowed and the remedy.
    """
    if is_path(name_or_path):
        return _load_file(Path(name_or_path))
    name, bandwidth = split_network(str(name_or_path))
    return with_network(_load_shipped(find_profile(name)), bandwidth)


def is_path(name_or_path: str | Path) -> bool:
    """Whether a file is meant, not the name of a shipped profile."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")) or "/" in text:
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long a name, or one with a null: no file can have it
        return False


@lru_cache(maxsize=32)
def _load_shipped(path: Path) -> HardwareProfile:
    document, sha256 = read_document(path)
    return build_profile(plain(document), sha256)


def _load_file(path: Path) -> HardwareProfile:
    if path.is_dir():
        raise InputError("hardware", str(path), "a YAML file", "this is a folder")
    document, sha256 = read_document(path)
    from autodeploy.hardware.schema import validate  # pydantic: only where a user's file needs it

    return build_profile(validate(plain(document)), sha256)

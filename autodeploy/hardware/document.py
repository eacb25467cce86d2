"""A profile file as a plain document: read, inherited, and freed of its sources."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.hardware.library import find_profile, profiles_folder
from autodeploy.shipped import parsed

Document = dict[str, Any]

_MAX_DEPTH = 4  # of `extends`

PROVENANCE_KEYS = frozenset(
    {
        "source",
        "sources",
        "confidence",
        "note",
        "notes",
        "data",
        "rows",
        "derived",
        "median_ape_frac",
        "p90_ape_frac",
        "held_out_median_ape_frac",
        "held_out_p90_ape_frac",
        "held_out_rows",
        "at_bound",
    }
)
"""Keys that say where a number comes from and how good it is. They may stand in any section and are not computed on."""


def parse_yaml(path: Path) -> tuple[Document, str]:
    """The mapping in a YAML file, and the sha256 of its bytes."""
    try:
        return _parsed(path)
    except InputError as error:
        if str(path) in error.field:
            raise InputError("hardware", f"{path}: {error.value}", error.allowed, error.remedy) from None
        raise


def _parsed(path: Path) -> tuple[Document, str]:
    if path.parent == profiles_folder():
        content = path.read_bytes()
        return parsed(content), hashlib.sha256(content).hexdigest()
    from autodeploy import files

    text = files.read_text(path, "a hardware profile in YAML")
    document = files.parse_yaml(text, str(path))
    if not isinstance(document, dict):
        raise InputError(
            f"hardware: {path}", type(document).__name__, "a mapping of sections", "see docs/hardware.md for an example"
        )
    _check_finite(document, "")
    return document, hashlib.sha256(text.encode()).hexdigest()


def _check_finite(node: Any, place: str) -> None:
    """No figure of a profile is infinite, not even one that only says how good another is."""
    if isinstance(node, float) and not math.isfinite(node):
        raise InputError(place, node, "a finite number")
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        _check_finite(value, f"{place}.{key}" if place else str(key))


def read_document(path: Path, depth: int = 0) -> tuple[Document, str]:
    """The file with what it ``extends`` merged in. The hash covers the whole chain."""
    document, sha256 = parse_yaml(path)
    base_name = document.pop("extends", None)
    if base_name is None:
        return document, sha256
    if depth >= _MAX_DEPTH:
        raise InputError("extends", base_name, f"a chain of at most {_MAX_DEPTH} files", "a file extends itself?")
    base, base_sha256 = read_document(_base_path(str(base_name), path.parent), depth + 1)
    base.pop("aliases", None)
    return merge(base, document), hashlib.sha256((sha256 + base_sha256).encode()).hexdigest()


def _base_path(name: str, folder: Path) -> Path:
    beside = folder / name
    return beside if name.endswith((".yaml", ".yml")) and beside.is_file() else find_profile(name)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    """``over`` on top of ``base``, section by section. ``null`` removes a key.

    A sourced value is replaced whole, and so is a curve that says what it was fitted to (``data``).
    """
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif (
            isinstance(value, dict)
            and isinstance(below, dict)
            and not ({"value", "data"} & {*value})
            and "value" not in below
        ):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def plain(node: Any) -> Any:
    """The document without provenance: ``{value: 8, source: ...}`` becomes 8, and provenance keys go."""
    if isinstance(node, dict):
        if "value" in node:
            _check_sourced_value(node)
            return node["value"]
        return {key: plain(value) for key, value in node.items() if key not in PROVENANCE_KEYS}
    return node


def _check_sourced_value(node: Mapping[str, Any]) -> None:
    unknown = [key for key in node if key != "value" and key not in PROVENANCE_KEYS]
    if unknown:
        allowed = "value, source, confidence or note beside a value"
        raise InputError(str(unknown[0]), node[unknown[0]], allowed, "remove it")

"""YAML files that ship with the package. They are trusted: a test reads every one of them through the guards and schemas
that a user's file goes through, so that a run need not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def shipped_yaml(path: Path) -> dict[str, Any]:
    """The mapping in the file."""
    return parsed(path.read_bytes())


def parsed(content: bytes) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(content, Loader=_LOADER)  # noqa: S506  (a safe loader)
    return document

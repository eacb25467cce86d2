"""Reading a user's model file into text, JSON or YAML; what is wrong with it becomes one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autodeploy import files
from autodeploy.errors import InputError

LARGEST_BYTES = 16 * 2**20  # a model description has kilobytes; weights passed by mistake have gigabytes


def read_text(path: Path) -> str:
    """The file's text; refuses what is empty, binary or far too large."""
    return files.read_text(path, "a config.json, model YAML or Megatron arguments", LARGEST_BYTES)


def parse_json(text: str, name: str) -> dict[str, Any]:
    return _mapping(files.parse_json(text, name), name)


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    return _mapping(files.parse_yaml(text, name), name)


def _mapping(document: Any, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InputError(name, type(document).__name__, "a mapping of fields to values")
    return document

"""Reading a user's file into text, JSON or YAML; what is wrong with it becomes one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError

LARGEST_BYTES = 16 * 2**20  # a model description has kilobytes; weights passed by mistake have gigabytes


def read_text(path: Path) -> str:
    """The file's text; refuses what is empty, binary or far too large."""
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise InputError(str(path), f"{size / 2**20:.0f} MiB", "a text file under 16 MiB", "weights are not needed")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(str(path), error.strerror or "unreadable", "a readable file") from None
    if not data.strip():
        raise InputError(str(path), "empty file", "a config.json, model YAML or Megatron arguments")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(str(path), "binary data", "UTF-8 text", "pass the config.json, not the weights")
    return text


def parse_json(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}: {error.msg}"
        raise InputError(name, where, "complete JSON", "the file may be truncated") from None
    except RecursionError:
        raise InputError(name, "nested too deeply", "a config.json") from None
    return _mapping(document, name)


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(text, Loader=loader)  # noqa: S506  (a safe loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(name, where + problem, "valid YAML") from None
    return _mapping(document, name)


def _mapping(document: Any, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InputError(name, type(document).__name__, "a mapping of fields to values")
    return document

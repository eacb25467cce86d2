"""Entries as CSV: one row each; nested values become columns such as ``time_s.bubble``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any


def entries_csv(entries: Iterable[Mapping[str, Any]], common: Mapping[str, Any]) -> str:
    """``common`` columns (model, hardware, ...) come first and repeat on every row."""
    rows = [{**common, **flat(entry)} for entry in entries]
    header = list(dict.fromkeys(key for row in rows for key in row)) or list(common)
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings flattened with dots; lists joined with spaces; None is empty."""
    row: dict[str, Any] = {}
    for key, value in entry.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            row[prefix + key] = " ".join(str(item) for item in value)
        else:
            row[prefix + key] = "" if value is None else value
    return row


def common_columns(document: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("hardware", "backend", "precision", "seq_length", "global_batch", "memory_cap_gib")
    return {"model": document["model"]["name"], **{key: document[key] for key in keys}}

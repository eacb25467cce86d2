"""Item costs from a file: YAML, JSON or CSV.

YAML and JSON: ``options`` (list of names, default [none]), ``mtp_apart_bytes``, ``mtp_embedding_s``,
``mtp_embedding_bytes``, and ``items``: a list of {kind, label, count, forward_s, backward_s, static_bytes,
activation_bytes}; seconds and activation bytes are a number, or a list with one number an option.
CSV: the same names as columns, one row a run; ``backward_s.full`` holds the value under option ``full``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autodeploy.balance.layers.items import SYMBOLS, LayerItems
from autodeploy.errors import InputError
from autodeploy.files import csv_rows, guarded, parse_json, parse_yaml, read_text

MOST_LAYERS = 100_000
LARGEST = 1e18  # bytes or seconds: larger ones overflow further on
PER_OPTION = ("forward_s", "backward_s", "activation_bytes")
TOTALS = ("mtp_apart_bytes", "mtp_embedding_s", "mtp_embedding_bytes")


def read_items(path: Path) -> LayerItems:
    """The items of a cost file."""
    if not path.is_file():
        raise InputError("--costs", str(path), "a file that exists")
    with guarded(path, "item costs in YAML, JSON or CSV"):
        content = _from_csv(path) if path.suffix == ".csv" else _load(path)
        return items_from_mapping(content, str(path))


def items_from_mapping(content: Any, name: str = "costs") -> LayerItems:
    if not isinstance(content, Mapping) or not isinstance(content.get("items"), list) or not content["items"]:
        raise InputError(f"{name}: items", None, "a list of runs: kind, forward_s, backward_s, ...")
    options = tuple(str(option) for option in content.get("options", ["none"]))
    rows = [_checked(row, i, name) for i, row in enumerate(content["items"])]
    count = [row["count"] for row in rows]

    def table(field: str) -> np.ndarray:
        values = [_by_option(row.get(field, 0.0), options, f"{name}: items[{i}].{field}") for i, row in enumerate(rows)]
        return np.repeat(np.array(values), count, axis=0).T

    static = [_number(row.get("static_bytes", 0.0), f"{name}: items[{i}].static_bytes") for i, row in enumerate(rows)]
    apart, embedding_s, embedding_bytes = (_number(content.get(field, 0.0), f"{name}: {field}") for field in TOTALS)
    return LayerItems(
        kinds=tuple(np.repeat([row["kind"] for row in rows], count).tolist()),
        labels=tuple(np.repeat([str(row.get("label") or row["kind"]) for row in rows], count).tolist()),
        forward_s=table("forward_s"),
        backward_s=table("backward_s"),
        activation_bytes=table("activation_bytes"),
        static_bytes=np.repeat(static, count),
        options=options,
        mtp_apart_bytes=apart,
        mtp_embedding_s=embedding_s,
        mtp_embedding_bytes=embedding_bytes,
    )


def _load(path: Path) -> Any:
    text = read_text(path, "item costs in YAML, JSON or CSV")
    return parse_json(text, str(path)) if path.suffix == ".json" else parse_yaml(text, str(path))


def _from_csv(path: Path) -> dict[str, Any]:
    read = csv_rows(read_text(path, "item costs in CSV"), str(path))
    rows: list[dict[str, Any]] = [{k: v for k, v in row.items() if k and v} for row in read]
    names = list(dict.fromkeys(key.split(".", 1)[1] for row in rows for key in row if "." in key))
    for row in rows:
        for field in PER_OPTION:
            default = row.get(field, 0.0)
            row[field] = [default] + [row.pop(f"{field}.{option}", default) for option in names]
    return {"options": ["none", *names], "items": rows}


def _checked(row: Any, index: int, name: str) -> dict[str, Any]:
    known = {"kind", "label", "count", "static_bytes", *PER_OPTION}
    if not isinstance(row, Mapping) or row.get("kind") not in SYMBOLS:
        value = row.get("kind") if isinstance(row, Mapping) else row
        raise InputError(f"{name}: items[{index}].kind", value, f"one of {', '.join(SYMBOLS)}")
    unknown = set(row) - known
    if unknown:
        raise InputError(f"{name}: items[{index}]", min(map(str, unknown)), f"among {', '.join(sorted(known))}")
    count = _number(row.get("count", 1), f"{name}: items[{index}].count")
    if not (1 <= count <= MOST_LAYERS and count % 1 == 0):
        raise InputError(f"{name}: items[{index}].count", row.get("count"), f"a whole number from 1 to {MOST_LAYERS}")
    return {**row, "count": int(count)}


def _by_option(value: Any, options: tuple[str, ...], field: str) -> list[float]:
    values = value if isinstance(value, list) else [value] * len(options)
    if len(values) != len(options):
        raise InputError(field, value, f"a number or {len(options)} of them ({', '.join(options)})")
    return [_number(v, field) for v in values]


def _number(value: Any, field: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, value, "a number") from None
    if isinstance(value, bool) or not 0 <= number <= LARGEST:
        raise InputError(field, value, f"a number from 0 to {LARGEST:.0e}")
    return number

"""Models of published runs by name: ``runs:KEY`` or ``FILE.yaml:KEY`` (a ``models.yaml``), with ``+field`` for what a run's
model has beyond its entry: ``runs:gpt-18.4b+norm_bias+learned_positions=2048``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from cost_models.inputs import LayerKind, ModelSpec

SHIPPED = "runs"
FLAGS = ("norm_bias", "embedding_norm", "tied_embeddings")
COUNTS = ("vocab", "learned_positions", "window_tokens", "alternate_window_tokens")


def is_run_model(text: str) -> bool:
    """Whether MODEL means an entry of a ``models.yaml``."""
    file, colon, key = text.partition(":")
    return bool(colon and key) and (file == SHIPPED or file.endswith((".yaml", ".yml")))


def load_run_model(text: str) -> ModelSpec:
    file, _, rest = text.partition(":")
    key, *added = rest.split("+")
    from autodeploy.models.reference import from_reference

    entries = _entries(str(shipped_file()) if file == SHIPPED else file)
    if key not in entries:
        import difflib

        near = difflib.get_close_matches(key, entries, n=3, cutoff=0.4)
        remedy = f"did you mean {' or '.join(near)}?" if near else ""
        raise InputError("MODEL", text, f"{file}: and one of the {len(entries)} names in that file", remedy)
    return with_changes(from_reference(entries[key]), dict(_change(item, text) for item in added))


def name_of(file: str, key: str, changes: Mapping[str, Any]) -> str:
    """The text that reads back as the entry with its changes."""
    added = (name if value is True else f"{name}={value}" for name, value in sorted(changes.items()))
    return "+".join([f"{file}:{key}", *added])


def shipped_file() -> Path:
    return Path(__file__).parents[1] / "accuracy" / "runs" / "models.yaml"


@lru_cache(maxsize=4)
def _entries(file: str) -> Mapping[str, Mapping[str, Any]]:
    from autodeploy.models.files import parse_yaml, read_text

    return parse_yaml(read_text(Path(file)), file)


def _change(item: str, text: str) -> tuple[str, Any]:
    name, _, value = item.partition("=")
    if name in FLAGS and not value:
        return name, True
    if name in COUNTS and value.isdecimal() and int(value) > 0:
        return name, int(value)
    allowed = f"+ and one of {', '.join(FLAGS)}, or one of {', '.join(COUNTS)} with =NUMBER"
    raise InputError("MODEL", text, allowed, f"{item} is none of them")


def with_changes(model: ModelSpec, changes: Mapping[str, Any]) -> ModelSpec:
    """``model`` with what its entry does not say: fields of ModelSpec, and windows of all or of every second layer."""
    fields = dict(changes)
    window, alternate = fields.pop("window_tokens", 0), fields.pop("alternate_window_tokens", 0)
    if window:
        fields["layers"] = tuple((_windowed(kind, window), count) for kind, count in model.layers)
    elif alternate:
        kinds = [kind for kind, count in model.layers for _ in range(count)]
        fields["layers"] = tuple(
            (_windowed(kind, alternate) if i % 2 == 0 else kind, 1) for i, kind in enumerate(kinds)
        )
    return replace(model, **fields) if fields else model


def _windowed(kind: LayerKind, window: int) -> LayerKind:
    return replace(kind, attention=replace(kind.attention, window_tokens=window)) if kind.attention else kind

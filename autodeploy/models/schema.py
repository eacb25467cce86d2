"""The schema of a user's model YAML. Shipped files skip it (a test checks them all), so that pydantic loads only here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from autodeploy.errors import InputError
from autodeploy.models.document import MODEL_FLAGS, build_model
from autodeploy.models.runs import MOST_LAYERS
from cost_models.inputs import Attention, FeedForward, ModelSpec

Count = Annotated[int, Field(ge=0, le=10**12)]
Positive = Annotated[int, Field(ge=1, le=10**12)]
Layers = Annotated[int, Field(ge=1, le=MOST_LAYERS)]
LAYERS_ALLOWED = f"a number from 1 to {MOST_LAYERS}, or a list of runs such as {{count: 3, feed_forward: dense}}"
TYPES: dict[Any, Any] = {"int": Count, "bool": bool, "str": str}


class _Strict(BaseModel):
    """No unknown fields, and no guessing: the text "8" is not the number 8."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _from_dataclass(source: type) -> type[_Strict]:
    """The same fields as a value type; all optional but the one without which it means nothing."""
    needed = {"query_heads", "width"}
    shape: dict[str, Any] = {
        item.name: (Positive, ...) if item.name in needed else (TYPES[item.type], 0) for item in fields(source)
    }
    return create_model(source.__name__, __base__=_Strict, **shape)


AttentionFile = _from_dataclass(Attention)
FeedForwardFile = _from_dataclass(FeedForward)


class RunFile(_Strict):
    """``count`` equal layers."""

    count: Layers = 1
    attention: str = ""
    feed_forward: str = ""
    norms: Count = 2
    more: list[str] = []
    extra_parameters: Count = 0
    side_elements: Count = 0
    reused_parameters: Count = 0


class GroupFile(_Strict):
    """``blocks`` in order, ``repeat`` times."""

    repeat: Annotated[int, Field(ge=1, le=10_000)] = 1
    blocks: Annotated[list[dict[str, Any]], Field(min_length=1)]


class MtpFile(_Strict):
    """Multi-token prediction: modules on top of the layers, of the last layer's kind unless named."""

    modules: Count = 1
    attention: str = ""
    feed_forward: str = ""
    norms: Count = 2


class ModelFile(_Strict):
    """The file itself."""

    name: str = ""
    source: str = ""
    hidden: Positive
    vocab: Positive
    max_seq_length: Count = 0
    tied_embeddings: bool = False
    norm_bias: bool = False
    learned_positions: Count = 0
    embedding_norm: bool = False
    head_bias: bool = False
    extra_embedding: Annotated[int, Field(ge=-(10**12), le=10**12)] = 0
    extra_head: Annotated[int, Field(ge=-(10**12), le=10**12)] = 0
    norms: Count = 2
    attention: dict[str, Any]
    feed_forward: dict[str, Any] = {}
    layers: Layers | Annotated[list[dict[str, Any]], Field(min_length=1)]
    mtp: dict[str, Any] = {}
    notes: list[str] = []


assert set(MODEL_FLAGS) <= set(ModelFile.model_fields)


def checked_model(document: Mapping[str, Any], default_name: str = "model") -> ModelSpec:
    """A ModelSpec from a mapping as it was read; InputError names field, value, what is allowed and a remedy."""
    _check(ModelFile, document, "")
    _check_halves(document["attention"], "attention", AttentionFile, "query_heads")
    _check_halves(document.get("feed_forward") or {}, "feed_forward", FeedForwardFile, "width")
    if isinstance(document["layers"], list):
        _check_layers(document["layers"])
    if document.get("mtp"):
        _check(MtpFile, document["mtp"], "mtp")
    return build_model({"name": default_name, **{k: v for k, v in document.items() if k != "name" or v}})


def _check_halves(entry: Mapping[str, Any], path: str, shape: type[_Strict], mark: str) -> None:
    """One description, or several under names of the user's own."""
    if mark in entry or (entry and not all(isinstance(value, dict) for value in entry.values())):
        _check(shape, entry, path)
        return
    if path == "attention" and not entry:
        raise InputError(path, dict(entry), "a description with query_heads, or several by name")
    for name, value in entry.items():
        _check(shape, value, f"{path}.{name}")


def _check_layers(layers: list[Any]) -> None:
    total = 0
    for i, entry in enumerate(layers):
        path = f"layers[{i}]"
        if "blocks" not in entry:
            _check(RunFile, entry, path)
            total += entry.get("count", 1)
            continue
        _check(GroupFile, entry, path)
        for j, block in enumerate(entry["blocks"]):
            _check(RunFile, block, f"{path}.blocks[{j}]")
            total += entry.get("repeat", 1) * block.get("count", 1)
    if total > MOST_LAYERS:
        raise InputError("layers", f"{total} in all", f"at most {MOST_LAYERS}")


def _check(shape: type[_Strict], value: Any, path: str) -> None:
    """Raises the first thing that is wrong."""
    try:
        shape.model_validate(value)
    except ValidationError as error:
        raise _as_input_error(error.errors(include_url=False)[0], shape, path) from None


def _as_input_error(detail: Mapping[str, Any], shape: type[_Strict], path: str) -> InputError:
    known = list(shape.model_fields)
    if shape is ModelFile and detail["loc"][0] == "layers" and detail["type"] != "missing":
        return InputError("layers", detail["input"], LAYERS_ALLOWED)
    place = [part for part in detail["loc"] if not str(part).startswith(("constrained", "function", "list[", "int"))]
    name = ".".join([path] * bool(path) + [str(part) for part in place]) or "file"
    if detail["type"] == "extra_forbidden":
        field = str(detail["loc"][-1])
        close = difflib.get_close_matches(field, known, n=1)
        where = f"field of {path}" if path else "field"
        return InputError(where, field, f"one of {', '.join(known)}", f"did you mean {close[0]}?" if close else "")
    if detail["type"] == "missing":
        return InputError(name, None, "given", f"add {place[-1]}: to {path or 'the file'}")
    message = str(detail["msg"]).removeprefix("Input should be ")
    return InputError(name, detail["input"], message)

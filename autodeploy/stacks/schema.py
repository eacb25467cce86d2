"""The schema of a stack's YAML. Shipped files skip it on a run (a test checks them all), so that pydantic loads only here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autodeploy.errors import InputError
from autodeploy.stacks.fields import checked_value, field_named
from cost_models.inputs import PRECISIONS

Word = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SettingFile(_Strict):
    """``source``: text, or a key of the file's ``sources``."""

    value: Any
    source: Word


class WhenFile(_Strict):
    precision: list[Literal[PRECISIONS]] = []  # type: ignore[valid-type]
    kind: list[Literal["dense", "moe"]] = []
    vendor: list[Literal["nvidia", "amd", "ascend"]] = []
    device: list[Word] = []
    architecture: list[Literal["gpt", "llama"]] = []


class RuleFile(_Strict):
    when: WhenFile
    fields: dict[str, SettingFile]


class StackFile(_Strict):
    name: Word
    title: Word
    framework: Word
    releases: Word
    backends: Annotated[list[Word], Field(min_length=1)]
    extends: str = ""
    sources: dict[str, Word] = {}
    fields: dict[str, SettingFile] = {}
    rules: list[RuleFile] = []


def validate(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as it is, if it is a stack; InputError with the first thing that is wrong."""
    try:
        StackFile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InputError(f"stack: {path}", first.get("input"), first["msg"]) from None
    for fields in (document.get("fields", {}), *(rule["fields"] for rule in document.get("rules", []))):
        for name, setting in fields.items():
            checked_value(field_named(name, "stack: field"), setting["value"], "stack:")
    return dict(document)

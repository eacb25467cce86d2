"""The documents of ``autodeploy stacks``: all stacks, or one with every field and its source."""

from __future__ import annotations

from typing import Any

from autodeploy.stacks.fields import stack_fields
from autodeploy.stacks.load import DEFAULTS, load_stack, stack_names
from autodeploy.stacks.stack import Setting

SCHEMA = "autodeploy.stacks/1"
DEFAULT_SOURCE = "default: the stack does not say"


def list_document() -> dict[str, Any]:
    """``autodeploy.stacks/1`` with a row for each shipped stack."""
    defaults = {name: backend for backend, name in DEFAULTS.items()}
    rows = []
    for name in stack_names():
        stack = load_stack(name)
        rows.append(
            {
                "name": name,
                "framework": stack.framework,
                "releases": stack.releases,
                "backends": list(stack.backends),
                "default_of": defaults.get(name),
                "title": stack.title,
            }
        )
    return {"schema": SCHEMA, "stacks": rows}


def stack_document(name: str) -> dict[str, Any]:
    """``autodeploy.stacks/1`` of one stack: every field that there is, with value, source, meaning and what is allowed."""
    stack = load_stack(name)
    fields = []
    for field in stack_fields().values():
        setting = stack.base.get(field.name, Setting(field.default, DEFAULT_SOURCE))
        fields.append(
            {
                "field": field.name,
                "value": setting.value,
                "stated": field.name in stack.base,
                "source": setting.source,
                "meaning": field.meaning,
                "allowed": field.allowed,
            }
        )
    rules = [
        {"when": {key: list(words) for key, words in rule.when.items()}, "field": name, "value": each.value,
         "source": each.source}
        for rule in stack.rules
        for name, each in rule.settings.items()
    ]  # fmt: skip
    return {
        "schema": SCHEMA,
        "name": stack.name,
        "title": stack.title,
        "framework": stack.framework,
        "releases": stack.releases,
        "backends": list(stack.backends),
        "sha256": stack.sha256,
        "fields": fields,
        "rules": rules,
    }

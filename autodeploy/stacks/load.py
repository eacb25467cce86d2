"""``load_stack``: a name or a YAML file becomes a ``Stack``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.shipped import parsed
from autodeploy.stacks.fields import checked_value, field_named
from autodeploy.stacks.stack import Rule, Setting, Stack

FOLDER = Path(__file__).parent
# Today's release of each program: what `--stack` is where it is not given.
DEFAULTS = {
    "megatron": "megatron-core-2026",
    "megatron-bridge": "megatron-bridge-26.06",
    "mindspeed": "mindspeed-llm-2",
    "torchtitan": "torchtitan-2025",
}


@cache
def stack_names() -> tuple[str, ...]:
    """Names of the shipped stacks, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def default_stack(backend: str, machine_backend: str) -> str:
    """Name of the stack of a back end; ``any``, and a back end without one, take that of the machine's."""
    return DEFAULTS.get(backend) or DEFAULTS[machine_backend]


def load_stack(name_or_path: str) -> Stack:
    """A shipped stack by name, or a user's YAML (which may extend a shipped one). InputError in one line."""
    text = name_or_path.strip()
    if text in stack_names():
        return _shipped(text)
    path = Path(text)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        from autodeploy.models.files import parse_yaml, read_text
        from autodeploy.stacks.schema import validate  # pydantic: only where a user's file needs it

        return _built(validate(parse_yaml(read_text(path), str(path))), path.read_bytes())
    import difflib

    near = difflib.get_close_matches(text.lower(), stack_names(), n=3, cutoff=0.5)
    remedy = (
        f"did you mean {' or '.join(near)}?" if near else "`autodeploy stacks` lists them; a YAML file does as well"
    )
    raise InputError("--stack", name_or_path, f"one of {', '.join(stack_names())}", remedy)


@lru_cache(maxsize=64)
def _shipped(name: str) -> Stack:
    content = (FOLDER / f"{name}.yaml").read_bytes()
    return _built(parsed(content), content)


def _built(document: Mapping[str, Any], content: bytes) -> Stack:
    parent = document.get("extends", "")
    if parent and parent not in stack_names():
        raise InputError("stack: extends", parent, f"one of {', '.join(stack_names())}")
    below = _shipped(parent) if parent else None
    sources = document.get("sources", {})
    base = dict(below.base) if below else {}
    rules = list(below.rules) if below else []
    own = _settings(document.get("fields", {}), sources)
    base.update(own)
    if rules and own:  # what a file says plainly wins over every rule of the stack that it extends
        rules.append(Rule({}, own))
    for rule in document.get("rules", []):
        when = {key: tuple(words) for key, words in rule["when"].items() if words}
        rules.append(Rule(when, _settings(rule["fields"], sources)))
    digest = hashlib.sha256(content + (below.sha256.encode() if below else b""))
    return Stack(
        name=document["name"],
        title=document["title"],
        framework=document["framework"],
        releases=str(document["releases"]),
        backends=tuple(document["backends"]),
        base=base,
        rules=tuple(rules),
        sha256=digest.hexdigest(),
    )


def _settings(fields: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Setting]:
    return {
        name: Setting(
            checked_value(field_named(name, "stack: field"), item["value"], "stack:"),
            _source(item["source"], sources),
        )
        for name, item in fields.items()
    }


def _source(text: str, sources: Mapping[str, str]) -> str:
    """``key`` or ``key: more`` with the key of a source written out."""
    key, _, more = text.partition(":")
    return "; ".join(part for part in (sources[key], more.strip()) if part) if key in sources else text

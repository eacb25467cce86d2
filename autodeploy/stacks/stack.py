"""A software stack as a value: what a training program of one release era does, every field with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from autodeploy.errors import InputError
from cost_models.records import record


@record(kw_only=False)
class Setting:
    """One field's value and where it is from."""

    value: Any
    source: str


@record
class Context:
    """What a program's own recipes look at when they choose a setting."""

    precision: str = "bf16"
    kind: str = "dense"  # dense | moe
    vendor: str = "nvidia"
    device: str = ""  # name of the hardware profile
    architecture: str = "llama"  # gpt: LayerNorm and a plain MLP; llama: all others


@record(kw_only=False)
class Rule:
    """``settings`` where every word of ``when`` holds (its key's value is among the words)."""

    when: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Setting]

    def holds(self, context: Context) -> bool:
        return all(getattr(context, key) in words for key, words in self.when.items())


@record
class Stack:
    """``base``: what holds everywhere; ``rules`` come on top in order, the last that holds wins."""

    name: str
    title: str
    framework: str
    releases: str
    backends: tuple[str, ...]
    base: Mapping[str, Setting] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    sha256: str = ""

    def check_backend(self, backend: str) -> None:
        """InputError where the back end is another program than the stack."""
        if backend != "any" and "any" not in self.backends and backend not in self.backends:
            raise InputError(
                "--stack", self.name, f"a release of --backend {backend}", f"it is one of {', '.join(self.backends)}"
            )

    def settings(self, context: Context) -> dict[str, Setting]:
        """What the stack states for a case; a field that it leaves open is not in it."""
        found = dict(self.base)
        for rule in self.rules:
            if rule.holds(context):
                found.update(rule.settings)
        return found

    def values(self, context: Context) -> dict[str, Any]:
        return {name: setting.value for name, setting in self.settings(context).items()}

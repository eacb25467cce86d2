"""What a user's own file says of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autodeploy.strategy.notation import Strategy
from cost_models.inputs import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """None: the file does not say. ``stated``: fields of the stack. ``defaults``: what was taken because the file says
    nothing; ``ignored``: what it says and the twin does not model. Both are told to the user, one line each."""

    source: str
    backend: str
    model: ModelSpec
    strategy: Strategy
    devices: int | None = None
    seq_length: int | None = None
    global_batch: int | None = None
    precision: str | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)
    defaults: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

"""AutoDeploy: the open digital twin for training large language models. The Python API is ``autodeploy.api``."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_API = ("estimate", "explain", "load_hardware", "load_model", "load_stack", "search", "simulate")


def __getattr__(name: str) -> Any:
    """The API's names, imported when they are asked for: ``autodeploy --help`` pays nothing for them."""
    if name in _API:
        from autodeploy import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])

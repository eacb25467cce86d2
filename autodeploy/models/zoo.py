"""The models that ship: one YAML each in ``zoo/``, every one with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.shipped import shipped_yaml
from cost_models.inputs import ModelSpec

FOLDER = Path(__file__).parent / "zoo"


def zoo_names() -> list[str]:
    """Names of the shipped models, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def zoo_name(text: str) -> str | None:
    """The zoo name that ``text`` means, upper and lower case alike; None if there is none."""
    name = text.strip().lower()
    safe = bool(name) and "/" not in name and "\\" not in name and not name.startswith(".")
    return name if safe and (FOLDER / f"{name}.yaml").is_file() else None


def zoo_document(name: str) -> dict[str, Any]:
    """The YAML of a shipped model as a mapping."""
    return shipped_yaml(FOLDER / f"{name}.yaml")


@cache
def zoo_model(name: str) -> ModelSpec:
    """A shipped model by its exact name."""
    from autodeploy.models.document import build_model

    return build_model(zoo_document(name))


def unknown_name(text: str) -> InputError:
    """The error for a MODEL that is neither shipped nor a file: it suggests the closest names."""
    import difflib

    names = zoo_names()
    close = difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.5)
    remedy = f"did you mean {', '.join(close)}?" if close else "`autodeploy models` lists the names"
    return InputError("MODEL", text, "a zoo name, or the path of a config.json, a YAML or Megatron arguments", remedy)

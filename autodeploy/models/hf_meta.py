"""The authority on a Hugging Face architecture: transformers builds it on the meta device, without weights or memory.

Needs the extra ``hf`` (transformers and CPU torch). Two uses: to compare our counts with its modules (``models --check``), and
to read an architecture that we do not know from its modules instead of guessing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError

INSTALL = "pip install 'autodeploy-twin[hf]'"
LAYER = re.compile(r"^(.*?)\.(\d+)\.(.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Shapes of the parameters of one built model, without repeats: those of each decoder layer, and all others."""

    layers: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    ends: tuple[tuple[str, tuple[int, ...]], ...]
    version: str
    config: Any

    @property
    def total(self) -> int:
        return sum(size(shape) for _, shape in self.everything())

    def everything(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        for layer in self.layers:
            yield from layer
        yield from self.ends


def size(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def available() -> bool:
    """Whether the extra is installed; nothing is imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("transformers", "torch"))


def knows(model_type: str) -> bool:
    """Whether the installed transformers has a causal language model of this type."""
    if not available() or not _has_folder(model_type):
        return False
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def _has_folder(model_type: str) -> bool:
    """Whether transformers has code of that name: a look at its folders, which costs no import."""
    spec = importlib.util.find_spec("transformers")
    names = {model_type.replace("-", "_"), model_type.replace("-", "_").removesuffix("_text")}
    if spec is None or spec.origin is None or not all(re.fullmatch(r"\w{1,80}", name) for name in names):
        return False
    models = Path(spec.origin).parent / "models"
    return any((models / name).is_dir() for name in names)


def build(document: Mapping[str, Any]) -> Weights:
    """The weights of the model that a config.json means. InputError where transformers cannot build it."""
    if not available():
        raise InputError("--check", "without transformers", "used with the extra hf", INSTALL)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = document.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        allowed = f"a type that transformers {transformers.__version__} has"
        raise InputError("model_type", model_type, allowed, "code of a repository is never run")
    plain = {k: v for k, v in document.items() if k not in ("auto_map", "quantization_config")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = CONFIG_MAPPING[model_type].from_dict(plain)
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
    except Exception as error:  # whatever its constructor raises on a file that it does not accept
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError("config.json", text, f"what transformers {transformers.__version__} can build") from None
    names = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    return _split(names, transformers.__version__, config)


def _split(names: list[tuple[str, tuple[int, ...]]], version: str, config: Any) -> Weights:
    """The decoder's layers are the numbered modules that hold the most."""
    held: dict[str, int] = {}
    for name, shape in names:
        found = LAYER.match(name)
        if found:
            held[found.group(1)] = held.get(found.group(1), 0) + size(shape)
    stem = max(held, key=lambda key: held[key], default="")
    layers: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    ends: list[tuple[str, tuple[int, ...]]] = []
    for name, shape in names:
        found = LAYER.match(name)
        if found and found.group(1) == stem:
            layers.setdefault(int(found.group(2)), []).append((found.group(3), shape))
        else:
            ends.append((name, shape))
    return Weights(
        layers=tuple(tuple(layers[i]) for i in sorted(layers)), ends=tuple(ends), version=version, config=config
    )

"""MODEL on the command line: a zoo name, a Hugging Face config.json, our YAML, or Megatron arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models import files, zoo
from autodeploy.models.run_models import is_run_model, load_run_model
from cost_models.errors import ConfigError
from cost_models.inputs import ModelSpec


def load_model(name_or_path: str) -> ModelSpec:
    """The model that the argument means. A zoo name wins over a file of the same name.

    ``runs:NAME`` is a model of the published runs.

    A folder stands for the config.json in it. What the parser ignored or guessed is in ``notes``.
    """
    name = zoo.zoo_name(name_or_path)
    if name is not None:
        return zoo.zoo_model(name)
    if is_run_model(name_or_path):
        return load_run_model(name_or_path)
    path = Path(name_or_path)
    if path.is_dir():
        path = path / "config.json"
        if not path.is_file():
            raise InputError("MODEL", name_or_path, "a folder that holds a config.json")
    if not path.is_file():
        raise zoo.unknown_name(name_or_path)
    return load_file(path)


def load_file(path: Path) -> ModelSpec:
    """The model that a file describes; the format follows from suffix and content."""
    text = files.read_text(path)
    try:
        if path.suffix == ".json" or text.lstrip().startswith("{"):
            return _huggingface(files.parse_json(text, str(path)), _title(path))
        if "--num-layers" in text:
            from autodeploy.models.megatron import parse_arguments

            return parse_arguments(text, _title(path))
        return _yaml(files.parse_yaml(text, str(path)), path)
    except InputError as error:
        if str(path) in error.field:
            raise
        raise InputError(f"{path}: {error.field}", error.value, error.allowed, error.remedy) from None
    except ConfigError as error:
        raise InputError(f"{path}: {error.field}", error.value, error.allowed, error.remedy) from None


def _title(path: Path) -> str:
    """A name for a model that states none: the file's, or its folder's for the usual file names."""
    plain = path.stem in ("config", "model", "args", "pretrain")
    return path.resolve().parent.name if plain else path.stem


def _huggingface(document: dict[str, Any], name: str) -> ModelSpec:
    from autodeploy.models.huggingface import parse_config

    return parse_config(document, name)


def _yaml(document: dict[str, Any], path: Path) -> ModelSpec:
    from autodeploy.models.schema import checked_model

    if "hidden" not in document and ("hidden_size" in document or "text_config" in document):
        return _huggingface(document, _title(path))  # a config.json written as YAML
    return checked_model(document, default_name=_title(path))

"""MODEL on the command line: a zoo name, a Hugging Face config.json, our YAML, or Megatron arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.models import zoo
from cost_models.errors import ConfigError
from cost_models.inputs import ModelSpec


def load_model(name_or_path: str, assume: str = "") -> ModelSpec:
    """The model that the argument means. A zoo name wins over a file of the same name.

    ``runs:NAME`` is a model of the published runs. A folder stands for the config.json in it. What the parser ignored or
    guessed is in ``notes``. ``assume``: what an unknown layer word of a config.json is taken for.
    """
    if assume:
        _check_assumed(assume)
    name = zoo.zoo_name(name_or_path)
    if name is not None:
        return zoo.zoo_model(name)
    return _given(name_or_path, assume)


def _given(name_or_path: str, assume: str) -> ModelSpec:
    """A model that does not ship."""
    from autodeploy.models import files, hub
    from autodeploy.models.run_models import is_run_model, load_run_model

    if is_run_model(name_or_path):
        return load_run_model(name_or_path)
    path = Path(name_or_path)
    if path.is_dir():
        path = path / "config.json"
        if not path.is_file():
            raise InputError("MODEL", name_or_path, "a folder that holds a config.json")
    if not path.exists() and hub.is_id(name_or_path):
        document = files.parse_json(hub.config_text(name_or_path), name_or_path)
        return _huggingface(document, name_or_path.rpartition("/")[2], assume)
    if not path.is_file():
        raise zoo.unknown_name(name_or_path)
    return _launched(path) or load_file(path, assume)


def _check_assumed(word: str) -> None:
    from autodeploy.models.hf_words import ASSUMABLE

    if word not in ASSUMABLE:
        raise InputError("--assume", word, f"one of {', '.join(ASSUMABLE)}")


def _launched(path: Path) -> ModelSpec | None:
    """The model of a launch file, with what was taken because the file does not say; None for any other file."""
    from autodeploy.launch import is_launch_file, read_launch

    if not is_launch_file(str(path)):
        return None
    launch = read_launch(str(path))
    return replace(launch.model, notes=(*launch.model.notes, *launch.defaults))


def load_file(path: Path, assume: str = "") -> ModelSpec:
    """The model that a file describes; the format follows from suffix and content."""
    from autodeploy.models import files

    text = files.read_text(path)
    try:
        if path.suffix == ".json" or text.lstrip().startswith("{"):
            return _huggingface(files.parse_json(text, str(path)), _title(path), assume)
        if "--num-layers" in text:
            from autodeploy.models.megatron import parse_arguments

            return parse_arguments(text, _title(path))
        return _yaml(files.parse_yaml(text, str(path)), path, assume)
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


def _huggingface(document: dict[str, Any], name: str, assume: str) -> ModelSpec:
    from autodeploy.models.hf_families import known_type
    from autodeploy.models.huggingface import parse_config

    model_type = document.get("model_type")
    if isinstance(model_type, str) and not assume and not known_type(document):
        from autodeploy.models import hf_meta

        if hf_meta.knows(model_type):  # only with the extra hf
            from autodeploy.models.hf_from_meta import read_meta

            return read_meta(document, name)
    return parse_config(document, name, assume)


def config_document(name_or_path: str) -> dict[str, Any]:
    """The config.json that the argument means, for comparing with transformers."""
    from autodeploy.models import files, hub

    path = Path(name_or_path)
    path = path / "config.json" if path.is_dir() else path
    if path.is_file():
        return files.parse_json(files.read_text(path), str(path))
    if hub.is_id(name_or_path):
        return files.parse_json(hub.config_text(name_or_path), name_or_path)
    raise InputError("--check", name_or_path, "used with a Hugging Face config.json or id")


def _yaml(document: dict[str, Any], path: Path, assume: str) -> ModelSpec:
    from autodeploy.models.schema import checked_model

    if "hidden" not in document and ("hidden_size" in document or "text_config" in document):
        return _huggingface(document, _title(path), assume)  # a config.json written as YAML
    return checked_model(document, default_name=_title(path))

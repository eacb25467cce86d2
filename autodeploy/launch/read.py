"""``read_launch``: a path becomes a ``Launch``; the kind of file follows from what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.files import guarded
from autodeploy.launch.bridge import bridge_arguments, is_bridge
from autodeploy.launch.deepspeed import deepspeed_launch, is_deepspeed
from autodeploy.launch.launch import Launch
from autodeploy.launch.log import is_log, log_arguments
from autodeploy.launch.megatron import launch_of
from autodeploy.launch.program_table import Args
from autodeploy.launch.shell import arguments_of, command_words, read_script, split_words
from autodeploy.launch.torchtitan import is_torchtitan, torchtitan_launch
from autodeploy.models.files import parse_yaml, read_text
from cost_models.errors import ConfigError

BRIDGE_MARKS = ("tensor_model_parallel_size", "micro_batch_size")
MINDSPEED = re.compile(r"HCCL_|_NPU_|NPUS_PER_NODE|ASCEND|mindspeed|torch_npu", re.IGNORECASE)
FSDP2 = re.compile(r"fsdp2|train_fsdp|--training-backend", re.IGNORECASE)


def is_launch_file(name_or_path: str) -> bool:
    """Whether the argument is a file that starts a run, not one that describes a model alone."""
    path = Path(name_or_path)
    if not path.is_file():
        return False
    try:
        text = read_text(path)
    except InputError:
        return False
    return _kind(text, path) != ""


def read_launch(name_or_path: str, *, vocab: int = 0) -> Launch:
    """InputError in one line, with the file's name, where it cannot be read."""
    path = Path(name_or_path)
    text = read_text(path)
    try:
        with guarded(path, "a file that starts a run"):
            return _read(text, path, vocab)
    except (InputError, ConfigError) as error:
        if str(path) in str(error.field):
            raise
        raise InputError(f"{path}: {error.field}", error.value, error.allowed, error.remedy) from None


def launch_of_text(text: str, name: str) -> Launch:
    """The same of a text in hand; ``name``: of the file it would be."""
    return _read(text, Path(name), 0)


def _kind(text: str, path: Path) -> str:
    """``log``, ``script``, ``torchtitan``, ``bridge``; "" where the file starts no run."""
    if path.suffix == ".toml":
        return "torchtitan" if is_torchtitan(_toml(text, path)) else ""
    if path.suffix in (".yaml", ".yml"):
        return "bridge" if all(mark in text for mark in BRIDGE_MARKS) and is_bridge(_yaml(text, path)) else ""
    if is_log(text):
        return "log"
    if path.suffix == ".json":
        return "deepspeed-json" if '"zero_optimization"' in text else ""
    if is_deepspeed(text):
        return "deepspeed"
    sizes = "--tensor-model-parallel-size" in text or "--micro-batch-size" in text
    return "script" if sizes or _starts_a_run(text, path) else ""


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), "not TOML", "a torchtitan job config", str(error)) from None


def _yaml(text: str, path: Path) -> Any:
    return parse_yaml(text, str(path))


def _starts_a_run(text: str, path: Path) -> bool:
    runs = "torchrun" in text or "pretrain_" in text or "torch.distributed" in text
    return runs and ("--num-layers" in text or path.suffix == ".sh")


def _read(text: str, path: Path, vocab: int) -> Launch:
    kind = _kind(text, path)
    mindspeed = bool(MINDSPEED.search(text))
    if kind == "log":
        return launch_of(log_arguments(text), path.stem, mindspeed=mindspeed, vocab=vocab)
    if kind == "deepspeed-json":
        allowed = "the script that launches with it: a DeepSpeed JSON says no model"
        raise InputError("MODEL", str(path), allowed, "name the script, or the model with STRATEGY such as TP1/ZeRO3")
    if kind == "deepspeed":
        return deepspeed_launch(text, path.parent, path.stem)
    if kind == "torchtitan":
        return torchtitan_launch(_toml(text, path), path.stem)
    if kind == "bridge":
        return launch_of(bridge_arguments(_yaml(text, path)), path.stem, backend="megatron-bridge", vocab=vocab)
    if kind == "script":
        return launch_of(script_arguments(text, path.parent), path.stem, mindspeed=mindspeed, vocab=vocab)
    raise InputError("MODEL", str(path), "a launch script, a training log, a Megatron-Bridge YAML or a torchtitan TOML")


def script_arguments(text: str, folder: Path | None) -> Args:
    """Arguments of the program that the script starts."""
    script = read_script(text, folder)
    found = arguments_of(command_words(script))
    if "num-layers" not in found or "hidden-size" not in found:  # arguments that no single command of the file holds
        words = [word for part in (*script.variables.values(), *script.commands) for word in split_words(part)]
        found = arguments_of([word for word in words if word not in ("|", "&", "&&", "||")])
    if "num-layers" not in found and "encoder-num-layers" not in found:
        what = "a script that starts FSDP2 from a YAML" if FSDP2.search(text) else "a script without --num-layers"
        remedy = "name the model's config.json as MODEL, and give STRATEGY, such as TP1/ZeRO3"
        raise InputError("MODEL", what, "a script whose arguments say the model", remedy)
    return found

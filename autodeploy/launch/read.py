"""``read_launch``: a path becomes a ``Launch``; the kind of file follows from what it says."""

from __future__ import annotations

from pathlib import Path

from autodeploy.errors import InputError
from autodeploy.launch.launch import Launch
from autodeploy.launch.log import is_log, log_arguments
from autodeploy.launch.megatron import launch_of
from autodeploy.launch.program_table import Args
from autodeploy.launch.shell import arguments_of, command_words, read_script, split_words
from autodeploy.models.files import read_text
from cost_models.errors import ConfigError

MEGATRON_ARGUMENTS = ("--num-layers", "--tensor-model-parallel-size", "--hidden-size", "--micro-batch-size")


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
        return _read(text, path, vocab)
    except (InputError, ConfigError) as error:
        if str(path) in str(error.field):
            raise
        raise InputError(f"{path}: {error.field}", error.value, error.allowed, error.remedy) from None


def _kind(text: str, path: Path) -> str:
    if is_log(text):
        return "log"
    if path.suffix not in (".json", ".yaml", ".yml", ".toml") and (
        "--tensor-model-parallel-size" in text or "--micro-batch-size" in text or _starts_a_run(text)
    ):
        return "script"
    return ""


def _starts_a_run(text: str) -> bool:
    return "--num-layers" in text and ("torchrun" in text or "pretrain_" in text or "torch.distributed" in text)


def _read(text: str, path: Path, vocab: int) -> Launch:
    kind = _kind(text, path)
    title = path.stem
    if kind == "log":
        return launch_of(log_arguments(text), title, vocab=vocab)
    if kind == "script":
        return launch_of(script_arguments(text, path.parent), title, vocab=vocab)
    raise InputError("MODEL", str(path), "a launch script, a file of arguments or a training log")


def script_arguments(text: str, folder: Path | None) -> Args:
    """Arguments of the program that the script starts."""
    script = read_script(text, folder)
    found = arguments_of(command_words(script))
    if "num-layers" not in found:  # arguments that no single command of the file holds
        words = [word for part in (*script.variables.values(), *script.commands) for word in split_words(part)]
        found = arguments_of([word for word in words if word not in ("|", "&", "&&", "||")])
    if "num-layers" not in found and any(name in text for name in ("fsdp2", "--training-backend")):
        raise InputError(
            "MODEL", "a script that starts FSDP2 from a YAML", "its YAML, or a script with model arguments"
        )
    return found

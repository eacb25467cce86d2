"""A DeepSpeed JSON and the script that launches with it -> model, batch, strategy, stack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from autodeploy.errors import InputError
from autodeploy.files import parse_json, read_text
from autodeploy.launch.launch import Launch
from autodeploy.launch.program_table import Args, value
from autodeploy.launch.shell import arguments_of, command_words, read_script
from autodeploy.strategy.notation import Strategy

_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(\{.*?\n\})\s*\n\1\s*$", re.DOTALL | re.MULTILINE)
_LAUNCHER = re.compile(r"^\s*deepspeed\s", re.MULTILINE)


def is_deepspeed(text: str) -> bool:
    return bool(_LAUNCHER.search(text)) or "--deepspeed" in text and "--tensor-model-parallel-size" not in text


def is_deepspeed_json(document: Any) -> bool:
    return isinstance(document, dict) and "zero_optimization" in document


def deepspeed_launch(text: str, folder: Path | None, source: str) -> Launch:
    args = arguments_of(command_words(read_script(text, folder)))
    document = _document(text, args, folder)
    strategy, defaults = _strategy(document, args)
    devices = _devices(args)
    per_step = strategy.micro_batch * _count(document, "gradient_accumulation_steps", 1)
    batch = _count(document, "train_batch_size", per_step * devices // strategy.tp if devices else 0)
    return Launch(
        source=source, backend="any", model=_model(args), strategy=strategy, devices=devices,
        seq_length=_sequence(args), global_batch=batch or None,
        precision="fp16" if _on(document, "fp16") else "bf16",
        stated=_stated(document), defaults=tuple(defaults),
    )  # fmt: skip


def _document(text: str, args: Args, folder: Path | None) -> dict[str, Any]:
    found = _HEREDOC.search(text)
    if found:
        return _parsed(found.group(2), "the JSON in the script")
    name = value(args, "deepspeed-config") or value(args, "deepspeed")
    path = folder / name if folder is not None and name else None
    if path is None or not path.is_file():
        raise InputError("--deepspeed", name, "the JSON beside the script", "put it there, or name it by its path")
    return _parsed(read_text(path, "a DeepSpeed configuration"), str(path))


def _parsed(text: str, where: str) -> dict[str, Any]:
    found = parse_json(text, where)
    if not isinstance(found, dict):
        raise InputError(where, type(found).__name__, "a DeepSpeed configuration: one object")
    return found


def _model(args: Args) -> Any:
    from autodeploy.models import load_model

    name = value(args, "model-name-or-path") or value(args, "model")
    if name is None:
        allowed = "a script that names its model: --model_name_or_path NAME or a folder with a config.json"
        raise InputError(
            "MODEL", "a DeepSpeed launch without a model", allowed, "give the model as MODEL, and STRATEGY"
        )
    return load_model(name if Path(name).exists() else name.rsplit("/", 1)[-1].lower())


def _devices(args: Args) -> int | None:
    nodes, cards = value(args, "num-nodes") or "1", value(args, "num-gpus")
    return int(nodes) * int(cards) if cards and cards.isdecimal() and nodes.isdecimal() else None


def _sequence(args: Args) -> int | None:
    for name in ("max-seq-length", "max-seq-len", "seq-length", "model-max-length", "block-size"):
        text = value(args, name)
        if text and text.isdecimal():
            return int(text)
    return None


def _strategy(document: dict[str, Any], args: Args) -> tuple[Strategy, list[str]]:
    zero = document.get("zero_optimization", {})
    stage = zero.get("stage", 0) if isinstance(zero, dict) else 0
    offload = zero.get("offload_optimizer") if isinstance(zero, dict) else None
    share = float(offload.get("ratio", 1.0)) if isinstance(offload, dict) and offload.get("device") != "none" else 0.0
    tensor = document.get("tensor_parallel", {})
    tp = tensor.get("autotp_size", 1) if isinstance(tensor, dict) else 1
    defaults = [] if "train_micro_batch_size_per_gpu" in document else ["micro-batch 1"]
    checkpointed = value(args, "gradient-checkpointing")
    full = "gradient-checkpointing" in args and (checkpointed or "true").lower() != "false"
    strategy = Strategy(
        tp=tp, micro_batch=_count(document, "train_micro_batch_size_per_gpu", 1), zero_stage=stage,
        sequence_parallel=False, recompute=("full",) if full else (), offload_frac=share,
    )  # fmt: skip
    return strategy, defaults


def _count(document: dict[str, Any], key: str, default: int) -> int:
    found = document.get(key, default)
    if isinstance(found, str) and found == "auto":
        return default
    if isinstance(found, bool) or not isinstance(found, int):
        raise InputError(f"DeepSpeed {key}", found, "a whole number")
    return found


def _on(document: dict[str, Any], key: str) -> bool:
    found = document.get(key)
    return isinstance(found, dict) and found.get("enabled") in (True, "auto")


def _stated(document: dict[str, Any]) -> dict[str, Any]:
    zero = document.get("zero_optimization", {})
    stated: dict[str, Any] = {"overlap_grad_reduce": bool(zero.get("overlap_comm", zero.get("stage") == 3))}
    if document.get("communication_data_type") in ("fp32", "bf16", "fp16"):
        stated["grad_reduce_dtype"] = document["communication_data_type"]
    return stated

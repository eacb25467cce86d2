"""DeepSpeed with a Hugging Face model: a script that writes its JSON and launches with it."""

from __future__ import annotations

import json
from typing import Any

from autodeploy.errors import InputError
from autodeploy.export.flags import header
from autodeploy.export.job import Job, require_written

GRADIENTS = frozenset({"grad_reduce_dtype", "overlap_grad_reduce"})
COMMUNICATION = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}


def deepspeed(job: Job) -> str:
    require_written(job, GRADIENTS, "DeepSpeed")
    _refuse(job)
    settings = json.dumps(_settings(job), indent=2)
    lines = ["#!/usr/bin/env bash", *(f"# {line}" for line in header(job, "DeepSpeed")), "set -euo pipefail", ""]
    lines += ["cat > ds_config.json <<'JSON'", settings, "JSON", ""]
    full = " --gradient_checkpointing true" if job.strategy.recompute else ""
    per_node = min(job.hardware.cards_per_node, job.devices)
    lines += [
        f"deepspeed --num_nodes {job.nodes} --num_gpus {per_node} train.py \\",
        f"    --deepspeed ds_config.json --model_name_or_path {job.model.name} \\",
        f"    --max_seq_length {job.seq_length}{full}" + ' "$@"',
        "",
    ]
    return "\n".join(lines)


def _refuse(job: Job) -> None:
    """What no JSON of DeepSpeed expresses."""
    s = job.strategy
    reasons = (
        (s.pp > 1, "pp", s.pp, "1: DeepSpeed's pipeline is written in the model's code (PipelineModule)"),
        (s.cp > 1, "cp", s.cp, "1: Ulysses is wired into the attention in code, not in the JSON"),
        (s.ep > 1, "ep", s.ep, "1: DeepSpeed's experts are layers of the model's code (deepspeed.moe)"),
        (s.etp > 1, "etp", s.etp, "1"),
        (bool(s.sequence_parallel), "sequence_parallel", True, "off: AutoTP has none; write noSP"),
        (s.tp > 1 and s.zero_stage == 3, "zero_stage", 3, "at most 2 with TP: AutoTP excludes ZeRO-3"),
        (s.recompute_kind == "selective", "recompute", s.recompute, "none or full: gradient checkpointing is by layer"),
        (s.recompute_layers > 0, "recompute_layers", s.recompute_layers, "0: all layers are checkpointed"),
        (s.swap_frac > 0, "swap_frac", s.swap_frac, "0"),
        (s.offload_frac > 0 and s.zero_stage == 0, "offload_frac", s.offload_frac, "0 without ZeRO"),
        (0 < s.offload_frac < 1 and s.zero_stage < 3, "offload_frac", s.offload_frac, "0 or 1: a share needs ZeRO-3"),
    )
    for broken, name, value, allowed in reasons:
        if broken:
            raise InputError(f"strategy.{name}", value, allowed, "choose another strategy, or another target")
    if job.precision not in ("bf16", "fp16"):
        raise InputError("--precision", job.precision, "bf16 or fp16")


def _settings(job: Job) -> dict[str, Any]:
    s = job.strategy
    zero: dict[str, Any] = {"stage": s.zero_stage, "overlap_comm": bool(job.values["overlap_grad_reduce"])}
    if s.offload_frac:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True, "ratio": s.offload_frac}
    found: dict[str, Any] = {
        "train_batch_size": job.global_batch,
        "train_micro_batch_size_per_gpu": s.micro_batch,
        "gradient_accumulation_steps": job.micro_batches,
        job.precision: {"enabled": True},
        "zero_optimization": zero,
    }
    reduced = job.values["grad_reduce_dtype"]
    if reduced in COMMUNICATION:
        found["communication_data_type"] = COMMUNICATION[reduced]
    if s.tp > 1:
        found["tensor_parallel"] = {"autotp_size": s.tp}
    return found

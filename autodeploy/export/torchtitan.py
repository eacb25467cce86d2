"""torchtitan: a TOML of its job config."""

from __future__ import annotations

from typing import Any

from autodeploy.errors import InputError
from autodeploy.export.flags import WIDTH, header
from autodeploy.export.job import Job, require_written
from autodeploy.export.layouts import stage_layers
from autodeploy.launch.torchtitan_names import BACKENDS, CONVERTERS, FLAVORS, RESHARD, op_wise
from autodeploy.strategy.notation import RECOMPUTE_MODULES
from cost_models.schedules import SCHEDULE_TABLE

WRITTEN = frozenset({"compiled", "overlap_tp", "fp8_gather", "fused_optimizer", "mtp", "routing"})
Table = dict[str, tuple[Any, str]]  # key -> (value, comment)


def torchtitan(job: Job) -> str:
    require_written(job, WRITTEN, "torchtitan")
    tables = {
        "model": _model(job), "training": _training(job), "parallelism": _parallelism(job),
        "activation_checkpoint": _checkpoint(job), "compile": _compile(job), "optimizer": _optimizer(job),
        "quantize.linear.float8": _float8(job), "debug": _debug(job),
    }  # fmt: skip
    lines = [f"# {line}" for line in header(job, "torchtitan (job config TOML of 2025)")]
    per_node = min(job.hardware.cards_per_node, job.devices)
    lines.append(
        f"# torchrun --nproc-per-node {per_node} --nnodes {job.nodes} -m torchtitan.train --job.config_file FILE"
    )
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]", *(_line(key, value, note) for key, (value, note) in table.items())]
    return "\n".join([*lines, ""])


def _line(key: str, value: Any, note: str) -> str:
    text = f"{key} = {_value(value)}"
    return f"{text:<{WIDTH}}  # {note}" if note else text


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return "[\n" + "".join(f"    {_value(row)},\n" for row in value) + "]"
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _model(job: Job) -> Table:
    from autodeploy.models.load import load_model

    if job.model.mtp_modules:
        raise InputError(
            "MODEL", f"{job.model.name} with MTP modules", "a model that torchtitan's TOML has", "--set mtp=false"
        )
    for name, (family, flavor) in FLAVORS.items():
        known = load_model(name)
        if (known.hidden, known.layers, known.vocab) == (job.model.hidden, job.model.layers, job.model.vocab):
            table: Table = {"name": (family, ""), "flavor": (flavor, "")}
            if job.precision in CONVERTERS:
                table["converters"] = ([CONVERTERS[job.precision]], "")
            elif job.precision != "bf16":
                allowed = f"bf16, {', '.join(CONVERTERS)}: torchtitan has no recipe of another kind"
                raise InputError("--precision", job.precision, allowed)
            return table
    allowed = f"one that torchtitan ships: {', '.join(FLAVORS)}"
    raise InputError("MODEL", job.model.name, allowed, "export to megatron, or add the model to torchtitan first")


def _training(job: Job) -> Table:
    s = job.strategy
    pipelined = s.pp > 1
    local = s.micro_batch * (job.micro_batches if pipelined else 1)
    note = f"{job.micro_batches} micro-batches of {s.micro_batch}" if pipelined else "gradients are summed over several"
    return {
        "local_batch_size": (local, note if pipelined or job.micro_batches > 1 else ""),
        "global_batch_size": (job.global_batch, ""),
        "seq_len": (job.seq_length, ""),
        "mixed_precision_param": ("bfloat16", ""),
    }


def _parallelism(job: Job) -> Table:
    s = job.strategy
    kept = "parameters are given back after the forward" if s.zero_stage == 3 else "parameters stay gathered"
    table: Table = {
        "data_parallel_replicate_degree": (1, ""),
        "data_parallel_shard_degree": (job.dp, f"ZeRO-{s.zero_stage}"),
        "fsdp_reshard_after_forward": (RESHARD[s.zero_stage], kept),
        "tensor_parallel_degree": (s.tp, ""),
        "enable_async_tensor_parallel": (bool(job.values["overlap_tp"]), ""),
        "pipeline_parallel_degree": (s.pp, ""),
        "context_parallel_degree": (s.cp, ""),
    }
    if s.tp > 1 and not s.sequence_parallel:
        table["enable_sequence_parallel"] = (False, "")
    if job.moe:
        table["expert_parallel_degree"] = (s.ep, "")
        table["expert_tensor_parallel_degree"] = (1, "releases of 2025; later ones have none")
        if s.ep > 1:
            table["expert_parallel_comm_backend"] = (BACKENDS[s.dispatcher], "")
    return table | (_pipeline(job) if s.pp > 1 else {})


def _pipeline(job: Job) -> Table:
    s = job.strategy
    table: Table = {
        "pipeline_parallel_schedule": (SCHEDULE_TABLE[s.schedule].torch_class, f"{s.vpp} stages a rank"),
        "pipeline_parallel_microbatch_size": (s.micro_batch, ""),
        "module_fqns_per_model_part": (
            _parts(stage_layers(job.layout)),
            "modules of each stage, in order of execution",
        ),
    }
    if s.schedule == "dualpipev" and job.moe:
        table["pipeline_parallel_expert_parallel_overlap"] = (bool(s.ep_overlap), "")
    return table


def _parts(layers: list[int]) -> list[list[str]]:
    """Names of the modules of each stage."""
    parts, at = [], 0
    for stage, count in enumerate(layers):
        names = [f"layers.{i}" for i in range(at, at + count)]
        at += count
        ends = (["tok_embeddings"] if stage == 0 else [], ["norm", "output"] if stage == len(layers) - 1 else [])
        parts.append([*ends[0], *names, *ends[1]])
    return parts


def _checkpoint(job: Job) -> Table:
    s = job.strategy
    if s.recompute_kind == "none":
        return {"mode": ("none", "")}
    if s.recompute_kind == "full":
        return {"mode": ("full", "whole layers are computed again")}
    usual = op_wise(job.model)
    if set(s.recompute) != set(usual):
        names = ",".join(name for name in RECOMPUTE_MODULES if name in usual)
        allowed = f"selective({names}): torchtitan's operator-wise mode runs norms and activations again, both"
        raise InputError("strategy.recompute", ",".join(s.recompute), allowed)
    return {"mode": ("selective", "norms and activations are computed again"), "selective_ac_option": ("op", "")}


def _compile(job: Job) -> Table:
    return {"enable": (bool(job.values["compiled"]), ""), "components": (["model", "loss"], "")}


def _optimizer(job: Job) -> Table:
    return {"name": ("AdamW", ""), "implementation": ("fused" if job.values["fused_optimizer"] else "foreach", "")}


def _float8(job: Job) -> Table:
    if job.precision != "fp8":
        return {}
    return {"enable_fsdp_float8_all_gather": (bool(job.values["fp8_gather"]), "")}


def _debug(job: Job) -> Table:
    forced = job.values["routing"] == "forced-balance"
    return {"moe_force_load_balance": (True, "for benchmarks")} if forced and job.moe else {}

"""MindSpeed-LLM: ``pretrain_gpt.py`` on Ascend and its arguments."""

from __future__ import annotations

from autodeploy.export.flags import Flag, Section, Variable, flag, script
from autodeploy.export.job import Job, require_written
from autodeploy.export.layouts import grammar, noop_slots, stage_layers
from autodeploy.export.megatron_model import model_flags, require_expressed
from autodeploy.export.megatron_sizes import (
    PRECISION,
    batch_flags,
    program_flags,
    recompute_flags,
    sharding_flags,
    size_flags,
    vocab_flags,
)
from autodeploy.launch.program_table import written_fields


def mindspeed(job: Job) -> str:
    return script(job, "MindSpeed-LLM", variables(job), sections(job))


def sections(job: Job) -> list[Section]:
    """Every setting, by group."""
    require_written(job, written_fields("mindspeed"), "MindSpeed-LLM")
    s = job.strategy
    model = (*model_flags(job, tuple(noop_slots(job.layout)), mindspeed=True), *_noop(job), *vocab_flags(job))
    require_expressed(job.model, list(model), "MindSpeed-LLM")
    extended = s.dispatcher == "hierarchical-allgather"
    serial = s.ep_overlap is True or s.schedule == "dualpipev"
    program = program_flags(job, "mindspeed", serial_reduction=serial)
    unfused = flag("no-gradient-accumulation-fusion", note="custom FSDP takes none")
    if s.zero_stage >= 2 and unfused.name not in {one.name for one in program}:
        program = (*program, unfused)
    return [
        Section("model", (*model, flag("use-mcore-models"))),
        Section("parallel", (*size_flags(job, s.ep // s.tp if extended else s.ep), *_context(job), *_pipeline(job))),
        Section("batch", batch_flags(job)),
        Section("precision", PRECISION[job.precision]),
        Section("memory", (*sharding_flags(job, "use-custom-fsdp"), *_recompute(job), *_host(job))),
        Section("experts", _experts(job)),
        Section("program", program),
    ]


def variables(job: Job) -> list[Variable]:
    return [
        Variable("CUDA_DEVICE_MAX_CONNECTIONS", "8" if job.strategy.zero_stage >= 2 else "1", "read on Ascend too"),
        Variable("TASK_QUEUE_ENABLE", "2", "operators are issued from a queue of their own"),
        Variable("CPU_AFFINITY_CONF", "1", "processes stay on the cores of their card"),
        Variable("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True", "less fragmentation"),
        Variable("HCCL_CONNECT_TIMEOUT", "3600", "seconds"),
    ]


def _noop(job: Job) -> list[Flag]:
    slots = noop_slots(job.layout)
    return (
        [flag("noop-layers", ",".join(map(str, slots)), note="layers that do nothing, so that stages are even")]
        if slots
        else []
    )


def _context(job: Job) -> list[Flag]:
    return [flag("context-parallel-algo", "megatron_cp_algo", note="ring attention")] if job.strategy.cp > 1 else []


def _pipeline(job: Job) -> list[Flag]:
    s, layers = job.strategy, stage_layers(job.layout)
    if s.pp == 1:
        return []
    if s.schedule == "dualpipev":
        return [flag("schedules-method", "dualpipev", note="two chunks a rank by itself: no VPP argument")]
    found: list[Flag] = []
    slots = max(layers)
    if job.layout.text.startswith("E"):
        found.append(flag("pipeline-model-parallel-layout", grammar(job.layout), note="excludes no-op layers"))
    elif job.layout.text[:1].isdecimal():
        found.append(flag("num-layer-list", ",".join(map(str, layers))))
    elif s.vpp > 1:
        found.append(flag("num-layers-per-virtual-pipeline-stage", slots, note=f"VPP{s.vpp}"))
    if s.micro_batch_group:
        found.append(flag("microbatch-group-size-per-virtual-pipeline-stage", s.micro_batch_group))
    return found


def _recompute(job: Job) -> tuple[Flag, ...]:
    found = recompute_flags(job)
    if "mla_up_proj" in job.strategy.recompute and job.strategy.tp > 1:
        found = (*found, flag("mla-mm-split"), flag("mla-up-proj-tp-overlap", note="asked for by mla_up_proj with TP"))
    return found


def _host(job: Job) -> list[Flag]:
    found = []
    if job.strategy.offload_frac:
        found.append(flag("swap-optimizer", note="the optimizer state stays on the host"))
    if job.strategy.swap_frac:
        found.append(flag("swap-attention", note="saved activations of attention go to the host"))
    return found


def _experts(job: Job) -> tuple[Flag, ...]:
    if not job.moe:
        return ()
    s = job.strategy
    if s.dispatcher == "hierarchical-allgather":
        note = f"experts spread over TP too: EP{s.ep} is {s.ep // s.tp} x TP{s.tp}"
        return (
            flag("moe-token-dispatcher-type", "alltoall_seq"),
            flag("moe-tp-extend-ep", note=note),
            flag("moe-permutation-async-comm"),
            flag("moe-alltoall-overlap-comm"),
            flag("moe-hierarchical-alltoallv", note="a token goes once to each node, then fans out"),
        )
    found = [flag("moe-token-dispatcher-type", s.dispatcher), flag("moe-permutation-async-comm")]
    if s.ep_overlap:
        note = "expert communication of one micro-batch under computing of another; excludes overlap-grad-reduce"
        found.append(flag("moe-fb-overlap", note=note))
    return tuple(found)

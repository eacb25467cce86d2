"""Megatron-LM: ``pretrain_gpt.py`` and its arguments."""

from __future__ import annotations

from autodeploy.export.flags import Flag, Section, Variable, flag, script
from autodeploy.export.job import Job, require_written
from autodeploy.export.layouts import grammar
from autodeploy.export.megatron_model import model_flags, require_expressed
from autodeploy.export.megatron_sizes import (
    PRECISION,
    batch_flags,
    connections,
    program_flags,
    recompute_flags,
    sharding_flags,
    size_flags,
    vocab_flags,
)
from autodeploy.launch.program_table import written_fields

OFFLOADED = ("qkv_linear", "core_attn", "attn_proj")  # what the attention half saves


def megatron(job: Job) -> str:
    return script(job, "Megatron-LM", variables(job), sections(job))


def sections(job: Job) -> list[Section]:
    """Every setting, by group."""
    require_written(job, written_fields("megatron"), "Megatron-LM")
    model = (*model_flags(job), *vocab_flags(job))
    require_expressed(job.model, list(model), "Megatron-LM")
    return [
        Section("model", model),
        Section("parallel", (*size_flags(job, job.strategy.ep), *_pipeline(job))),
        Section("batch", batch_flags(job)),
        Section("precision", PRECISION[job.precision]),
        Section("memory", (*sharding_flags(job, "use-megatron-fsdp"), *recompute_flags(job), *_host(job))),
        Section("experts", _experts(job)),
        Section("program", program_flags(job, "megatron")),
    ]


def variables(job: Job) -> list[Variable]:
    found = [connections(job)]
    if job.strategy.swap_frac:
        found.append(Variable("NVTE_CPU_OFFLOAD_V1", "1", "activation offload without offloading weights"))
    return found


def _pipeline(job: Job) -> list[Flag]:
    s = job.strategy
    if s.pp == 1:
        return []
    note = "stages in order of execution: E embedding, t layer, m MTP, L loss"
    found = [flag("pipeline-model-parallel-layout", grammar(job.layout), note=note)]
    if s.micro_batch_group:
        found.append(flag("microbatch-group-size-per-virtual-pipeline-stage", s.micro_batch_group))
    return found


def _host(job: Job) -> list[Flag]:
    s = job.strategy
    found = []
    if s.offload_frac:
        found += [
            flag("optimizer-cpu-offload", note="part of the optimizer state stays on the host"),
            flag("optimizer-offload-fraction", repr(s.offload_frac)),
        ]
    if s.swap_frac:
        found += [
            flag("fine-grained-activation-offloading", note="saved activations of the attention half go to the host"),
            flag("offload-modules", *OFFLOADED),
        ]
    if 0 < s.swap_frac < 1:
        found.append(flag("activation-offload-fraction", repr(s.swap_frac)))
    return found


def _experts(job: Job) -> tuple[Flag, ...]:
    if not job.moe:
        return ()
    s = job.strategy
    if s.dispatcher == "hierarchical-dedup":
        found = [
            flag("moe-token-dispatcher-type", "flex"),
            flag("moe-flex-dispatcher-backend", "deepep", note="DeepEP: a token goes once to each node"),
            flag("moe-router-dtype", "fp32"),
        ]
    else:
        found = [flag("moe-token-dispatcher-type", s.dispatcher)]
    if s.ep_overlap:
        note = "expert communication of one micro-batch under computing of another"
        found.append(flag("overlap-moe-expert-parallel-comm", note=note))
    return tuple(found)

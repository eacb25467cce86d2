"""A strategy as arguments of Megatron-LM and MindSpeed-LLM: what both write alike."""

from __future__ import annotations

from autodeploy.export.flags import Flag, Variable, flag
from autodeploy.export.job import Job
from autodeploy.export.megatron_model import padded_vocab
from autodeploy.launch.program_table import KERNEL_OF, SWITCHES

PRECISION = {
    "bf16": (flag("bf16"),),
    "fp16": (flag("fp16"),),
    "fp8": (flag("bf16"), flag("fp8-format", "hybrid"), flag("fp8-recipe", "delayed")),
    "fp8_block": (flag("bf16"), flag("fp8-format", "e4m3"), flag("fp8-recipe", "blockwise")),
    "mxfp8": (flag("bf16"), flag("fp8-format", "e4m3"), flag("fp8-recipe", "mxfp8")),
    "nvfp4": (flag("bf16"), flag("fp4-format", "e2m1"), flag("fp4-recipe", "nvfp4")),
}
SHARDING = {2: "optim_grads", 3: "optim_grads_params"}


def size_flags(job: Job, expert_parallel: int) -> tuple[Flag, ...]:
    """Sizes of every parallel axis; the expert tensor parallel size always where there are experts (its default is TP)."""
    s = job.strategy
    found = [
        flag("tensor-model-parallel-size", s.tp),
        flag("pipeline-model-parallel-size", s.pp),
        flag("context-parallel-size", s.cp),
    ]
    if job.moe:
        found += [
            flag("expert-model-parallel-size", expert_parallel),
            flag("expert-tensor-parallel-size", s.etp, note="unsaid it is TP" if s.etp != s.tp else ""),
        ]
    if s.sequence_parallel:
        found.append(flag("sequence-parallel"))
    return tuple(found)


def batch_flags(job: Job) -> tuple[Flag, ...]:
    return (flag("micro-batch-size", job.strategy.micro_batch), flag("global-batch-size", job.global_batch))


def vocab_flags(job: Job, padded_name: str = "") -> tuple[Flag, ...]:
    """The vocabulary, and what it is padded to on this TP."""
    padded = padded_vocab(job)
    note = "" if padded == job.model.vocab else f"padded to {padded}, a multiple of 128 x TP{job.strategy.tp}"
    found = [flag("vocab-size", job.model.vocab, note=note), flag("make-vocab-size-divisible-by", 128)]
    return tuple(found)


def recompute_flags(job: Job) -> tuple[Flag, ...]:
    s = job.strategy
    if s.recompute_kind == "none":
        return ()
    if s.recompute_kind == "selective":
        return (flag("recompute-granularity", "selective"), flag("recompute-modules", *s.recompute))
    if s.recompute_layers:
        note = f"the first {s.recompute_layers} layers of every virtual stage"
        return (
            flag("recompute-granularity", "full", note="whole layers are computed again"),
            flag("recompute-method", "block"),
            flag("recompute-num-layers", s.recompute_layers, note=note),
        )
    return (
        flag("recompute-granularity", "full", note="whole layers are computed again"),
        flag("recompute-method", "uniform"),
        flag("recompute-num-layers", 1),
    )


def sharding_flags(job: Job, fsdp: str) -> tuple[Flag, ...]:
    """ZeRO; ``fsdp``: the program's argument that shards gradients and parameters too."""
    stage = job.strategy.zero_stage
    if stage == 0:
        return ()
    if stage == 1:
        return (flag("use-distributed-optimizer", note="ZeRO-1"),)
    found = (
        flag("use-distributed-optimizer"),
        flag(fsdp, note=f"ZeRO-{stage}"),
        flag("data-parallel-sharding-strategy", SHARDING[stage]),
    )
    return (*found, flag("ckpt-format", "fsdp_dtensor")) if fsdp == "use-megatron-fsdp" else found


def program_flags(job: Job, dialect: str, *, serial_reduction: bool = False) -> tuple[Flag, ...]:
    """What the stack says, where it is not the program's default."""
    sharded = job.strategy.zero_stage > 0
    found = []
    for switch in SWITCHES[dialect]:
        if (switch.kind == "moe" and not job.moe) or bool(job.values[switch.field]) != switch.means:
            continue
        if switch.needs == "use-distributed-optimizer" and not sharded:
            continue
        if switch.needs == "fp8-format" and not job.precision.startswith(("fp8", "mxfp8")):
            continue
        if switch.needs == "sequence-parallel" and not job.strategy.sequence_parallel:
            continue
        if switch.field in ("overlap_grad_reduce", "overlap_param_gather") and serial_reduction:
            continue  # and the gathering goes with it: it asks for the overlapped reduction
        if switch.field == "overlap_param_gather" and not job.values["overlap_grad_reduce"]:
            continue
        found.append(flag(switch.flag))
    return (*found, *_number_flags(job), *_kernel_flags(job, dialect), *_routing_flags(job))


def _number_flags(job: Job) -> list[Flag]:
    found = [flag("optimizer", job.values["optimizer"])] if job.values["optimizer"] != "adam" else []
    if job.values["grad_dtype"] == "fp32":
        found.append(flag("accumulate-allreduce-grads-in-fp32"))
    else:
        found.append(flag("grad-reduce-in-bf16", note="gradients are summed in 16 bits"))
    moments = job.values["moment_dtype"]
    if moments != "fp32" or job.strategy.offload_frac:
        found.append(flag("use-precision-aware-optimizer"))
    if moments != "fp32":
        found += [flag("exp-avg-dtype", moments), flag("exp-avg-sq-dtype", moments)]
    return found


def _kernel_flags(job: Job, dialect: str) -> list[Flag]:
    dropout = "0.1" if job.values["dropout"] else "0.0"
    found = [flag("attention-dropout", dropout), flag("hidden-dropout", dropout)]
    kernel = job.values["attention_kernel"]
    if dialect == "mindspeed":
        return [*found, *([flag("use-flash-attn")] if kernel != "unfused" else [])]
    if kernel in KERNEL_OF:
        found.append(flag("attention-backend", KERNEL_OF[kernel]))
    found.append(flag("transformer-impl", "transformer_engine" if job.values["transformer_engine"] else "local"))
    if job.values["fused_cross_entropy"]:
        found.append(flag("cross-entropy-fusion-impl", "native", note="te is refused by today's argument rules"))
    if job.values["cuda_graphs"]:
        found.append(flag("cuda-graph-impl", "transformer_engine"))
    return found


def _routing_flags(job: Job) -> list[Flag]:
    if not job.moe:
        return []
    found = []
    capacity = job.values["moe_capacity_factor"]
    if job.values["routing"] == "forced-balance":
        found.append(flag("moe-router-force-load-balancing", note="for benchmarks: routing is forced to be even"))
    if capacity:
        found.append(flag("moe-expert-capacity-factor", f"{capacity:g}", note="tokens beyond it are dropped"))
    if job.values["routing"] == "capacity-padded":
        found.append(flag("moe-pad-expert-input-to-capacity"))
    return found


def connections(job: Job) -> Variable:
    """CUDA_DEVICE_MAX_CONNECTIONS, which orders communication and computing on the card."""
    s = job.strategy
    if s.zero_stage >= 2:
        return Variable("CUDA_DEVICE_MAX_CONNECTIONS", "8", "FSDP must not run with 1")
    if s.ep_overlap:
        return Variable("CUDA_DEVICE_MAX_CONNECTIONS", "32", "streams of overlapped expert communication")
    return Variable("CUDA_DEVICE_MAX_CONNECTIONS", "1", "communication of TP and CP is issued before computing")

"""The software stack and the number formats of a run, from its columns."""

from __future__ import annotations

import re
from typing import Any

from autodeploy.accuracy.facts import facts_of
from autodeploy.accuracy.loader import Run
from autodeploy.errors import InputError
from cost_models.inputs import HardwareProfile, SoftwareStack, Workload

# Pattern of the attention_kernel column -> kernel. First match wins.
KERNELS: tuple[tuple[str, str], ...] = (
    (r"fused scaled masked softmax", "fused_softmax"),
    (r"^unfused scores \(use_flash_attention False\)", "unfused"),
    (r"^torch$", "unfused"),
    (r"^fused$", "fused_softmax"),
    (r"^flash_attentionv1|^flash_attention$", "flash1"),  # the sheet says "flash_attention" before version 2 was out
    (r"^flash_attention2|^flash 2", "flash2"),
    (r"^flash attention \(TE\)|^cudnn", "cudnn"),
    (r"^triton", "triton"),
    (r"NPU flash attention", "npu_flash"),
)

# precision column -> (Workload.precision, fp8 recipe unless the row states one)
PRECISION: dict[str, tuple[str, str]] = {
    "bf16": ("bf16", ""),
    "fp16": ("fp16", ""),
    "fp8": ("fp8", "delayed"),
    "fp8-cs": ("fp8", "tensorwise"),
    "fp8-tensorwise": ("fp8", "tensorwise"),
    "fp8-rowwise": ("fp8", "rowwise"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "nvfp4": ("nvfp4", ""),
}

BALANCED_ROUTINGS = ("forced-balance", "capacity-1-padded", "capacity-padded-drop")


def attention_kernel(text: str | None) -> str | None:
    """Kernel name, None where the row leaves it to the stack's default."""
    if not text:
        return None
    for pattern, kernel in KERNELS:
        if re.search(pattern, text):
            return kernel
    raise InputError("attention_kernel", text, "a kernel that the README of the runs names")


def software_stack(run: Run, hardware: HardwareProfile) -> SoftwareStack:
    """Profile default < what the source says of all its rows < the row's own columns."""
    fields = {name: getattr(hardware.stack, name) for name in SoftwareStack.__dataclass_fields__}
    # What a run does is stated by the run: these have no default of the machine.
    fields.update(
        dropout=False, forced_balance=False, moe_capacity_factor=0.0, fsdp=False, compiled=False, cuda_graphs=False
    )
    fields.update(facts_of(run.group).stack)
    fields.update(_columns(run))
    fields.update(_fusions(run))
    fields["fp8_tp_gather"] = _gathers_float8(run)
    return SoftwareStack(**fields)


def _columns(run: Run) -> dict[str, Any]:
    """What the overlap, routing and kernel columns state; an empty cell states nothing."""
    extra = run.extra
    stated = {
        "attention_kernel": attention_kernel(run.attention_kernel),
        "overlap_tp": run.tp_overlap,
        "overlap_grad_reduce": run.grad_reduce_overlap,
        "overlap_param_gather": run.param_gather_overlap,
        "overlap_p2p": run.p2p_overlap,
        "scatter_gather_p2p": extra.get("scatter_gather_p2p"),
        "wgrad_accumulation_fused": extra.get("wgrad_accumulation_fused"),
        "grouped_gemm": extra.get("moe_grouped_gemm", extra.get("grouped_gemm")),
        "compiled": extra.get("torch_compile"),
        "moe_capacity_factor": run.moe_capacity_factor,
        "dropout": _dropout(run),
        "short_bursts": True if extra.get("composed") else None,
        "launch_blocking": True if "cuda_launch_blocking" in extra else None,
        "fused_cross_entropy": True if extra.get("cross_entropy_fusion") else None,
        "forced_balance": True if run.routing in BALANCED_ROUTINGS else None,
        "cuda_graphs": True if run.cuda_graph not in (None, "none") else None,
        "graphs_without_experts": True if "moe_router" in (run.cuda_graph or "") else None,
        "sync_free_moe": True if extra.get("sync_free_moe_stage") else None,
        "fused_permute": extra.get("moe_permute_fusion"),
        "consecutive_routing": True if run.routing == "forced-consecutive" else None,
        "norm_saves_input_only": True if "tp-2d" in extra.get("flags", ()) else None,
        "fsdp": True if run.fsdp or run.zero_stage == 3 else None,
        "head_sharded_over_tp": False if "logits_gathered_over_tp" in extra else None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _dropout(run: Run) -> bool | None:
    """BLOOM's "not set in the script (Megatron default 0.1)" is on."""
    values = [run.extra.get(name) for name in ("dropout", "hidden_dropout", "attention_dropout")]
    stated = [value for value in values if value is not None]
    return any("0.1" in value if isinstance(value, str) else value > 0 for value in stated) if stated else None


def _fusions(run: Run) -> dict[str, bool]:
    """Fused operators, from the ``fused`` list (what it leaves out is not fused) and the per-operator keys."""
    extra = run.extra
    text = str(extra.get("fused", ""))
    found: dict[str, bool] = {}
    if "per attention_kernel" in text:  # Hagemann: only the RMS kernel fuses anything
        norm = "RMS kernel" in (run.attention_kernel or "")
        found.update(fused_norm=norm, fused_rope=norm, fused_activation=False)
    elif text:
        words, _, excluded = text.partition("; not ")
        transformer_engine = "(TE)" in (run.attention_kernel or "")
        found["fused_norm"] = "norm" in words or transformer_engine
        found["fused_activation"] = "gelu" in words or "swiglu" in words
        found["fused_rope"] = "rope" in words
        if "bias-dropout" in text:
            found["fused_dropout"] = "bias-dropout" not in excluded
    if "rope_fusion" in extra:
        found["fused_rope"] = bool(extra["rope_fusion"])
    if "swiglu_fusion" in extra:
        found["fused_activation"] = bool(extra["swiglu_fusion"])
    if extra.get("torch_compile"):
        found.update(fused_norm=True, fused_rope=True, fused_activation=True)
    return found


def _gathers_float8(run: Run) -> bool:
    precision, recipe = _precision(run)
    return facts_of(run.group).torchao_float8 and precision == "fp8" and recipe != "rowwise"


def workload(run: Run, hardware: HardwareProfile, stack: SoftwareStack, seq_length: int, global_batch: int) -> Workload:
    """The numbers a step computes and stores in, and the load of its experts."""
    precision, recipe = _precision(run)
    fields: dict[str, Any] = {**_gradient_bytes(run, precision), **facts_of(run.group).workload}
    fields.update(_stated_gradient_bytes(run))
    return Workload(
        seq_length=seq_length,
        global_batch=global_batch,
        precision=precision,
        weight_bytes=_weight_bytes(run, precision),
        gather_bytes=1.0 if _gathers_float8(run) else 0.0,
        optimizer_bytes=_optimizer_bytes(run),
        expert_imbalance=_imbalance(run, hardware, stack),
        imbalance_by_ep=True,
        stack=stack,
        **fields,
    )


def _precision(run: Run) -> tuple[str, str]:
    stated = run.precision or "bf16"
    if stated not in PRECISION:
        raise InputError("precision", stated, f"one of {', '.join(PRECISION)}")
    precision, recipe = PRECISION[stated]
    recipe = run.extra.get("fp8_recipe", recipe)
    return ("fp8_block" if recipe == "blockwise" else precision), recipe


def _gradient_bytes(run: Run, precision: str) -> dict[str, float]:
    """Defaults: Megatron accumulates and reduces bf16 models in fp32, fp16 models in fp16; FSDP by its mode."""
    if precision == "fp16":
        return {"grad_bytes": 2.0, "grad_reduce_bytes": 2.0}
    pure = run.extra.get("mixed_precision_mode") == "PURE"  # MosaicML: PURE reduces in bf16, DEFAULT in fp32
    return {"grad_bytes": 4.0, "grad_reduce_bytes": 2.0 if pure else 4.0}


def _stated_gradient_bytes(run: Run) -> dict[str, float]:
    stated: dict[str, float] = {}
    if run.extra.get("grad_dtype"):
        size = 4.0 if str(run.extra["grad_dtype"]).startswith("fp32") else 2.0
        stated.update(grad_bytes=size, grad_reduce_bytes=size)
        if size == 4.0:  # whole gradients in fp32 need no second copy beside the optimizer
            stated["master_grad_bytes"] = 0.0
    if run.extra.get("grad_reduce_dtype"):
        stated["grad_reduce_bytes"] = 4.0 if run.extra["grad_reduce_dtype"] == "fp32" else 2.0
    return stated


def _weight_bytes(run: Run, precision: str) -> float:
    """16-bit weights 2 B. fp8 recipes keep a row- and a column-wise fp8 copy: instead of the bf16 weight when
    parameters are gathered in fp8, else beside it (Transformer Engine caches both over the micro-batches of a step)."""
    if precision in ("bf16", "fp16") or run.extra.get("fp8_param_gather") or run.fsdp:
        return 2.0
    return 4.0


def _optimizer_bytes(run: Run) -> float:
    """fp32 master and two moments: 12 B. bf16 moments 8; Muon's one moment 8; MindSpeed's reuse-fp32-param keeps only
    the 16 bits of the master that the bf16 weight lacks: 10."""
    extra = run.extra
    bf16_moments = extra.get("optimizer_state_dtype") == "bf16" or extra.get("exp_avg_dtype") == "bf16"
    if bf16_moments or "bf16 optimizer moments" in str(extra.get("grad_dtype", "")) or extra.get("optimizer") == "muon":
        return 8.0
    return 10.0 if "reuse-fp32-param" in extra.get("flags", ()) else 12.0


def _imbalance(run: Run, hardware: HardwareProfile, stack: SoftwareStack) -> float:
    """1 where routing is forced to be balanced or padded to its capacity; else the profile's, up to the capacity."""
    if run.kind != "moe" or stack.forced_balance:
        return 1.0
    capacity = stack.moe_capacity_factor
    return min(hardware.expert_imbalance, capacity) if capacity else hardware.expert_imbalance

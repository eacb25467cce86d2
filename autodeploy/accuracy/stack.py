"""What a row states of its program, in the words of ``--set``; and the case that it makes with its stack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autodeploy.accuracy.loader import Run
from autodeploy.accuracy.programs import stack_of
from autodeploy.errors import InputError
from autodeploy.stacks import Program, load_stack

# Pattern of the attention_kernel column -> kernel. First match wins.
KERNELS: tuple[tuple[str, str], ...] = (
    (r"fused scaled masked softmax", "fused_softmax"),
    (r"^unfused( scores|$)", "unfused"),
    (r"^torch$", "unfused"),
    (r"^fused$", "fused_softmax"),
    (r"^flash_attentionv1|^flash_attention$", "flash1"),  # the sheet says "flash_attention" before version 2 was out
    (r"^flash_attention2 \+ RMS", "flash2+rms"),
    (r"^flash_attention2|^flash 2|^flash2", "flash2"),
    (r"^flash 3|^flash3", "flash3"),
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
    "fp8-blockwise": ("fp8", "blockwise"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "nvfp4": ("nvfp4", ""),
}

# routing column -> Stack's routing; any other word is real routing.
ROUTING = {
    "forced-balance": "forced-balance",
    "forced-consecutive": "forced-consecutive",
    "capacity-1-padded": "capacity-padded",
    "capacity-padded-drop": "capacity-padded",
}


def attention_kernel(text: str | None) -> str | None:
    """Kernel name, None where the row leaves it to the stack's default."""
    if not text:
        return None
    for pattern, kernel in KERNELS:
        if re.search(pattern, text):
            return kernel
    raise InputError("attention_kernel", text, "a kernel that the README of the runs names")


def precision_of(run: Run) -> tuple[str, str]:
    """(Workload.precision, fp8 recipe)."""
    stated = run.precision or "bf16"
    if stated not in PRECISION:
        raise InputError("precision", stated, f"one of {', '.join(PRECISION)}")
    precision, recipe = PRECISION[stated]
    recipe = run.extra.get("fp8_recipe", recipe)
    return ("fp8_block" if recipe == "blockwise" else precision), recipe


def program_of(run: Run) -> Program:
    """The stack of the row's framework and release, and above it everything that the row states."""
    return Program(stack=load_stack(stack_of(run)), chosen=row_settings(run))


def row_settings(run: Run) -> dict[str, Any]:
    """Field -> value, of what the row's columns state; an empty cell states nothing."""
    found = {**_columns(run), **_number_formats(run), **_fusions(run)}
    return {name: value for name, value in found.items() if value is not None}


def _columns(run: Run) -> dict[str, Any]:
    extra = run.extra
    return {
        "attention_kernel": kernel_of(run),
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
        "routing": ROUTING.get(run.routing or ""),
        "cuda_graphs": None if run.cuda_graph is None else run.cuda_graph != "none",
        "graphs_without_experts": None if run.cuda_graph is None else "moe_router" in run.cuda_graph,
        "sync_free_moe": True if extra.get("sync_free_moe_stage") else None,
        "fused_permute": extra.get("moe_permute_fusion"),
        "norm_saves_input_only": True if "tp-2d" in extra.get("flags", ()) else None,
        "fsdp": None if run.fsdp is None and run.zero_stage is None else bool(run.fsdp) or run.zero_stage == 3,
        "head_sharded_over_tp": False if "logits_gathered_over_tp" in extra else None,
        "in_network_reduction": False if extra.get("nccl_nvls") is False else None,
    }


def kernel_of(run: Run) -> str | None:
    """The attention kernel that a row states; on an AMD card Transformer Engine's is the machine's own."""
    kernel = attention_kernel(run.attention_kernel)
    return None if kernel == "cudnn" and run.device.startswith("mi") else kernel


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
    if text and "per attention_kernel" not in text:
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
    elif extra.get("torch_compile") is False:
        found.update(fused_norm=False, fused_rope=False, fused_activation=False)
    return found


def _number_formats(run: Run) -> dict[str, Any]:
    """Gradients, master weights, moments, fp8 gathers; a word of any length starts with its dtype."""
    extra, (precision, recipe) = run.extra, precision_of(run)
    grad, reduce = _dtype(extra.get("grad_dtype")), _dtype(extra.get("grad_reduce_dtype"))
    if extra.get("mixed_precision_mode"):  # MosaicML: PURE reduces in bf16, DEFAULT in fp32
        reduce = "bf16" if extra["mixed_precision_mode"] == "PURE" else "fp32"
    stated = [extra.get("optimizer_state_dtype"), extra.get("exp_avg_dtype")]
    low = "bf16" in stated or "bf16 optimizer moments" in str(extra.get("grad_dtype", ""))
    return {
        "grad_dtype": grad,
        "grad_reduce_dtype": reduce,
        "moment_dtype": "bf16" if low else None,
        "optimizer": "muon" if extra.get("optimizer") == "muon" else None,
        "master_dtype": "low16" if "reuse-fp32-param" in extra.get("flags", ()) else None,
        "fp8_param_gather": extra.get("fp8_param_gather") if precision not in ("bf16", "fp16") else None,
        "fp8_gather": False if recipe == "rowwise" else None,
    }


def _dtype(text: Any) -> str | None:
    return None if not text else str(text)[:4]


def chosen_imbalance(run: Run, stated: Mapping[str, Any]) -> float | None:
    """What ``--imbalance`` can say of the row: 1 where routing was forced to be even; None where nothing is stated."""
    return 1.0 if run.kind == "moe" and stated.get("routing", "real") != "real" else None

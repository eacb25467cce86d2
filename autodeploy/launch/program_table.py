"""Fields of a software stack as arguments of Megatron-LM and MindSpeed-LLM, told once for both directions.

Sources: Megatron-LM megatron/training/arguments.py; MindSpeed-LLM mindspeed_llm/features_manager (``--use-fused-*``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Args = Mapping[str, tuple[str, ...]]  # argument without dashes -> its values; a flag has none


@dataclass(frozen=True, slots=True)
class Switch:
    """A field that is true or false. ``flag`` stands for ``means``; without it the field is the other.

    ``needs``: an argument without which the flag cannot be given and the field says nothing. ``kind``: "moe" where the
    flag is one of experts."""

    field: str
    flag: str
    means: bool = True
    needs: str = ""
    kind: str = ""


COMMON = (
    Switch("overlap_grad_reduce", "overlap-grad-reduce"),
    Switch("overlap_param_gather", "overlap-param-gather", needs="use-distributed-optimizer"),
    Switch("overlap_p2p", "no-overlap-p2p-communication", False),
    Switch("wgrad_accumulation_fused", "no-gradient-accumulation-fusion", False),
    Switch("fp8_param_gather", "fp8-param-gather", needs="fp8-format"),
    Switch("grouped_gemm", "moe-grouped-gemm", kind="moe"),
    Switch("fused_cross_entropy", "cross-entropy-loss-fusion"),
)
MEGATRON = (
    *COMMON,
    Switch("overlap_tp", "tp-comm-overlap", needs="sequence-parallel"),
    Switch("fused_rope", "no-rope-fusion", False),
    Switch("fused_activation", "no-bias-swiglu-fusion", False),
    Switch("fused_dropout", "no-bias-dropout-fusion", False),
)
MINDSPEED = (
    *COMMON,
    Switch("overlap_tp", "use-ascend-mc2", needs="sequence-parallel"),
    Switch("fused_norm", "use-fused-rmsnorm"),
    Switch("fused_rope", "use-fused-rotary-pos-emb"),
    Switch("fused_activation", "use-fused-swiglu"),
)
SWITCHES = {"megatron": MEGATRON, "mindspeed": MINDSPEED}

KERNELS = {"flash": "flash2", "fused": "cudnn", "unfused": "unfused"}  # --attention-backend
KERNEL_OF = {"flash1": "flash", "flash2": "flash", "flash3": "flash", "cudnn": "fused", "unfused": "unfused"}
# Fields that the two functions below write and read, beside the switches.
WORDS = (
    "attention_kernel", "grad_dtype", "grad_reduce_dtype", "moment_dtype", "optimizer", "routing", "dropout",
    "moe_capacity_factor", "transformer_engine", "cuda_graphs", "mtp", "serial_grad_reduce_under_ep_overlap",
)  # fmt: skip


def written_fields(dialect: str) -> frozenset[str]:
    """Fields that an export of this dialect can say."""
    return frozenset({switch.field for switch in SWITCHES[dialect]} | set(WORDS))


def read_program(args: Args, dialect: str, *, moe: bool) -> dict[str, Any]:
    """What the arguments state of the stack; fields that they say nothing about are left out."""
    stated: dict[str, Any] = {}
    for switch in SWITCHES[dialect]:
        if (switch.needs and switch.needs not in args) or (switch.kind == "moe" and not moe):
            continue
        stated[switch.field] = (switch.flag in args) == switch.means
    if serial_reduction(args):
        stated.pop("overlap_grad_reduce", None)
    if "use-custom-fsdp" in args:  # takes no fused accumulation, whatever the stack would like
        stated.pop("wgrad_accumulation_fused", None)
    stated["fused_cross_entropy"] = stated["fused_cross_entropy"] or "fused-cross-entropy" in args
    stated |= _read_numbers(args) | _read_kernels(args, dialect)
    if moe:
        stated |= _read_routing(args)
    return stated


def serial_reduction(args: Args) -> bool:
    """MindSpeed's fb-overlap and dualpipev take no --overlap-grad-reduce, whatever the stack would like."""
    return "moe-fb-overlap" in args or value(args, "schedules-method") == "dualpipev"


def _read_numbers(args: Args) -> dict[str, Any]:
    stated: dict[str, Any] = {"optimizer": value(args, "optimizer") or "adam"}
    reduced = "grad-reduce-in-bf16" in args or value(args, "main-grads-dtype") in ("bf16", "fp16")
    stated["grad_dtype"] = "bf16" if reduced else "fp32"
    moments = value(args, "exp-avg-dtype")
    stated["moment_dtype"] = moments if moments in ("bf16", "fp8") else "fp32"
    return stated


def _read_kernels(args: Args, dialect: str) -> dict[str, Any]:
    stated: dict[str, Any] = {"dropout": _dropout(args)}
    if dialect == "mindspeed":
        stated["attention_kernel"] = "npu_flash" if "use-flash-attn" in args or "cp" in args else "unfused"
        return stated
    backend = value(args, "attention-backend")
    if "use-flash-attn" in args:
        backend = "flash"
    if backend in KERNELS:
        stated["attention_kernel"] = KERNELS[backend]
    stated["transformer_engine"] = value(args, "transformer-impl") != "local"
    graphs = value(args, "cuda-graph-impl")
    stated["cuda_graphs"] = graphs not in (None, "none") or "enable-cuda-graph" in args or "external-cuda-graph" in args
    return stated


def _read_routing(args: Args) -> dict[str, Any]:
    capacity = float(value(args, "moe-expert-capacity-factor") or 0.0)
    capacity = max(capacity, 0.0)  # below 0 means dropless
    if "moe-router-force-load-balancing" in args or "fix-router" in args:
        routing = "forced-balance"
    else:
        routing = "capacity-padded" if capacity == 1.0 and "moe-pad-expert-input-to-capacity" in args else "real"
    return {"routing": routing, "moe_capacity_factor": capacity}


def _dropout(args: Args) -> bool:
    """Megatron's default is 0.1 for both."""
    return any(float(value(args, name) or 0.1) > 0 for name in ("attention-dropout", "hidden-dropout"))


def value(args: Args, name: str) -> str | None:
    found = args.get(name)
    return found[0] if found else None

"""What a stack can say: every field with its kind, its default and its meaning.

Fields of ``SoftwareStack`` stand under their own names (a new one there is a field here), but for those that users know
by other words: number formats by dtype, routing by kind.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from functools import cache
from typing import Any

from autodeploy.errors import InputError
from cost_models.inputs import SoftwareStack
from cost_models.records import record

KERNELS = ("unfused", "fused_softmax", "flash1", "flash2", "flash3", "cudnn", "npu_flash", "triton")
# Kernels that come with others: flash-attn's package has a fused RMSNorm and a fused rotary beside its attention.
KERNEL_SETS = {"flash2+rms": ("flash2", {"fused_norm": True, "fused_rope": True})}
ROUTINGS = ("real", "forced-balance", "forced-consecutive", "capacity-padded")
GRADIENT_DTYPES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
MASTER_DTYPES = {"fp32": 4.0, "low16": 2.0, "none": 0.0}
MOMENT_DTYPES = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}
MOMENTS = {"adam": 2, "muon": 1, "sgd": 1}


@record(kw_only=False)
class Field:
    """One thing that a stack states. ``words``: what a word may be; ``at_least``: the least that a number may be."""

    name: str
    default: Any
    meaning: str
    words: tuple[str, ...] = ()
    at_least: float = 0.0

    @property
    def allowed(self) -> str:
        if self.words:
            return f"one of {', '.join(self.words)}"
        if isinstance(self.default, bool):
            return "true or false"
        whole = "a whole number" if isinstance(self.default, int) else "a number"
        return f"{whole} >= {self.at_least:g}"


OWN = (
    Field("attention_kernel", "auto", "Kernel of softmax attention; auto: the machine's best.",
          ("auto", *KERNELS, *KERNEL_SETS)),
    Field("grad_dtype", "fp32", "Gradients as they are accumulated.", tuple(GRADIENT_DTYPES)),
    Field("grad_reduce_dtype", "as grad_dtype", "Gradients as they travel.", ("as grad_dtype", *GRADIENT_DTYPES)),
    Field("master_dtype", "fp32", "Master weights; low16: only the 16 bits that the bf16 weight lacks.",
          tuple(MASTER_DTYPES)),
    Field("moment_dtype", "fp32", "Moments of the optimizer.", tuple(MOMENT_DTYPES)),
    Field("optimizer", "adam", "Adam keeps two moments, Muon and SGD one.", tuple(MOMENTS)),
    Field("master_grad_dtype", "none", "A sharded fp32 copy of the gradients beside the optimizer.", ("none", "fp32")),
    Field("fp8_param_gather", False, "8-bit recipes keep fp8 weights alone, and gather those."),
    Field("fp8_gather", False, "torchao's float8: FSDP gathers weights, TP activations, in fp8 (not rowwise)."),
    Field("routing", "real", "Of tokens to experts: trained, or forced to be even.", ROUTINGS),
    Field("moe_capacity_factor", 0.0, "Most load of an expert over the mean, the rest dropped; 0: dropless."),
    Field("trained", "all", "What is trained, but for adapters (lora_rank): other frozen parts are not priced.", ("all",)),
    Field("lora_rank", 0, "Rank of adapters beside every linear layer, all else frozen; 0: everything is trained."),
    Field("mtp", True, "Multi-token prediction modules of the model are trained."),
    Field("in_network_reduction", True, "Switches reduce where the machine's can (NVLink SHARP)."),
)  # fmt: skip
REPLACED = ("forced_balance", "consecutive_routing", "fp8_tp_gather", "attention_kernel", "moe_capacity_factor")

MEANINGS = {
    "fused_norm": "A norm is one kernel.",
    "fused_rope": "Rotary embedding is one kernel.",
    "fused_activation": "SwiGLU or bias-GELU is one kernel.",
    "fused_cross_entropy": "The loss is one kernel over 16-bit logits.",
    "fused_dropout": "Bias, dropout and residual are one kernel.",
    "grouped_gemm": "Experts of a card are one grouped product.",
    "overlap_grad_reduce": "Gradients are reduced while the backward runs.",
    "serial_grad_reduce_under_ep_overlap": "EP overlap and DualPipeV exclude overlapped gradient reduction.",
    "whole_gradients_reduced": "ZeRO-1 all-reduces whole gradients, instead of reduce-scattering them.",
    "overlap_param_gather": "Parameters are gathered while the forward runs.",
    "overlap_p2p": "Pipeline transfers run beside computing.",
    "overlap_tp": "Collectives of tensor parallelism are cut up and run under their product.",
    "async_tp_backward": "The backward's TP collective runs under the weight gradient.",
    "hierarchical_chunks": "Pieces in which a hierarchical all-to-all is pipelined; 1: in series (DeepEP, HybridEP: 6 at least).",
    "scatter_gather_p2p": "Pipeline transfers send 1/TP of the activation and gather it in the node.",
    "wgrad_accumulation_fused": "The weight gradient is added to its buffer inside the product.",
    "cuda_graphs": "Kernels are launched as captured graphs.",
    "graphs_without_experts": "The graphs cover attention and router; dispatch and experts are launched by the host.",
    "sync_free_moe": "The host never waits for the number of tokens of an expert.",
    "fused_permute": "Token rows are moved by one kernel, not by torch's indexing.",
    "host_cost_factor": "Host time of a kernel over the machine's.",
    "short_bursts": "Times are of short profiles: the clock is not yet lowered.",
    "launch_blocking": "CUDA_LAUNCH_BLOCKING=1: the device idles while the host issues.",
    "compiled": "torch.compile or its like.",
    "dropout": "The program trains with dropout.",
    "fsdp": "Fully sharded data parallelism gathers by layer.",
    "swap_whole_layers": "Activation swap takes all that a layer saves, not the attention half's tensors.",
    "bias_balanced": "Experts are balanced by a bias on their selection, without an auxiliary loss.",
    "fp8_dispatch": "Expert tokens are dispatched in 8 bit and combined in 16.",
    "fp8_activation_input": "Inputs of gated activations are kept in 8 bit, attention outputs once in 12 (DeepSeek-V3).",
    "narrow_gradients_kept": "16-bit gradients stay beside the fp32 ones.",
    "bucket_elements": "Elements of the buffers through which gradients are reduced and parameters gathered; 0: none.",
    "fsdp_whole_under_pp": "In a pipeline parameters stay gathered and gradients whole over the micro-batches.",
    "coalesced_gathers": "ZeRO-3 fetches a layer at once, not a parameter.",
    "plain_autograd": "Backward of plain torch: no fused gradients.",
    "norm_saves_input_only": "An unfused norm is one autograd function.",
    "host_adam": "An offloaded optimizer steps on the host; false: its state travels to the card and back.",
    "fused_optimizer": "The optimizer is one kernel over all tensors.",
    "unpad_attention": "Tokens are gathered before the attention kernel and scattered after it.",
    "head_sharded_over_tp": "Logits are divided over TP.",
    "loss_bytes_per_logit": "Bytes of an unfused loss at its peak; 0: Megatron's vocabulary-parallel loss.",
    "transformer_engine": "Modules are Transformer Engine's.",
}


@cache
def stack_fields() -> dict[str, Field]:
    """Every field by name."""
    fields = {field.name: field for field in OWN}
    defaults = SoftwareStack()
    for item in dataclasses.fields(SoftwareStack):
        if item.name not in REPLACED and item.name not in fields:
            value = getattr(defaults, item.name)
            at_least = 1 if type(value) is int and value == 1 else 0.0
            fields[item.name] = Field(item.name, value, MEANINGS.get(item.name, ""), at_least=at_least)
    return fields


def field_named(name: str, where: str) -> Field:
    """InputError with the nearest names where there is none."""
    fields = stack_fields()
    if name in fields:
        return fields[name]
    near = difflib.get_close_matches(name, fields, n=2, cutoff=0.6)
    remedy = f"did you mean {' or '.join(near)}?" if near else "`autodeploy stacks NAME` shows every field"
    raise InputError(where, name, f"a field of a stack: {', '.join(fields)}", remedy)


def checked_value(field: Field, value: Any, where: str) -> Any:
    """The value in the field's own kind; text is read (``--set``), YAML is taken as it is."""
    read = _read(field, value)
    if read is None:
        remedy = "adapters are --set lora_rank=16; other frozen parts are not priced" if field.name == "trained" else ""
        raise InputError(f"{where} {field.name}", value, field.allowed, remedy)
    return read


def _read(field: Field, value: Any) -> Any:
    if field.words:
        return value if isinstance(value, str) and value in field.words else None
    if isinstance(field.default, bool):
        words = {
            "true": True,
            "1": True,
            "false": False,
            "0": False,
            "on": True,
            "off": False,
            "yes": True,
            "no": False,
        }
        return value if isinstance(value, bool) else words.get(str(value).lower()) if isinstance(value, str) else None
    if isinstance(field.default, str):
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not math.isfinite(number) or number < field.at_least:
        return None
    if isinstance(field.default, int):
        return int(number) if number == int(number) else None
    return number

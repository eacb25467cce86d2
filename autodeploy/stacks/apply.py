"""From what a stack states to what the cost models compute on: the program, the number formats, the model, the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from autodeploy.errors import InputError
from autodeploy.stacks.fields import (
    GRADIENT_DTYPES,
    KERNEL_SETS,
    KERNELS,
    MASTER_DTYPES,
    MOMENT_DTYPES,
    MOMENTS,
    checked_value,
    field_named,
    stack_fields,
)
from autodeploy.stacks.stack import Context, Stack
from cost_models.adapters import adapter_parameters
from cost_models.case import Case
from cost_models.inputs import CollectiveCurve, HardwareProfile, ModelSpec, SoftwareStack, Workload
from cost_models.records import record

# Which makers' cards a kernel runs on; the unfused ones are torch operations and run everywhere.
KERNEL_VENDORS = {
    "flash1": ("nvidia", "amd"),
    "flash2": ("nvidia", "amd"),
    "flash3": ("nvidia",),
    "cudnn": ("nvidia",),
    "triton": ("nvidia", "amd"),
    "npu_flash": ("ascend",),
}
SIXTEEN_BIT = ("bf16", "fp16")
SIXTEEN_BIT_BYTES = 2.0


@record
class Program:
    """A stack with the fields that a user set on top of it."""

    stack: Stack
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the stack, with what was set on top of it."""
        return " ".join([self.stack.name, *(f"{name}={shown(value)}" for name, value in self.chosen.items())])

    def values(self, context: Context) -> dict[str, Any]:
        """What is stated: by the stack, and above it by the user."""
        return {**self.stack.values(context), **self.chosen}


def parse_sets(texts: Iterable[str]) -> dict[str, Any]:
    """``field=value`` texts as a mapping; InputError for an unknown field, a bad value, a field set twice."""
    chosen: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InputError("--set", text, "field=value", "such as --set grad_dtype=bf16")
        if name in chosen:
            raise InputError("--set", text, f"each field once; {name} is set twice")
        chosen[name] = checked_value(field_named(name, "--set"), value.strip(), "--set")
    return chosen


def shown(value: Any) -> str:
    """A value as ``--set`` reads it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def context_of(model: ModelSpec, hardware: HardwareProfile, precision: str) -> Context:
    halves = [half for kind in model.kinds for half in kind.feed_forwards]
    gpt = model.norm_bias and not any(half.gated for half in halves)
    return Context(
        precision=precision,
        kind="moe" if any(half.is_moe for half in halves) else "dense",
        vendor=hardware.device.vendor,
        device=hardware.name,
        architecture="gpt" if gpt else "llama",
    )


def settle(
    program: Program,
    model: ModelSpec,
    hardware: HardwareProfile,
    *,
    seq_length: int,
    global_batch: int,
    precision: str,
    imbalance: float | None = None,
) -> Case:
    """The case that a program makes of a model on a machine. ``imbalance`` None: the machine's, scaled by EP."""
    context = context_of(model, hardware, precision)
    stated = program.values(context)
    software = software_stack(stated, hardware, precision)
    load = _imbalance(imbalance, context, software, hardware)
    value = _reader(stated)
    rank = value("lora_rank")
    workload = Workload(
        seq_length=seq_length,
        global_batch=global_batch,
        precision=precision,
        expert_imbalance=load,
        imbalance_by_ep=imbalance is None,
        stack=software,
        lora_rank=rank,
        **_of_adapters(number_formats(stated, precision), model, rank, software.fsdp),
    )
    if not value("mtp") and model.mtp_modules:
        model = dataclasses.replace(model, mtp_modules=0)
    if not value("in_network_reduction"):
        hardware = without_in_network(hardware)
    return Case(model=model, hardware=hardware, workload=workload)


def _reader(stated: Mapping[str, Any]) -> Any:
    """Value of a field: stated, or its default."""
    fields = stack_fields()
    return lambda name: stated.get(name, fields[name].default)


def software_stack(stated: Mapping[str, Any], hardware: HardwareProfile, precision: str) -> SoftwareStack:
    """The machine's own facts, and above them what is stated."""
    value = _reader(stated)
    names = {item.name for item in dataclasses.fields(SoftwareStack)}
    changes: dict[str, Any] = {name: stated[name] for name in stated if name in names}
    changes.pop("attention_kernel", None)
    kernel = value("attention_kernel")
    if kernel in KERNEL_SETS:
        kernel, more = KERNEL_SETS[kernel]
        changes.update(more)
    if kernel != "auto":
        _check_kernel(kernel, hardware)
        changes["attention_kernel"] = kernel
    changes["forced_balance"] = value("routing") != "real"
    changes["consecutive_routing"] = value("routing") == "forced-consecutive"
    changes["fp8_tp_gather"] = value("fp8_gather") and precision not in SIXTEEN_BIT
    return dataclasses.replace(hardware.stack, **changes)


def _check_kernel(kernel: str, hardware: HardwareProfile) -> None:
    vendor = hardware.device.vendor
    if vendor not in KERNEL_VENDORS.get(kernel, (vendor,)):
        runs = [name for name in KERNELS if vendor in KERNEL_VENDORS.get(name, (vendor,))]
        raise InputError("attention_kernel", kernel, f"one that {hardware.name} runs: auto, {', '.join(runs)}")


# Excess load of the fullest of 16 cards in the last quarter of the routing traces of a small model: 0.193 balanced by a bias,
# 0.255 by an auxiliary loss, which the machine's figure is of.
BIAS_BALANCED_FRAC = 0.193 / 0.255
NVFP4_COPIES_BYTES = 2 * (0.5 + 1 / 16)


def number_formats(stated: Mapping[str, Any], precision: str) -> dict[str, Any]:
    """Bytes of weights, gradients and optimizer state.

    Weights 2 B. 8- and 4-bit recipes keep a row- and a column-wise copy: instead of the bf16 weight where parameters are
    gathered in fp8 or by FSDP, else beside it (Transformer Engine caches both over a step's micro-batches). NVFP4's two copies
    take half a byte each and a scale of one byte per 16. MXFP8 weights are gathered in 16 bit all the same (Megatron-LM,
    reuse_grad_buf_for_mxfp8_param_ag).
    """
    value = _reader(stated)
    eight_bit = precision not in SIXTEEN_BIT
    grad = GRADIENT_DTYPES[value("grad_dtype")]
    reduce = value("grad_reduce_dtype")
    narrow_gather = eight_bit and (
        value("fp8_gather") or (value("fp8_param_gather") and precision in ("fp8", "fp8_block"))
    )
    alone = not eight_bit or value("fp8_param_gather") or value("fp8_gather") or value("fsdp")
    return {
        "weight_bytes": 2.0,
        "cached_weight_bytes": 0.0 if alone else NVFP4_COPIES_BYTES if precision == "nvfp4" else 2.0,
        "grad_bytes": grad,
        "grad_reduce_bytes": GRADIENT_DTYPES.get(reduce, grad),
        "gather_bytes": 1.0 if narrow_gather else 0.0,
        "optimizer_bytes": MASTER_DTYPES[value("master_dtype")]
        + MOMENTS[value("optimizer")] * MOMENT_DTYPES[value("moment_dtype")],
        # whole gradients in fp32 need no second copy beside the optimizer
        "master_grad_bytes": 4.0 if value("master_grad_dtype") == "fp32" and grad < 4.0 else 0.0,
    }


def _of_adapters(formats: dict[str, Any], model: ModelSpec, rank: int, fsdp: bool) -> dict[str, Any]:
    """Bytes of a parameter of the model where only adapters are trained: weights of both; gradients and optimizer state of
    the adapters alone; and gathered at the end of a step (not by FSDP, which gathers every weight) the adapters alone."""
    if not rank:
        return formats
    frac = adapter_parameters(model, rank) / model.parameters()
    trained = ("grad_bytes", "grad_reduce_bytes", "optimizer_bytes", "master_grad_bytes")
    found = {name: value * frac if name in trained else value for name, value in formats.items()}
    found["weight_bytes"] = formats["weight_bytes"] + SIXTEEN_BIT_BYTES * frac
    if not fsdp:
        found["gather_bytes"] = SIXTEEN_BIT_BYTES * frac
    return found


def _imbalance(asked: float | None, context: Context, software: SoftwareStack, hardware: HardwareProfile) -> float:
    """1 where all experts are equal; else what is asked, or the machine's figure up to the capacity."""
    if context.kind == "dense":
        return 1.0
    if asked is not None:
        return asked
    if software.forced_balance:
        return 1.0
    usual, capacity = max(hardware.expert_imbalance, 1.0), software.moe_capacity_factor
    if software.bias_balanced:
        usual = 1.0 + BIAS_BALANCED_FRAC * (usual - 1.0)
    return max(min(usual, capacity), 1.0) if capacity else usual


def without_in_network(profile: HardwareProfile) -> HardwareProfile:
    """The machine with reduction in its switches off."""
    tiers = tuple(dataclasses.replace(tier, curves=_plain(tier.curves)) for tier in profile.tiers)
    return dataclasses.replace(profile, tiers=tiers)


def _plain(curves: Mapping[str, CollectiveCurve]) -> dict[str, CollectiveCurve]:
    return {op: dataclasses.replace(curve, in_network_ranks=0) for op, curve in curves.items()}

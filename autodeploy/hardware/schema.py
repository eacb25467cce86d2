"""What a profile file may hold: pydantic models of the document without provenance, units still those of the file.

Only users' files pass through here (and the shipped ones in a test): importing pydantic costs more than a profile.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from autodeploy.errors import InputError

LARGEST = 1e18  # no figure of a machine is near it; larger ones overflow further on


def _number(value: Any) -> Any:
    """What YAML 1.1 reads as text although it is a number (``3e3``), and nothing else: "77.5" in quotes is the same text, so
    both are read as the number. true, null and words stay what they are, and are refused."""
    if isinstance(value, str) and len(value) <= 40 and _NUMERAL.match(value):
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number")
    return value


def _whole(value: Any) -> Any:
    found = _number(value)
    return int(found) if isinstance(found, float) and found.is_integer() else found


_NUMERAL = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False, le=LARGEST)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, le=1)]
PositiveShare = Annotated[Number, Field(gt=0, le=1)]
Count = Annotated[int, BeforeValidator(_whole), Field(gt=0, le=10**12)]

Precision = Literal["bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "fp4", "fp32"]
Kernel = Literal["flash1", "flash2", "flash3", "cudnn", "triton", "npu_flash"]
Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class GemmSection(_Section):
    efficiency_max_frac: PositiveShare
    k_half: NotNegative
    launch_us: NotNegative
    wave_exponent: Share
    memory_efficiency_frac: PositiveShare
    small_tile_frac: PositiveShare = 1
    large_tile: bool = False
    droop_frac: Annotated[Number, Field(ge=0, lt=1)] = 0
    droop_half_flop: Positive = 1
    dgrad_frac: Positive = 1
    wgrad_frac: Positive = 1
    quantize_memory_frac: Share = 0


class GroupedGemmSection(_Section):
    efficiency_max_frac: PositiveShare
    rows_half: NotNegative
    launch_us: NotNegative
    memory_efficiency_frac: PositiveShare
    dgrad_frac: Positive = 1
    wgrad_frac: Positive = 1


class AttentionSection(_Section):
    forward_efficiency_frac: PositiveShare
    backward_efficiency_frac: PositiveShare
    seq_half: NotNegative
    tile_half: NotNegative
    launch_us: NotNegative
    head_dim_frac: dict[Count, Positive] = {}
    backward_seq_half: NotNegative | None = None
    backward_tile_half: NotNegative | None = None


class CollectiveSection(_Section):
    latency_us: NotNegative
    efficiency_frac: Positive
    ramp_sqrt_us: NotNegative = 0
    latency_per_rank_us: NotNegative = 0
    pair_efficiency_frac: NotNegative = 0
    in_network_ranks: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=10**12)] = 0
    in_network_efficiency_frac: NotNegative = 0


class FitsSection(_Section):
    gemm: dict[Precision, GemmSection]
    grouped_gemm: dict[Precision, GroupedGemmSection]
    attention: dict[Kernel, AttentionSection]
    collectives: dict[str, dict[Operation, CollectiveSection]]


class DeviceSection(_Section):
    vendor: Literal["nvidia", "amd", "ascend"]
    peak_tflop_per_s: dict[Precision, Positive]
    hbm_gb: Positive | None = None
    hbm_gib: Positive | None = None
    usable_gib: Positive
    hbm_bandwidth_gb_per_s: Positive
    compute_units: Count
    memory_bound_frac: PositiveShare
    kernel_launch_us: NotNegative


class TierSection(_Section):
    cards: Count
    link_gb_per_s: Positive
    full_mesh: bool = False
    curves_from: str | None = None


class OverheadsSection(_Section):
    step_ms: NotNegative | None = None
    micro_batch_us: NotNegative | None = None
    host_kernel_us: NotNegative | None = None
    optimizer_bandwidth_frac: PositiveShare | None = None
    overlap_slowdown_frac: NotNegative | None = None
    straggler_frac_per_doubling: NotNegative | None = None
    context_gib: NotNegative | None = None
    communication_buffer_gib: NotNegative | None = None
    fragmentation_frac: Share | None = None
    host_link_gb_per_s: Positive | None = None
    host_dram_gb_per_s: Positive | None = None
    host_adam_gb_per_s: Positive | None = None


class TrainingSection(_Section):
    sustained_frac: PositiveShare | None = None
    grouped_frac: Positive | None = None
    fp8_frac: Positive | None = None
    block_scaled_frac: Positive | None = None
    fp4_frac: Positive | None = None
    memory_bound_frac: PositiveShare | None = None
    step_ms: NotNegative | None = None
    network_frac: Positive | None = None
    overlap_slowdown_frac: NotNegative | None = None
    tp_overlap_hidden_frac: Share | None = None
    host_kernel_us: NotNegative | None = None
    backward_host_frac: Positive | None = None


class ProfileSection(_Section):
    name: Annotated[str, Field(min_length=1)]
    aliases: list[str] = []
    summary: str = ""
    backend: Literal["megatron", "mindspeed", "megatron-bridge", "torchtitan"] = "megatron"
    cards_per_node: Count = 8
    expert_imbalance: Annotated[Number, Field(ge=1, le=1e6)] = 1
    price_per_card_hour_usd: NotNegative = 0
    power_per_card_w: NotNegative = 0
    device: DeviceSection
    tiers: Annotated[dict[str, TierSection], Field(min_length=1)]
    overheads: OverheadsSection = OverheadsSection()
    stack: dict[str, Any] = {}
    training: TrainingSection = TrainingSection()
    fits: FitsSection


def validate(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its values as they were validated; InputError for the first fault, naming its field by its path."""
    try:
        checked = ProfileSection.model_validate(document)
    except ValidationError as errors:
        raise _first(errors) from None
    document = checked.model_dump(exclude_unset=True, exclude_none=True)
    device = document["device"]
    memory = "hbm_gib" if "hbm_gib" in device else "hbm_gb"
    if memory not in device:
        raise InputError("device.hbm_gb", None, "a number > 0", "add `hbm_gb: 80` (or `hbm_gib`)")
    hbm_gib = device[memory] * (1.0 if memory == "hbm_gib" else 1e9 / 2**30)
    if device["usable_gib"] > hbm_gib:
        raise InputError("device.usable_gib", device["usable_gib"], f"at most the card's memory ({hbm_gib:.2f} GiB)")
    _check_tiers(document)
    _check_stack(document.get("stack", {}))
    return document


def _check_tiers(document: dict[str, Any]) -> None:
    tiers = document["tiers"]
    cards = [tier["cards"] for tier in tiers.values()]
    if len(set(cards)) != len(cards):
        raise InputError("tiers.*.cards", cards, "different for every tier", "tiers are ordered by the cards they hold")
    per_node, largest = document.get("cards_per_node", 8), max(cards)
    if per_node > largest:
        raise InputError("cards_per_node", per_node, f"at most the largest tier's cards ({largest})")
    for name, tier in tiers.items():
        source = tier.get("curves_from")
        if source is not None and source not in document["fits"]["collectives"]:
            known = ", ".join(document["fits"]["collectives"])
            raise InputError(f"tiers.{name}.curves_from", source, f"one of {known}")


def _check_stack(stack: dict[str, Any]) -> None:
    import dataclasses

    from cost_models.inputs import SoftwareStack

    defaults = {field.name: getattr(SoftwareStack(), field.name) for field in dataclasses.fields(SoftwareStack)}
    for name, value in stack.items():
        if name not in defaults:
            raise _unknown(f"stack.{name}", value, list(defaults))
        kind = type(defaults[name])
        if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            if not (math.isfinite(value) and 0 <= value <= LARGEST):
                raise InputError(f"stack.{name}", value, f"a number from 0 to {LARGEST:.0e}")
            continue
        if type(value) is not kind or (kind is int and not 0 <= value <= LARGEST):
            raise InputError(f"stack.{name}", value, {bool: "true or false", str: "a word"}.get(kind, "a number"))
    kernels = ("unfused", "fused_softmax", *get_args(Kernel))
    if stack.get("attention_kernel", "flash2") not in kernels:
        raise InputError("stack.attention_kernel", stack["attention_kernel"], f"one of {', '.join(kernels)}")


def _first(errors: ValidationError) -> InputError:
    """The first error in our words: pydantic's kind of error decides what is said to be allowed."""
    error = errors.errors(include_url=False)[0]
    path = [str(part) for part in error["loc"] if part != "[key]"]
    field, value = ".".join(path), error.get("input")
    if error["type"] == "extra_forbidden":
        return _unknown(field, value, _fields_at(path[:-1]))
    if error["type"] == "missing":
        return InputError(field, None, "present", f"add `{path[-1]}` or `extends: <a profile>` to inherit it")
    allowed = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return InputError(field, value, allowed)


def _unknown(field: str, value: Any, known: list[str]) -> InputError:
    near = difflib.get_close_matches(field.rsplit(".", 1)[-1], known, n=1)
    remedy = f"did you mean {near[0]}?" if near else "remove it"
    return InputError(field, value, f"a known field: {', '.join(known)}", remedy)


def _fields_at(path: list[str]) -> list[str]:
    """Field names of the section at a path."""
    section: Any = ProfileSection
    for part in path:
        fields = getattr(section, "model_fields", None)
        annotation = fields[part].annotation if fields and part in fields else None
        section = _section_of(annotation) if annotation is not None else section
    return list(getattr(section, "model_fields", {}))


def _section_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in reversed(get_args(annotation)):
        found = _section_of(inner)
        if found is not None:
            return found
    return None

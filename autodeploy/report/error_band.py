"""How far a predicted step time is to be trusted: the p90 error of the measured runs that the case resembles."""

from __future__ import annotations

import json
from importlib import resources

from cost_models.inputs import HardwareProfile, ModelSpec

# (start of the profile's name, 8- or 4-bit precision, MoE or None for either) -> accuracy group; the first that matches.
RESEMBLES: tuple[tuple[str, bool, bool | None, str], ...] = (
    ("a100", False, None, "vtrain_multi/bf16"),
    ("h100", False, True, "moe_modelzoo/bf16"),
    ("h100", False, False, "dgxc/bf16"),
    ("h100", True, None, "dgxc/fp8"),
    ("h200", False, None, "dgxc/bf16"),
    ("h200", True, None, "dgxc/fp8"),
    ("h800", False, True, "moe_modelzoo/bf16"),
    ("h800", False, False, "dgxc/bf16"),
    ("b200", False, None, "simumax_b200/bf16"),
    ("gb", False, None, "megatron_bridge/bf16"),
    ("gb", True, None, "megatron_bridge/fp8"),
    ("b200", True, None, "megatron_bridge/fp8"),
    ("ascend", False, None, "ascend/bf16"),
    ("atlas", False, None, "ascend/bf16"),
    ("cloudmatrix", False, None, "ascend/bf16"),
)


def resembling_group(model: ModelSpec, hardware: HardwareProfile, precision: str) -> str | None:
    """Name of the accuracy group, or None where nothing measured resembles the case."""
    low_bit = precision not in ("bf16", "fp16")
    moe = any(kind.feed_forward is not None and kind.feed_forward.is_moe for kind in model.kinds)
    for start, wants_low_bit, wants_moe, group in RESEMBLES:
        if hardware.name.startswith(start) and low_bit == wants_low_bit and wants_moe in (None, moe):
            return group
    return None


def step_time_error_frac(model: ModelSpec, hardware: HardwareProfile, precision: str) -> float | None:
    """p90 of |predicted - measured| / measured over the group; None where there is none, or no figure for it."""
    group = resembling_group(model, hardware, precision)
    file = resources.files("autodeploy") / "accuracy" / "baseline.json"
    if group is None or not file.is_file():
        return None
    figures = json.loads(file.read_text(encoding="utf-8"))["groups"].get(group, {})
    value = figures.get("time_p90_ape")
    return None if value is None else float(value)

"""The dump of arguments at the head of a Megatron or MindSpeed training log -> the arguments that it was started with."""

from __future__ import annotations

import re

_LINE = re.compile(r"^(?:\S*\s*\[?\w*\]?:?\s*)??\s*([a-z][a-z0-9_]+)\s\.{3,}\s(.+?)\s*$")
OFF = ("False", "None", "[]", "", "()")
# Arguments whose flag means the opposite of the attribute, and attributes under another name.
NEGATED = {
    "add_bias_linear": "disable-bias-linear", "gradient_accumulation_fusion": "no-gradient-accumulation-fusion",
    "overlap_p2p_comm": "no-overlap-p2p-communication", "apply_rope_fusion": "no-rope-fusion",
    "bias_swiglu_fusion": "no-bias-swiglu-fusion", "bias_dropout_fusion": "no-bias-dropout-fusion",
}  # fmt: skip
RENAMED = {"fp8": "fp8-format", "fp4": "fp4-format"}
# Set by Megatron itself from other arguments.
DERIVED = ("encoder_num_layers", "encoder_seq_length", "virtual_pipeline_model_parallel_size", "data_parallel_size")


def is_log(text: str) -> bool:
    return len(re.findall(r"^.*\b[a-z][a-z0-9_]+ \.{3,} ", text, re.MULTILINE)) >= 20


def log_arguments(text: str) -> dict[str, tuple[str, ...]]:
    """Argument without dashes -> its values."""
    found: dict[str, tuple[str, ...]] = {}
    dumped = {}
    for line in text.splitlines():
        match = re.search(r"([a-z][a-z0-9_]+) \.{3,} (.*?)\s*$", line)
        if match:
            dumped[match.group(1)] = match.group(2)
    for name, text_value in dumped.items():
        if name in NEGATED:
            if text_value == "False":
                found[NEGATED[name]] = ()
        elif name not in DERIVED and text_value not in OFF:
            found[RENAMED.get(name, name.replace("_", "-"))] = () if text_value == "True" else _values(text_value)
    if dumped.get("moe_layer_freq", "").startswith("["):
        found["moe-layer-freq"] = (dumped["moe_layer_freq"],)
    virtual = dumped.get("virtual_pipeline_model_parallel_size", "None")
    if virtual.isdecimal() and "pipeline-model-parallel-layout" not in found:
        found["num-virtual-stages-per-pipeline-rank"] = (virtual,)
        found.pop("num-layers-per-virtual-pipeline-stage", None)
    return found


def _values(text: str) -> tuple[str, ...]:
    if text.startswith("[") and text.endswith("]"):
        return tuple(part.strip().strip("'\"") for part in text[1:-1].split(","))
    if text.startswith("{") and text.endswith("}"):  # MindSpeed's set of no-op layers
        return (
            ",".join(
                sorted((part.strip() for part in text[1:-1].split(",")), key=lambda n: int(n) if n.isdecimal() else 0)
            ),
        )
    return (text,)

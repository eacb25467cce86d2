"""YAML of Megatron-Bridge, NeMo, or of a recipe's printed configuration -> the arguments that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autodeploy.launch.bridge_names import OTHER_RECIPES, RECIPES, as_arguments

MARKS = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size")
PRECISION = {
    "bf16": {"bf16": ()}, "fp16": {"fp16": ()}, "fp8": {"bf16": (), "fp8-format": ("hybrid",)},
    "fp8_block": {"bf16": (), "fp8-format": ("e4m3",), "fp8-recipe": ("blockwise",)},
    "mxfp8": {"bf16": (), "fp8-format": ("e4m3",), "fp8-recipe": ("mxfp8",)},
    "nvfp4": {"bf16": (), "fp4-format": ("e2m1",)},
}  # fmt: skip


def is_bridge(document: Any) -> bool:
    found = dict(_leaves(document)) if isinstance(document, dict) else {}
    return sum(mark in found for mark in MARKS) >= 2


def bridge_arguments(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Settings of any section by their own name; what a section is called does not matter."""
    leaves = dict(_leaves(document))
    found: dict[str, tuple[str, ...]] = {}
    for key, value in leaves.items():
        found |= as_arguments(key, value)
    _nemo(leaves, found)
    kv, heads = leaves.get("num_query_groups"), leaves.get("num_attention_heads")
    if kv is not None and kv != heads:
        found["group-query-attention"] = ()
    found |= _precision(document, leaves)
    return found


def _leaves(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield str(key), value


def _nemo(leaves: dict[str, Any], found: dict[str, tuple[str, ...]]) -> None:
    """NeMo's own words: nodes x devices, the activation by name, biases, the optimizer's name."""
    nodes, per_node = leaves.get("num_nodes"), leaves.get("devices", leaves.get("num_gpus_per_node"))
    if isinstance(nodes, int) and isinstance(per_node, int) and "world-size" not in found:
        found["world-size"] = (str(nodes * per_node),)
    if "swiglu" in str(leaves.get("activation", "")):
        found["swiglu"] = ()
    if leaves.get("bias") is False:
        found["disable-bias-linear"] = ()
    if str(leaves.get("normalization", "")).lower() == "rmsnorm":
        found["normalization"] = ("RMSNorm",)
    if "distributed" in str(leaves.get("name", "")) or "distributed_fused_adam" in str(leaves.get("optim", "")):
        found["use-distributed-optimizer"] = ()
    if leaves.get("rotary_percentage") is not None or leaves.get("rotary_base") is not None:
        found.setdefault("position-embedding-type", ("rope",))
    virtual = found.get("num-virtual-stages-per-pipeline-rank")
    if "pipeline-model-parallel-layout" in found or virtual == ("1",):
        found.pop("num-virtual-stages-per-pipeline-rank", None)


def _precision(document: dict[str, Any], leaves: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    names = {recipe: precision for precision, recipe in RECIPES.items()} | OTHER_RECIPES
    word = document.get("mixed_precision", leaves.get("precision", "bf16"))
    return PRECISION[names.get(str(word), "bf16")]  # type: ignore[return-value]

"""torchtitan's words for what the notation calls otherwise, told once for both directions.

Sources: torchtitan models/*/__init__.py (flavors), config/job_config.py of 2025 (TOML keys), distributed/pipeline_parallel.py.
"""

from __future__ import annotations

from cost_models.inputs import ModelSpec

# Zoo model -> torchtitan's model and flavor. The first of several zoo names is what a flavor reads back as.
FLAVORS = {
    "llama-3-8b": ("llama3", "8B"), "llama-3.1-8b": ("llama3", "8B"), "llama-3-70b": ("llama3", "70B"),
    "llama-3.1-70b": ("llama3", "70B"), "llama-3.1-405b": ("llama3", "405B"), "deepseek-v3": ("deepseek_v3", "671B"),
    "qwen3-0.6b": ("qwen3", "0.6B"), "qwen3-1.7b": ("qwen3", "1.7B"), "qwen3-8b": ("qwen3", "8B"),
    "qwen3-14b": ("qwen3", "14B"), "qwen3-32b": ("qwen3", "32B"), "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
    "qwen3-235b-a22b": ("qwen3", "235B-A22B"), "gpt-oss-20b": ("gpt_oss", "20b"), "gpt-oss-120b": ("gpt_oss", "120b"),
}  # fmt: skip
RESHARD = {3: "always", 2: "never"}  # parameters are given back after the forward, or kept
CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
BACKENDS = {"alltoall": "standard", "hierarchical-dedup": "deepep"}
# Operator-wise activation checkpointing runs norms and activations again, products and attention not.
OP_WISE_MOE, OP_WISE_DENSE = ("moe_act", "layernorm"), ("layernorm",)


def op_wise(model: ModelSpec) -> tuple[str, ...]:
    moe = any(half.is_moe for kind in model.kinds for half in kind.feed_forwards)
    return OP_WISE_MOE if moe else OP_WISE_DENSE

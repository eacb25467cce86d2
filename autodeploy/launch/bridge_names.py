"""Names of Megatron-Bridge's (and NeMo's) configuration beside Megatron-LM's arguments, told once for both directions.

Sources: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/config.py (ConfigContainer), TransformerConfig,
DistributedDataParallelConfig, OptimizerConfig; NeMo 2.x's YAML of megatron_gpt_config.
"""

from __future__ import annotations

from typing import Any

RECIPES = {
    "bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed",
    "fp8_block": "bf16_with_fp8_subchannel_scaling_mixed", "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}  # fmt: skip
OTHER_RECIPES = {"bf16_with_fp8_current_scaling_mixed": "fp8", "bf16": "bf16", "bf16-mixed": "bf16", "16-mixed": "fp16"}

SECTION_OF = {
    "micro-batch-size": "train", "global-batch-size": "train", "use-distributed-optimizer": "ddp",
    "overlap-grad-reduce": "ddp", "overlap-param-gather": "ddp", "use-megatron-fsdp": "ddp",
    "data-parallel-sharding-strategy": "ddp", "fp8-param-gather": "ddp", "optimizer-cpu-offload": "optimizer",
    "optimizer-offload-fraction": "optimizer", "use-precision-aware-optimizer": "optimizer", "exp-avg-dtype": "optimizer",
    "exp-avg-sq-dtype": "optimizer", "optimizer": "optimizer", "tp-comm-overlap": "comm_overlap",
    "ckpt-format": "checkpoint",
}  # fmt: skip
KEY_OF = {
    "num-experts": "num_moe_experts", "microbatch-group-size-per-virtual-pipeline-stage": "microbatch_group_size_per_vp_stage",
}  # fmt: skip
# Arguments that are the opposite, or the only word, of a setting: argument -> (section, key, value).
WORDS: dict[str, tuple[str, str, Any]] = {
    "no-gradient-accumulation-fusion": ("model", "gradient_accumulation_fusion", False),
    "no-rope-fusion": ("model", "apply_rope_fusion", False),
    "no-bias-swiglu-fusion": ("model", "bias_activation_fusion", False),
    "no-bias-dropout-fusion": ("model", "bias_dropout_fusion", False),
    "no-overlap-p2p-communication": ("comm_overlap", "overlap_p2p_comm", False),
    "untie-embeddings-and-output-weights": ("model", "share_embeddings_and_output_weights", False),
    "disable-bias-linear": ("model", "add_bias_linear", False),
    "swiglu": ("model", "gated_linear_unit", True),
    "accumulate-allreduce-grads-in-fp32": ("ddp", "grad_reduce_in_fp32", True),
    "grad-reduce-in-bf16": ("ddp", "grad_reduce_in_fp32", False),
}
UNSAID = ("group-query-attention", "bf16", "fp16", "fp8-format", "fp8-recipe", "fp4-format", "fp4-recipe")
# Settings of NeMo and of attribute dumps under names of their own.
ALIASES = {
    "encoder_seq_length": "seq-length", "activations_checkpoint_granularity": "recompute-granularity",
    "activations_checkpoint_method": "recompute-method", "activations_checkpoint_num_layers": "recompute-num-layers",
    "moe_deepep": "moe-enable-deepep", "world_size": "world-size",
    "virtual_pipeline_model_parallel_size": "num-virtual-stages-per-pipeline-rank",
    "num_layers_in_first_pipeline_stage": "decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "decoder-last-pipeline-num-layers",
    "account_for_embedding_in_pipeline_split": "account-for-embedding-in-pipeline-split",
    "padded_vocab_size": "padded-vocab-size",
}  # fmt: skip


def as_setting(name: str, values: tuple[str, ...]) -> tuple[str, str, Any] | None:
    """Section, key and value of an argument; None where the configuration has it without a word."""
    if name in UNSAID:
        return None
    if name in WORDS:
        return WORDS[name]
    return SECTION_OF.get(name, "model"), KEY_OF.get(name, name.replace("-", "_")), _value(name, values)


def _value(name: str, values: tuple[str, ...]) -> Any:
    if not values:
        return True
    if name in ("recompute-modules", "offload-modules"):
        return list(values)
    for kind in (int, float):
        try:
            return kind(values[0])
        except ValueError:
            continue
    return values[0]


def as_arguments(key: str, value: Any) -> dict[str, tuple[str, ...]]:
    """Arguments that a setting stands for; empty where it is off, or says what is usual."""
    for name, (_, word, meant) in WORDS.items():
        if key == word and value == meant and isinstance(value, bool):
            return {name: ()}
    if key in {word for _, word, _ in WORDS.values()} and key not in ("swiglu",):
        return {}
    back = {setting: name for name, setting in KEY_OF.items()}
    name = back.get(key) or ALIASES.get(key) or key.replace("_", "-")
    if value is True:
        return {name: ()}
    if value is None or value is False:
        return {}
    if isinstance(value, list):
        return {name: tuple(str(one) for one in value)}
    return {name: (str(value),)}

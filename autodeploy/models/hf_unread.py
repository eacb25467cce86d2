"""Which keys of a configuration were not used although they look as if they changed the model."""

from __future__ import annotations

import re

from autodeploy.models.hf_keys import Keys

SHAPE_LIKE = re.compile(
    r"^(num|n)_|_(size|sizes|dim|dims|period|offset|types|type|layers|rank|ranks|heads|experts|width|kernel|factor|pattern)$"
    r"|(_act|_activation|^activation|activation_function|^afn)$|_config$"
)
# Keys with such names that change no weight and no FLOP of training: generation, tokens, tasks, kernels, position scaling,
# router arithmetic, initialisation, and the sizes of vision and audio parts, which are said to be left out.
MEANINGLESS = re.compile(
    r"^(num_(labels|beams|beam_groups|return_sequences|logits_to_keep|codebooks|channels|image_tokens|assistant_tokens)"
    r"|model_type|problem_type|chunk_size_feed_forward|encoder_no_repeat_ngram_size|no_repeat_ngram_size|image_size"
    r"|cross_attention_hidden_size|finetuning_task|summary_.*|mlc_.*|.*quantization.*|rope_.*|.*_rope.*|partial_rotary_factor"
    r"|rotary_.*|routed_scaling_factor|router_.*_coef|routed?_scale|.*_scaling_factor|capacity_factor|initializer_factor"
    r"|time_step_.*|mamba_ssm_cache_dtype|.*_chunk_size|chunk_size|prefill_chunk_size|context_window_size"
    r"|tensor_parallel.*|pretraining_tp|tp_size|vision_.*|audio_.*|speech_.*|image_.*|video_.*|img_.*|mm_.*|perceiver.*"
    r"|.*_token_id|.*token_index|.*_token_ids|transformers_version|classifier_.*|mup_.*|.*_multiplier|.*_multipliers"
    r"|query_pre_attn_scalar|n_ctx|norm_type|position_embedding_type|scoring_func|score_func|topk_method|gating_types?"
    r"|initializer_cutoff_factor|hidden_mamba_act|mamba_hidden_act|expert_dtype|type_vocab_size|max_batch_size|bpe_.*"
    r"|kv_cache.*|attention_type|attn_implementation|attn_type|eos_.*|bos_.*|pad_.*|sep_.*|cls_.*|per_layer_config"
    r"|num_hash_layers|n_gram_.*|num_hidden_layers_.*|mtp_.*|use_.*|output_.*|.*dropout.*|_name_or_path|.*_version"
    r"|ep_size|activation_sparsity_pattern|.*(sequence|step|wise)_kernel|.*_(alpha|beta)_factor|org_vocab_size|anyres_.*|vit_.*"
    r"|num_media_embeds|pool_type|qk_norm_type|attention_sink_size|block_size|word_embed_proj_dim|cla_.*|keep_window_size"
    r"|auto_map|task_specific_params|id2label|label2id|generation_config|max_window_layers|layer_rope_theta)$"
)


def unread_keys(keys: Keys) -> tuple[str, ...]:
    """Shape-like keys with a value that nothing read, in the file's order."""
    return tuple(name for name, value in keys.raw.items() if _counts(value) and _shape_like(name, keys))


def _counts(value: object) -> bool:
    """A value that could change something: not null, not false, not zero, not empty."""
    return bool(value) and value != -1


def _shape_like(name: str, keys: Keys) -> bool:
    return name not in keys.used and bool(SHAPE_LIKE.search(name)) and not MEANINGLESS.match(name)

"""What the modelling code of a family fixes and its config.json does not say.

Source of each row: the modelling file of that model_type in Hugging Face transformers (or the file that the release
carries). A family is data: to add one, add a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Defaults of a model_type; the configuration's own keys win where it has them."""

    gated: bool | None = None  # None: by the activation
    tied: bool = False  # where tie_word_embeddings is absent
    norms: int = 2  # norms of the hidden size per layer
    norm_bias: bool = False
    qkv_bias: bool = False  # fixed, whatever attention_bias says
    output_bias: bool | None = None  # None: as attention_bias
    mlp_bias: bool = False
    router_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    qk_norm_full: bool = False
    output_gate: bool = False
    sinks: bool = False
    shared_gate: bool = False
    learned_positions: bool = False
    embedding_norm: bool = False
    window: str = "all"  # which layers slide where layer_types is absent: all | even | pattern | none | above
    window_pattern: int = 6  # every n-th layer is full
    plain_width: int = 0  # FFN width in units of hidden where the key is absent
    expert_width_is_dense: bool = False  # Llama 4: intermediate_size is the expert's
    known: bool = True


LLAMA = Family(gated=True)
QWEN2 = Family(gated=True, qkv_bias=True, output_bias=False, window="above")
QWEN3 = Family(gated=True, qk_norm=True, window="above")
QWEN3_NEXT = replace(QWEN3, output_gate=True, shared_gate=True)
GEMMA2 = Family(gated=True, tied=True, norms=4, window="even")
GEMMA3 = replace(GEMMA2, qk_norm=True, window="pattern")
GLM4_MOE = Family(gated=True, output_bias=False, router_bias=True)
DEEPSEEK = Family(gated=True)
OLMO2 = Family(gated=True, qk_norm=True, qk_norm_full=True, window="none")
MINIMAX_M2 = Family(gated=True, qk_norm=True, qk_norm_full=True, router_bias=True, window="none")
PANGU = Family(gated=True, norms=4, window="none")
HUNYUAN = Family(gated=True, qk_norm=True)
GPT = Family(
    gated=False, tied=True, norm_bias=True, qkv_bias=True, output_bias=True, mlp_bias=True, plain_width=4, window="none"
)

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": LLAMA,
    "minicpm": LLAMA,
    "phi3": LLAMA,
    "yi": LLAMA,
    "internlm2": LLAMA,
    "baichuan": LLAMA,
    "seed_oss": LLAMA,
    "llama4": Family(gated=True, expert_width_is_dense=True),
    "llama4_text": Family(gated=True, expert_width_is_dense=True),  # query/key norm there has no weights
    "qwen2": QWEN2,
    "qwen2_moe": replace(QWEN2, shared_gate=True),
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3,
    "qwen3_next": QWEN3_NEXT,
    "qwen3_5_text": QWEN3_NEXT,
    "qwen3_5_moe": QWEN3_NEXT,
    "qwen3_5_moe_text": QWEN3_NEXT,
    "gemma": Family(gated=True, tied=True),
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma3_text": GEMMA3,
    "gemma4": GEMMA3,
    "gemma4_text": GEMMA3,
    "deepseek": DEEPSEEK,
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "deepseek_v32": DEEPSEEK,
    "deepseek_v4": replace(DEEPSEEK, window="none"),
    "kimi_k2": DEEPSEEK,
    "glm4_moe": GLM4_MOE,
    "glm_moe_dsa": DEEPSEEK,
    "dots1": replace(DEEPSEEK, qk_norm=True),
    "ernie4_5": replace(LLAMA, tied=True),
    "ernie4_5_moe": replace(LLAMA, tied=True, router_bias=True),
    "hunyuan": HUNYUAN,
    "hunyuan_v1_moe": HUNYUAN,
    "gpt_oss": Family(gated=True, sinks=True, mlp_bias=True, router_bias=True, window="even"),
    "dbrx": Family(gated=True),
    "grok-1": Family(gated=True, tied=True, norms=4),
    "grok": Family(gated=True, tied=True, norms=4),
    "mimo": replace(QWEN2, qkv_bias=False),
    "mimo_v2_flash": Family(gated=True, window="none", router_bias=True),
    "minimax_text_01": Family(gated=True, window="none"),
    "minimax": Family(gated=True, window="none"),
    "minimax_m2": MINIMAX_M2,
    "nemotron": Family(gated=False, norm_bias=True),
    "nemotron_h": Family(gated=False, norms=1, window="none"),
    "olmo2": OLMO2,
    "olmo3": OLMO2,
    "pangu_ultra_moe": PANGU,
    "pangupromoe": PANGU,
    "pangupromoev2": PANGU,
    "phimoe": Family(gated=True, norm_bias=True, window="none"),
    "gpt2": replace(GPT, learned_positions=True),
    "gpt_bigcode": replace(GPT, learned_positions=True),
    "gpt_neox": replace(GPT, tied=False),
    "opt": replace(GPT, learned_positions=True),
    "bloom": replace(GPT, embedding_norm=True),
    "mpt": replace(GPT, norm_bias=False, qkv_bias=False, output_bias=False, mlp_bias=False),
    "falcon": replace(GPT, qkv_bias=False, output_bias=False, mlp_bias=False),
    "starcoder2": replace(GPT, window="all"),
    "phi": replace(GPT, tied=False, head_bias=True),
    "cohere": Family(gated=True, tied=True, norms=1),
}

PLAIN_ACTIVATIONS = frozenset({"relu", "relu2", "squared_relu", "gelu_new", "gelu_fast"})


def find_family(model_type: str, architecture: str) -> Family:
    """The family by model_type, else by the architecture's name; an unknown one has the most usual traits."""
    name = model_type.lower().replace("-", "_")
    if name in FAMILIES or model_type.lower() in FAMILIES:
        return FAMILIES.get(name) or FAMILIES[model_type.lower()]
    stem = architecture.lower()
    for suffix in ("forcausallm", "modelforcausallm", "forconditionalgeneration", "lmheadmodel", "model"):
        stem = stem.removesuffix(suffix)
    compact = {key.replace("_", "").replace("-", ""): family for key, family in FAMILIES.items()}
    return compact.get(stem, Family(known=False))

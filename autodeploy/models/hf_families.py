"""What the modelling code of a family fixes and its config.json does not say.

Source of each row: the modelling file of that model_type in Hugging Face transformers (or the file that the release
carries). A family is data: to add one, add a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


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
    linear: str = ""  # what its linear layers are: lightning | mamba | mamba1 | rwkv | mlstm; "" by the keys
    linear_only: bool = False  # no attention layers unless a list names some
    parallel: bool = False  # attention and state space side by side in every layer (Falcon-H1)
    shared_block: bool = False  # hybrid layers add one transformer block whose weights all share (Zamba)
    plain_mamba2: bool = False  # the mixer's heads are num_heads x head_dim
    state_norms: bool = False  # Mamba-1 with norms of step size, B and C (Jamba)
    full_gates: bool = False  # KDA with full-rank gates
    compressed: bool = False  # DeepSeek-V4's compressed attention
    double: bool = False  # two attentions and two dense MLPs beside the experts of every layer (LongCat)
    head_gate: bool = False  # a gate per head
    norm_per_half: bool = False  # Falcon: two norms with its new decoder, one without
    floor_head_dim: bool = False  # hidden / heads is rounded down
    width_divisor: int = 1  # the stated FFN width is of so many matrices
    top_k_unstated: bool = False
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

MAMBA = Family(gated=True, linear="mamba")
PARALLEL_GPT = replace(GPT, norms=1, tied=False, qkv_bias=False, output_bias=False, head_bias=True)
PURE_MAMBA = Family(gated=True, tied=True, norms=1, linear="mamba1", linear_only=True)
AFMOE = Family(gated=True, qk_norm=True, norms=4, output_gate=True, router_bias=True)
LFM = Family(gated=True, tied=True, qk_norm=True)

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
    "deepseek_v2": replace(DEEPSEEK, top_k_unstated=True),
    "deepseek_v3": DEEPSEEK,
    "deepseek_v32": DEEPSEEK,
    "deepseek_v4": replace(DEEPSEEK, window="none", compressed=True),
    "kimi_k2": DEEPSEEK,
    "glm4_moe": replace(GLM4_MOE, floor_head_dim=True),
    "glm4_moe_lite": DEEPSEEK,
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
    "minimax_text_01": Family(gated=True, window="none", linear="lightning"),
    "minimax": Family(gated=True, window="none", linear="lightning"),
    "minimax_m2": MINIMAX_M2,
    "nemotron": Family(gated=False, norm_bias=True),
    "nemotron_h": Family(gated=False, norms=1, window="none", linear="mamba"),
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
    "falcon": replace(GPT, qkv_bias=False, output_bias=False, mlp_bias=False, norms=1, norm_per_half=True),
    "refinedwebmodel": replace(GPT, qkv_bias=False, output_bias=False, mlp_bias=False, norms=1, norm_per_half=True),
    "falcon_h1": Family(gated=True, linear="mamba", parallel=True),
    "falcon_mamba": PURE_MAMBA,
    "starcoder2": replace(GPT, window="all"),
    "phi": replace(GPT, tied=False, head_bias=True),
    "phi4_multimodal": LLAMA,
    "cohere": Family(gated=True, tied=True, norms=1),
    "cohere2": Family(gated=True, tied=True, norms=1),
    "afmoe": AFMOE,
    "apertus": Family(gated=False, qk_norm=True),
    "apertus1p5_text": Family(gated=False, qk_norm=True),
    "axk1": DEEPSEEK,
    "axk2": DEEPSEEK,
    "bailing_hybrid": Family(gated=True, full_gates=True, head_gate=True, window="none"),
    "bamba": MAMBA,
    "beam": Family(gated=True, qk_norm=True, norms=4, output_gate=True),
    "bitnet": Family(gated=True),
    "codegen": PARALLEL_GPT,
    "gptj": PARALLEL_GPT,
    "gpt_neo": replace(GPT, learned_positions=True, qkv_bias=False),
    "gpt_neox_japanese": replace(GPT, qkv_bias=False, output_bias=False, mlp_bias=False),
    "xglm": GPT,
    "biogpt": replace(GPT, learned_positions=True),
    "openai_gpt": replace(GPT, learned_positions=True),
    "doge": Family(gated=True, qk_norm=True),
    "dory": Family(gated=True, norms=0, output_gate=True),
    "dots3_note": Family(gated=True, head_gate=True),
    "dots3_note_text": Family(gated=True, head_gate=True),
    "exaone4": Family(gated=True, qk_norm=True),
    "gemma3n_text": replace(GEMMA3, window="pattern"),
    "gemma3n": replace(GEMMA3, window="pattern"),
    "gemma4_unified": GEMMA3,
    "gemma4_unified_text": GEMMA3,
    "granitemoehybrid": Family(gated=True, linear="mamba"),
    "hrm_text": Family(gated=True, norms=0, output_gate=True),
    "hy_v3": Family(gated=True, qk_norm=True),
    "hy_v4": Family(gated=True, sinks=True, output_gate=True),
    "inkling2_loop_text": Family(gated=True, output_gate=True),
    "jamba": Family(gated=True, linear="mamba1", state_norms=True),
    "kimi_linear": Family(gated=True, window="none"),
    "laguna": Family(gated=True, qk_norm=True, router_bias=True),
    "lfm2": LFM,
    "lfm2_moe": LFM,
    "lfm3": LFM,
    "longcat_flash": Family(gated=True, norms=4, double=True),
    "mamba": PURE_MAMBA,
    "mamba2": Family(gated=True, norms=1, linear="mamba", linear_only=True, plain_mamba2=True),
    "modernbert_decoder": Family(gated=True, tied=True, embedding_norm=True),
    "moshi": Family(gated=True, width_divisor=2),
    "nemotron_nas": LLAMA,
    "recurrent_gemma": Family(gated=True, tied=True, output_bias=True, mlp_bias=True, width_divisor=2),
    "rwkv": Family(gated=False, norm_bias=True, linear="rwkv", linear_only=True),
    "xlstm": Family(gated=True, linear="mlstm", linear_only=True),
    "zamba": Family(gated=True, tied=True, norms=1, linear="mamba1", shared_block=True),
    "zamba2": Family(gated=True, tied=True, norms=1, linear="mamba", shared_block=True),
    "zaya": Family(gated=True, tied=True),
}

# Encoders and encoder-decoders: they have language-model heads in transformers, but nobody pre-trains them as decoders.
ENCODERS = frozenset({
    "albert", "bart", "bert", "bert_generation", "big_bird", "bigbird_pegasus", "blenderbot", "blenderbot_small",
    "camembert", "data2vec_text", "deberta", "distilbert", "electra", "ernie", "git", "longformer", "marian",
    "mbart", "megatron_bert", "mobilebert", "modernbert", "mt5", "mvp", "pegasus", "plbart", "prophetnet",
    "reformer", "rembert", "roberta", "roberta_prelayernorm", "roc_bert", "roformer", "t5", "trocr", "whisper",
    "xlm", "xlm_roberta", "xlm_roberta_xl", "xlnet", "xmod",
})  # fmt: skip

PLAIN_ACTIVATIONS = frozenset({"relu", "relu2", "squared_relu", "gelu_new", "gelu_fast", "xielu"})
GATED_ACTIVATIONS = frozenset({"silu", "swish", "swiglu", "gelu", "geglu", "gelu_pytorch_tanh", "gelu_python"})


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


def known_type(document: Mapping[str, Any]) -> bool:
    """Whether a configuration's architecture has a row here, or is refused by name."""
    parts = [document, *(document[key] for key in ("text_config", "llm_config") if isinstance(document.get(key), dict))]
    for part in parts:
        listed = part.get("architectures")
        architecture = str(listed[0]) if isinstance(listed, list) and listed else ""
        model_type = str(part.get("model_type") or "")
        if model_type.lower().replace("-", "_") in ENCODERS or find_family(model_type, architecture).known:
            return True
    return False

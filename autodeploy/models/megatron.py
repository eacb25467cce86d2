"""Megatron-LM and MindSpeed-LLM arguments (a launch script, or a text of ``--num-layers 32 ...``) to ``ModelSpec``.

Names and defaults follow Megatron-LM's ``megatron/training/arguments.py`` and MindSpeed-LLM's additions to it; where the
two differ in a name, both are read. Shell variables are resolved from assignments in the same file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from autodeploy.errors import InputError
from autodeploy.models.runs import MOST_LAYERS, layer_pattern, runs_of
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec

ASSIGNMENT = re.compile(r"^\s*(?:export\s+|local\s+|declare\s+)?([A-Za-z_]\w*)=(.*)$")
VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}|\$([A-Za-z_]\w*)")


def parse_arguments(text: str, name: str = "model") -> ModelSpec:
    """The model that the arguments build. InputError names the argument that is missing or wrong."""
    given = Arguments(read_arguments(text))
    notes: list[str] = []
    layers = given.count("num-layers")
    if layers > MOST_LAYERS:
        raise InputError("--num-layers", layers, f"a whole number <= {MOST_LAYERS}")
    if "spec" in given.values:
        notes.append("--spec is not read: layers are those of the other arguments")
    if given.flag("enable-dsa-indexer"):
        notes.append("sparse attention is read as full attention; its indexer is not counted")
    mixers = _mixers(given, layers)
    mlps = _mlps(given, layers)
    norms = 4 if given.flag("post-norm", "sandwich-norm") else 2
    kinds = [LayerKind(attention=a, feed_forward=f, norms=norms) for a, f in zip(mixers, mlps, strict=True)]
    idle = _noop_layers(given, layers)
    if len(idle) == layers:
        raise InputError("--noop-layers", given.text("noop-layers"), f"fewer than all {layers} layers")
    learned = given.text("position-embedding-type", default="learned_absolute") == "learned_absolute"
    learned = learned and not given.flag("use-rotary-position-embeddings")
    longest = given.count("max-position-embeddings", default=given.count("seq-length", default=0))
    return ModelSpec(
        name=name,
        hidden=given.count("hidden-size"),
        vocab=_vocab(given),
        layers=runs_of(kind for i, kind in enumerate(kinds) if i not in idle),
        tied_embeddings=not given.flag("untie-embeddings-and-output-weights"),
        mtp_modules=given.count("mtp-num-layers", "num-nextn-predict-layers", default=0),
        norm_bias=given.text("normalization", default="LayerNorm") != "RMSNorm",
        learned_positions=longest if learned else 0,
        embedding_norm=given.flag("embed-layernorm"),
        max_seq_length=longest,
        notes=tuple(notes),
    )


# ------------------------------------------------------------------------------------------- reading the text


def read_arguments(text: str) -> dict[str, str | None]:
    """Argument -> its value (None for a flag), the last occurrence winning."""
    lines = [re.sub(r"(^|\s)#.*$", "", line) for line in text.splitlines()]
    joined = "\n".join(lines).replace("\\\n", " ")
    variables: dict[str, str] = {}
    for line in joined.splitlines():
        found = ASSIGNMENT.match(line)
        if found and not found.group(2).lstrip().startswith("("):
            variables[found.group(1)] = _resolve(found.group(2).strip().strip("\"'"), variables)
    words = [word for word in _words(_resolve(joined, variables)) if word not in ("(", ")")]
    arguments: dict[str, str | None] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        if not word.startswith("--") or len(word) == 2:
            continue
        key, equals, value = word[2:].partition("=")
        has_value = not following.startswith("--") and not equals
        arguments[key.replace("_", "-").rstrip(")")] = value if equals else following.rstrip(";") if has_value else None
    return arguments


def _resolve(text: str, variables: Mapping[str, str]) -> str:
    """``$NAME``, ``${NAME}`` and ``${NAME:-default}``; what is not known stays as it is."""

    def value(found: re.Match[str]) -> str:
        known = variables.get(found.group(1) or found.group(3))
        return known if known is not None else found.group(2) or found.group(0)

    return VARIABLE.sub(value, text)


def _words(text: str) -> list[str]:
    """Words as a shell splits them, quotes dropped; a stray quote falls back to plain splitting."""
    try:
        words = shlex.split(text.replace("\n", " "), posix=True)
    except ValueError:
        words = [word.strip("\"'") for word in text.split()]
    # NAME="--a 1 --b 2" is one word for the shell, and holds arguments
    return [part for word in words for part in (word.partition("=")[2].split() if "=--" in word else word.split())]


class Arguments:
    """Values by name, checked when they are read. Several names: the first that is given."""

    def __init__(self, values: Mapping[str, str | None]) -> None:
        self.values = values

    def flag(self, *names: str) -> bool:
        return any(name in self.values for name in names)

    def text(self, *names: str, default: str = "") -> str:
        for name in names:
            if self.values.get(name):
                return str(self.values[name])
        return default

    def count(self, *names: str, default: int | None = None) -> int:
        for name in names:
            if name in self.values:
                value = self.values[name]
                if value is None or not re.fullmatch(r"\d{1,12}", value):
                    remedy = "a shell variable that the file does not set" if value and "$" in value else ""
                    raise InputError(f"--{name}", value, "a whole number >= 0", remedy)
                return int(value)
        if default is None:
            raise InputError(f"--{names[0]}", None, "given")
        return default


# ------------------------------------------------------------------------------------------- building the model


def _vocab(given: Arguments) -> int:
    """--padded-vocab-size is MindSpeed-LLM's; without either only a tokenizer would tell."""
    if not given.flag("vocab-size", "padded-vocab-size"):
        raise InputError(
            "--vocab-size", None, "given", "the tokenizer is not read: add --vocab-size or --padded-vocab-size"
        )
    return given.count("padded-vocab-size", "vocab-size")


def _noop_layers(given: Arguments, layers: int) -> frozenset[int]:
    """MindSpeed-LLM counts padding layers that do nothing in --num-layers and lists them: --noop-layers 61,62,63."""
    text = given.text("noop-layers")
    if not text:
        return frozenset()
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text) or max(map(int, text.split(","))) >= layers:
        raise InputError("--noop-layers", text, f"layer numbers from 0 to {layers - 1}, separated by commas")
    return frozenset(map(int, text.split(",")))


def _mixers(given: Arguments, layers: int) -> list[Attention]:
    heads, hidden = given.count("num-attention-heads"), given.count("hidden-size")
    if given.flag("multi-latent-attention", "multi-head-latent-attention"):
        return [_latent(given, heads)] * layers
    if not given.flag("kv-channels") and (not heads or hidden % heads):
        raise InputError(
            "--num-attention-heads", heads, f"a divisor of --hidden-size ({hidden})", "or give --kv-channels"
        )
    head_dim = given.count("kv-channels", default=hidden // heads if heads else 0)
    groups = given.count("num-query-groups", default=heads) if given.flag("group-query-attention") else heads
    if not groups or heads % groups:
        raise InputError("--num-query-groups", groups, f"a divisor of --num-attention-heads ({heads})")
    bias = not given.flag("disable-bias-linear")
    attention = Attention(
        query_heads=heads,
        kv_heads=groups,
        head_dim=head_dim,
        v_head_dim=head_dim,
        qkv_bias=bias or given.flag("add-qkv-bias"),
        output_bias=bias or given.flag("add-dense-bias"),
        qk_norm=given.flag("qk-layernorm"),
    )
    return [attention] * layers


def _latent(given: Arguments, heads: int) -> Attention:
    """Defaults: Megatron-Core MLATransformerConfig."""
    nope = given.count("qk-head-dim", "qk-nope-head-dim", default=128)
    rope = given.count("qk-pos-emb-head-dim", "qk-rope-head-dim", default=64)
    return Attention(
        kind="mla",
        query_heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        v_head_dim=given.count("v-head-dim", default=128),
        q_lora_rank=given.count("q-lora-rank", default=0),
        kv_lora_rank=given.count("kv-lora-rank", default=512),
        qk_nope_head_dim=nope,
        qk_rope_head_dim=rope,
    )


def _mlps(given: Arguments, layers: int) -> list[FeedForward]:
    gated, bias = given.flag("swiglu"), not given.flag("disable-bias-linear")
    hidden = given.count("hidden-size")
    # Megatron-LM: 4h, or 2/3 of it rounded down to 64 with swiglu
    usual = int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden
    width = given.count("ffn-hidden-size", default=usual)
    dense = FeedForward(width=width, gated=gated, bias=bias)
    experts = given.count("num-experts", default=0)
    if experts < 2:
        return [dense] * layers
    expert_width = given.count("moe-ffn-hidden-size", "moe-intermediate-size", default=width)
    groups = given.count("moe-router-num-groups", "expert-model-parallel-groups", default=0)
    sparse = FeedForward(
        width=expert_width,
        gated=gated,
        bias=bias,
        experts=experts,
        top_k=given.count("moe-router-topk", default=2),
        shared_width=_shared_width(given, expert_width),
        shared_gate=given.flag("moe-shared-expert-gate", "shared-expert-gate"),
        router_bias=given.flag("moe-router-enable-expert-bias"),
        router_groups=groups if groups > 1 else 0,
        router_top_groups=given.count("moe-router-group-topk", "topk-group", default=0) if groups > 1 else 0,
    )
    pattern = layer_pattern("--moe-layer-freq", given.text("moe-layer-freq", default="1"), layers)
    first_dense = given.count("first-k-dense-replace", default=0)
    return [sparse if is_moe and i >= first_dense else dense for i, is_moe in enumerate(pattern)]


def _shared_width(given: Arguments, expert_width: int) -> int:
    """Summed width as Megatron-LM has it, or MindSpeed-LLM's number of shared experts."""
    if given.flag("moe-shared-expert-intermediate-size"):
        return given.count("moe-shared-expert-intermediate-size")
    return given.count("n-shared-experts", default=0) * expert_width

"""A model as arguments of Megatron-LM and MindSpeed-LLM, held against the reader of such arguments."""

from __future__ import annotations

from dataclasses import fields

from autodeploy.errors import InputError
from autodeploy.export.flags import Flag, flag
from autodeploy.export.job import Job
from cost_models.errors import ConfigError
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec

Half = Attention | FeedForward


def model_flags(job: Job, idle: tuple[int, ...] = (), *, mindspeed: bool = False) -> tuple[Flag, ...]:
    """Arguments that build the model; InputError where they cannot express it. ``idle``: no-op layers, counted in."""
    model, total_layers = job.model, job.model.num_layers + len(idle)
    plain = [kind for kind in model.kinds if len(kind.attentions) == 1 and len(kind.feed_forwards) == 1]
    if len(plain) != len(model.kinds):
        raise _unlike(model, "layers", "one attention and one feed-forward in every layer")
    attention = plain[0].attentions[0]
    found = [
        flag(
            "num-layers",
            total_layers,
            note=f"{model.num_layers} and no-op layers" if total_layers > model.num_layers else "",
        ),
        flag("hidden-size", model.hidden),
        *_attention(attention, model.hidden),
        *_feed_forward(model, idle, mindspeed),
        flag("normalization", "LayerNorm" if model.norm_bias else "RMSNorm"),
        flag("seq-length", job.seq_length),
        flag("max-position-embeddings", _positions(job)),
        *_positions_kind(model),
    ]
    if not model.tied_embeddings:
        found.append(flag("untie-embeddings-and-output-weights"))
    if not any(half.bias for kind in model.kinds for half in kind.feed_forwards):
        found.append(flag("disable-bias-linear"))
    if model.mtp_modules:
        found.append(flag("mtp-num-layers", model.mtp_modules))
    if mindspeed and all(kind.norms == 4 for kind in model.kinds):
        found.append(flag("post-norm", note="sandwich norm"))
    if model.embedding_norm:
        found.append(flag("embed-layernorm"))
    return tuple(found)


def padded_vocab(job: Job) -> int:
    """Megatron pads to a multiple of 128 x TP."""
    step = 128 * job.strategy.tp
    return -(-job.model.vocab // step) * step


def _positions(job: Job) -> int:
    return job.model.learned_positions or max(job.model.max_seq_length, job.seq_length)


def _positions_kind(model: ModelSpec) -> list[Flag]:
    return [flag("position-embedding-type", "learned_absolute" if model.learned_positions else "rope")]


def _attention(attention: Attention, hidden: int) -> list[Flag]:
    found = [flag("num-attention-heads", attention.query_heads)]
    if attention.kind == "mla":
        found.append(flag("multi-latent-attention"))
        if attention.q_lora_rank:
            found.append(flag("q-lora-rank", attention.q_lora_rank))
        found += [
            flag("kv-lora-rank", attention.kv_lora_rank),
            flag("qk-head-dim", attention.qk_nope_head_dim),
            flag("qk-pos-emb-head-dim", attention.qk_rope_head_dim),
            flag("v-head-dim", attention.v_head_dim),
            flag("qk-layernorm"),
        ]
        return found
    if attention.kv_heads != attention.query_heads:
        found += [flag("group-query-attention"), flag("num-query-groups", attention.kv_heads)]
    if attention.head_dim * attention.query_heads != hidden:
        found.append(flag("kv-channels", attention.head_dim))
    if attention.qk_norm:
        found.append(flag("qk-layernorm"))
    if attention.qkv_bias and not attention.output_bias:
        found.append(flag("add-qkv-bias"))
    return found


def _feed_forward(model: ModelSpec, idle: tuple[int, ...], mindspeed: bool) -> list[Flag]:
    sequence = [model.kinds[i].feed_forwards[0] for i in model.layer_sequence()]
    for slot in sorted(idle):
        sequence.insert(slot, sequence[min(slot, len(sequence) - 1)])
    dense = [half for half in sequence if not half.is_moe]
    sparse = [half for half in sequence if half.is_moe]
    first = (dense or sparse)[0]
    found = [flag("ffn-hidden-size", first.width)]
    if first.gated:
        found.append(flag("swiglu"))
    if sparse:
        found += _experts(sparse[0])
        if dense:
            found += _where_dense(sequence, mindspeed)
    return found


def _experts(half: FeedForward) -> list[Flag]:
    found = [
        flag("num-experts", half.experts),
        flag("moe-router-topk", half.top_k),
        flag("moe-ffn-hidden-size", half.width),
    ]
    if half.shared_width:
        found.append(flag("moe-shared-expert-intermediate-size", half.shared_width))
    if half.shared_gate:
        found.append(flag("moe-shared-expert-gate"))
    if half.router_bias:
        found += [flag("moe-router-score-function", "sigmoid"), flag("moe-router-enable-expert-bias")]
    if half.router_groups > 1:
        found.append(flag("moe-router-num-groups", half.router_groups))
        found.append(flag("moe-router-group-topk", half.router_top_groups))
    return found


def _where_dense(sequence: list[FeedForward], mindspeed: bool) -> list[Flag]:
    """MindSpeed-LLM counts the dense layers at the front, Megatron lists all layers."""
    front = next(i for i, half in enumerate(sequence) if half.is_moe)
    if mindspeed and all(half.is_moe for half in sequence[front:]):
        return [flag("first-k-dense-replace", front), flag("moe-layer-freq", 1)]
    return [flag("moe-layer-freq", _pattern(sequence))]


def _pattern(sequence: list[FeedForward]) -> str:
    """Megatron's expression of which layers are mixtures of experts: ``([0]*3+[1]*58)``."""
    runs: list[list[int]] = []
    for half in sequence:
        if runs and runs[-1][0] == int(half.is_moe):
            runs[-1][1] += 1
        else:
            runs.append([int(half.is_moe), 1])
    return "(" + "+".join(f"[{kind}]*{count}" for kind, count in runs) + ")"


# ------------------------------------------------------------------------------------------- held against the reader


def require_expressed(model: ModelSpec, found: list[Flag], target: str) -> None:
    """The arguments read back must build this model; what differs is what the target cannot express."""
    from autodeploy.models.megatron import parse_arguments

    try:
        again = parse_arguments("\n".join(one.text for one in found), model.name)
    except (InputError, ConfigError) as error:
        raise _unlike(model, str(error.field), f"a model that {target}'s arguments build") from None
    for one in fields(ModelSpec):
        if one.name in ("name", "notes", "max_seq_length", "layers", "mtp_kind"):
            continue
        if getattr(model, one.name) != getattr(again, one.name):
            raise _unlike(model, one.name, f"{getattr(again, one.name)!r}, as {target}'s arguments build it")
    for mine, theirs in zip(_kinds(model), _kinds(again), strict=False):
        _same_kind(model, mine, theirs, target)
    if again.num_layers != model.num_layers:
        raise _unlike(model, "layers", f"{again.num_layers}, as {target}'s arguments build it")


def _kinds(model: ModelSpec) -> list[LayerKind]:
    return [model.kinds[i] for i in model.layer_sequence()]


# Which of the reader's fields are of the program, or follow from others.
_LENIENT = {"attention": ("qk_norm",), "feed": ("fusable_activation",)}


def _same_kind(model: ModelSpec, mine: LayerKind, theirs: LayerKind, target: str) -> None:
    _same_half(model, mine.attentions[0], theirs.attentions[0], target)
    _same_half(model, mine.feed_forwards[0], theirs.feed_forwards[0], target)
    if mine.norms != theirs.norms:
        raise _unlike(model, f"norms = {mine.norms}", f"{theirs.norms}, as {target}'s arguments build it")


def _same_half(model: ModelSpec, mine: Half, theirs: Half, target: str) -> None:
    lenient = _LENIENT["attention" if isinstance(mine, Attention) else "feed"]
    for one in fields(mine):
        ours, built = getattr(mine, one.name), getattr(theirs, one.name)
        if ours != built and one.name not in lenient:
            what = f"{type(mine).__name__}.{one.name} = {ours!r}"
            raise _unlike(model, what, f"{built!r}, as {target}'s arguments build it")


def _unlike(model: ModelSpec, what: str, allowed: str) -> InputError:
    return InputError("MODEL", f"{model.name}: {what}", allowed, "choose another target, or a model that it expresses")

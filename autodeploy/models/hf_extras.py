"""Small weights that single architectures add to their blocks and ends: counted exactly, priced as plain products.

Source of each: the modelling file of that model_type in Hugging Face transformers 5.24. Vectors are ``extra``, matrices that
every token passes are ``side``. To add one: a function, and a row in ``BLOCK_EXTRAS`` or ``MODEL_EXTRAS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autodeploy.models.hf_keys import Keys
from cost_models.inputs import Attention, LayerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExtra:
    extra: int = 0
    side: int = 0

    def __add__(self, other: BlockExtra) -> BlockExtra:
        return BlockExtra(extra=self.extra + other.extra, side=self.side + other.side)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelExtra:
    embedding: int = 0
    head: int = 0


def _widths(attention: Attention | None) -> tuple[int, int]:
    """Query and output columns."""
    if attention is None:
        return 0, 0
    return attention.query_heads * attention.head_dim, attention.query_heads * attention.v_head_dim


# ------------------------------------------------------------------------------------------- of a block


def _hyper_connections(keys: Keys, columns: int) -> BlockExtra:
    """Mappings between ``hc_mult`` copies of the residual stream and one, before and after each half."""
    copies, hidden = keys.count("hc_mult", 1), keys.count("hidden")
    return BlockExtra(side=2 * columns * copies * hidden, extra=2 * (columns + 3))


def _deepseek_v4(keys: Keys, kind: LayerKind) -> BlockExtra:
    copies = keys.count("hc_mult", 1)
    return _hyper_connections(keys, copies * (2 + copies))


def _hy_v4(keys: Keys, kind: LayerKind) -> BlockExtra:
    copies = keys.count("hc_mult", 1)
    found = _hyper_connections(keys, 2 * copies)
    return BlockExtra(side=found.side, extra=found.extra - 2)  # two scales, not three


def _gemma3n(keys: Keys, kind: LayerKind) -> BlockExtra:
    """AltUp over several streams, a low-rank residual (LAuReL), per-layer inputs."""
    hidden, streams = keys.count("hidden"), keys.count("altup_num_inputs", 4)
    rank = keys.count("laurel_rank", 64)
    vectors = 3 * hidden + streams**3 + streams**2  # scale, router norm, norm after the low-rank residual
    return BlockExtra(extra=vectors, side=streams * hidden + 2 * rank * hidden) + _per_layer_input(keys, kind)


def _per_layer_input(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Gemma 3n and 4: a gate, a projection and a norm for the layer's own embedding; the norms of parallel experts."""
    hidden, width = keys.count("hidden"), keys.count("hidden_size_per_layer_input", 0, least=0)
    own = BlockExtra(side=2 * width * hidden, extra=hidden) if width else BlockExtra()
    ffn = kind.feed_forward
    if ffn is not None and ffn.is_moe:  # a router's scale, a scale per expert, three norms
        own += BlockExtra(extra=4 * hidden + ffn.experts)
    return own


def _apertus(keys: Keys, kind: LayerKind) -> BlockExtra:
    return BlockExtra(extra=2)  # the two slopes of xIELU


def _axk1(keys: Keys, kind: LayerKind) -> BlockExtra:
    sparse = kind.feed_forward is not None and kind.feed_forward.is_moe
    return BlockExtra(extra=keys.count("hidden") if sparse else 0)  # a norm after the experts


def _axk2(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Norms gated by a low-rank MLP (one in a dense layer, two in a sparse one); query and gate from a doubled latent."""
    hidden, rank = keys.count("hidden"), keys.count("gated_norm_rank", 0, least=0)
    sparse = kind.feed_forward is not None and kind.feed_forward.is_moe
    side = (2 if sparse else 1) * 2 * hidden * rank
    if kind.attention is not None:
        queries, output = _widths(kind.attention)
        latent = kind.attention.q_lora_rank
        side += 2 * latent * (queries + output) - latent * queries
    return BlockExtra(side=side)


def _beam(keys: Keys, kind: LayerKind) -> BlockExtra:
    return BlockExtra(extra=keys.count("heads"))  # a bias of the gate for each head


def _bitnet(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Norms before the output and the down projection."""
    width = kind.feed_forward.width if kind.feed_forward else 0
    return BlockExtra(extra=_widths(kind.attention)[1] + width)


def _doge(keys: Keys, kind: LayerKind) -> BlockExtra:
    kv = kind.attention.kv_heads * (kind.attention.head_dim if kind.attention else 0) if kind.attention else 0
    heads = kind.attention.kv_heads if kind.attention else 0
    return BlockExtra(extra=2 * keys.count("hidden") + heads, side=heads * kv)


def _dory(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Normalised transformer: scales of the residual, of queries and gates, and of the MLP's columns."""
    hidden, queries = keys.count("hidden"), _widths(kind.attention)[0]
    width = kind.feed_forward.width if kind.feed_forward else 0
    return BlockExtra(extra=hidden + 2 * queries + 2 * width)


def _dots3(keys: Keys, kind: LayerKind) -> BlockExtra:
    return BlockExtra(extra=kind.attention.qk_rope_head_dim if kind.attention else 0)  # a norm of the rotary key


def _inkling(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Convolutions of keys, values and both residuals, learned sinks and relative positions, gates between passes."""
    hidden, heads = keys.count("hidden"), keys.count("heads")
    relative, kernel = keys.count("d_rel", 16), keys.count("conv_kernel_size", 4)
    rank, extent = keys.count("loop_gate_rank", 0, least=0), keys.count("rel_extent", 0, least=0)
    kv = 2 * keys.count("kv_heads", heads) * keys.count("head_dim")
    queries = 0 if kind.attention is None else kind.attention.query_heads * kind.attention.head_dim
    extra = kernel * (kv + 2 * hidden) + heads * relative + relative * extent + 2 * hidden + queries
    looped = (
        keys.count("loop_layer_index_start", 0, least=0) <= keys.layer < keys.count("loop_layer_index_end", 0, least=0)
    )
    side = heads * hidden + heads * relative * hidden + (16 * rank * hidden if looped else 0)
    return BlockExtra(extra=extra, side=side)


def _rwkv(keys: Keys, kind: LayerKind) -> BlockExtra:
    hidden = keys.count("hidden")
    return BlockExtra(extra=2 * hidden, side=hidden * hidden)  # receptance of the feed-forward and its token shifts


def _zaya(keys: Keys, kind: LayerKind) -> BlockExtra:
    """Convolved queries and keys; a router MLP in place of one matrix; scaled residuals."""
    hidden, router = keys.count("hidden"), keys.count("router_hidden_size", 0, least=0)
    if kind.attention is None or kind.feed_forward is None:
        return BlockExtra()
    a, experts = kind.attention, kind.feed_forward.experts
    columns = (a.query_heads + a.kv_heads) * a.head_dim
    values = a.kv_heads * a.head_dim
    extra = columns * (keys.count("cca_time0", 2) + 2) + a.kv_heads + 8 * hidden + 5 * router
    side = columns * a.head_dim * keys.count("cca_time1", 2) + hidden * router + 2 * router * router
    return BlockExtra(extra=extra, side=side + (experts + 1) * router - experts * hidden - 0 * values)


BLOCK_EXTRAS: dict[str, Callable[[Keys, LayerKind], BlockExtra]] = {
    "apertus": _apertus,
    "apertus1p5_text": _apertus,
    "axk1": _axk1,
    "axk2": _axk2,
    "beam": _beam,
    "bitnet": _bitnet,
    "deepseek_v4": _deepseek_v4,
    "doge": _doge,
    "dory": _dory,
    "dots3_note": _dots3,
    "dots3_note_text": _dots3,
    "gemma3n": _gemma3n,
    "gemma3n_text": _gemma3n,
    "gemma4": _per_layer_input,
    "gemma4_text": _per_layer_input,
    "hy_v4": _hy_v4,
    "inkling2_loop_text": _inkling,
    "rwkv": _rwkv,
    "zaya": _zaya,
}

# ------------------------------------------------------------------------------------------- of the ends


def _no_final_norm(keys: Keys) -> ModelExtra:
    return ModelExtra(head=-keys.count("hidden"))


def _plain_head_norm(keys: Keys) -> ModelExtra:
    """No final norm with bias: OpenAI GPT."""
    return ModelExtra(head=-2 * keys.count("hidden"))


def _hyper_head(keys: Keys) -> ModelExtra:
    copies = keys.count("hc_mult", 1)
    return ModelExtra(head=copies * copies * keys.count("hidden") + copies + 1)


def _gemma_tables(keys: Keys) -> ModelExtra:
    """An embedding for every layer, its projection from the hidden size and its norm; Gemma 3n's stream projections."""
    width, layers, hidden = (
        keys.count("hidden_size_per_layer_input", 0, least=0), keys.count("layers"), keys.count("hidden"),
    )  # fmt: skip
    rows = keys.count("vocab_size_per_layer_input", 0, least=0)
    tables = layers * width * (rows + hidden) + width if width else 0
    streams = 2 * (keys.count("altup_num_inputs") - 1) * hidden**2 if keys.has("altup_num_inputs") else 0
    return ModelExtra(embedding=tables, head=streams)


def _dory_head(keys: Keys) -> ModelExtra:
    return ModelExtra(head=keys.count("vocab") - keys.count("hidden"))


def _hrm(keys: Keys) -> ModelExtra:
    return ModelExtra(embedding=keys.count("hidden"), head=-keys.count("hidden"))


def _modernbert(keys: Keys) -> ModelExtra:
    """A dense layer and a norm before the tied output and its bias; the first layer has no attention norm."""
    hidden = keys.count("hidden")
    bias = keys.count("vocab") if keys.flag("decoder_bias", True) else 0
    return ModelExtra(head=hidden * hidden + bias)


def _moshi(keys: Keys) -> ModelExtra:
    return ModelExtra(embedding=keys.count("hidden"))  # one more row


def _rwkv_ends(keys: Keys) -> ModelExtra:
    return ModelExtra(embedding=2 * keys.count("hidden"))  # a norm before the first block


def _zaya_ends(keys: Keys) -> ModelExtra:
    return ModelExtra(embedding=2 * keys.count("hidden"))


def _biogpt(keys: Keys) -> ModelExtra:
    return ModelExtra(embedding=2 * keys.count("hidden"))  # two more positions


def _inkling_ends(keys: Keys) -> ModelExtra:
    """Queries that read earlier blocks; a head of the vocabulary before padding."""
    hidden, vocab = keys.count("hidden"), keys.count("vocab")
    looped = keys.count("loop_layer_index_end", 0, least=0) - keys.count("loop_layer_index_start", 0, least=0)
    queries = (1 + 4 * looped + 1) * hidden
    return ModelExtra(embedding=queries, head=(keys.count("unpadded_vocab_size", vocab) - vocab) * hidden)


MODEL_EXTRAS: dict[str, Callable[[Keys], ModelExtra]] = {
    "biogpt": _biogpt,
    "deepseek_v4": _hyper_head,
    "dory": _dory_head,
    "gemma3n": _gemma_tables,
    "gemma3n_text": _gemma_tables,
    "gemma4": _gemma_tables,
    "gemma4_text": _gemma_tables,
    "hrm_text": _hrm,
    "hy_v4": _hyper_head,
    "inkling2_loop_text": _inkling_ends,
    "modernbert_decoder": _modernbert,
    "moshi": _moshi,
    "openai_gpt": _plain_head_norm,
    "opt": _biogpt,
    "rwkv": _rwkv_ends,
    "zaya": _zaya_ends,
}


def block_extra(model_type: str, keys: Keys, kind: LayerKind) -> BlockExtra:
    found = BLOCK_EXTRAS.get(model_type)
    return found(keys, kind) if found else BlockExtra()


def model_extra(model_type: str, keys: Keys) -> ModelExtra:
    found = MODEL_EXTRAS.get(model_type)
    return found(keys) if found else ModelExtra()

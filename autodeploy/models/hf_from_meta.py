"""An architecture that we do not know, read from the weights that transformers builds: its linear layers, norms, convolutions
and embeddings, grouped by repeated block. Counts are exact by construction: what has no known part is priced as plain products.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autodeploy.models.hf_keys import Keys, text_part
from autodeploy.models.hf_meta import Weights, build, size
from autodeploy.models.runs import runs_of
from cost_models.errors import ConfigError
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec
from cost_models.parameters import embedding_parameters, head_parameters, layer_parameters

Shape = tuple[int, ...]
QUERY = re.compile(r"(^|\.)(q_proj|query|q|wq|to_q)(\.|$)")
KEY = re.compile(r"(^|\.)(k_proj|key|k|wk|to_k)(\.|$)")
VALUE = re.compile(r"(^|\.)(v_proj|value|v|wv|to_v)(\.|$)")
FUSED = re.compile(r"(qkv_proj|query_key_value|c_attn|Wqkv|qkv)(\.|$)")
OUTPUT = re.compile(r"(^|\.)(o_proj|out_proj|dense|c_proj|wo|Wo|to_out)(\.|$)")
ATTENTION = re.compile(r"attn|attention|temporal")
FEED_FORWARD = re.compile(r"mlp|feed_forward|ffn|ff\b|experts|moe")
DOWN = re.compile(r"(down_proj|w2|fc2|fc_out|c_proj|dense_4h_to_h|wo|Wo|proj_down|output_linear|linear_2)(\.|$)")


@dataclass(slots=True)
class _Block:
    """The weights of one layer, taken apart."""

    hidden: int
    left: list[tuple[str, Shape]] = field(default_factory=list)

    def take(self, place: re.Pattern[str], name: re.Pattern[str], dims: int = 2) -> Shape | None:
        """Removes and returns the first matrix of that place and name."""
        for i, (full, shape) in enumerate(self.left):
            if len(shape) == dims and place.search(full) and name.search(full.removesuffix(".weight")):
                return self.left.pop(i)[1]
        return None


def read_meta(document: Mapping[str, Any], name: str) -> ModelSpec:
    """The model that transformers builds from ``document``, with a note that says so."""
    weights = build(document)
    raw, _ = text_part(weights.config.to_dict())
    keys = Keys(raw)
    hidden, vocab = keys.count("hidden"), keys.count("vocab")
    kinds = [_kind(_Block(hidden, list(layer)), keys.at(i)) for i, layer in enumerate(weights.layers)]
    tied = sum(1 for _, shape in weights.ends if size(shape) == vocab * hidden) < 2
    model = ModelSpec(
        name=name,
        hidden=hidden,
        vocab=vocab,
        layers=runs_of(kinds),
        tied_embeddings=tied,
        max_seq_length=keys.count("max_seq_length", 0, least=0),
        notes=_notes(kinds, weights),
    )
    return _with_ends(model, weights)


def _notes(kinds: list[LayerKind], weights: Weights) -> tuple[str, ...]:
    plain = sum(kind.side_elements for kind in kinds) / max(weights.total, 1)
    told = f"not known by name: read from the modules that transformers {weights.version} builds"
    return (told, f"{plain:.0%} of its weights have no known part and are priced as plain products")


def _with_ends(model: ModelSpec, weights: Weights) -> ModelSpec:
    """What embedding, head and final norm do not explain of the other weights is further weights at the input."""
    outside = sum(size(shape) for _, shape in weights.ends)
    known = embedding_parameters(model).total + head_parameters(model).total
    return replace(model, extra_embedding=outside - known)


def _kind(block: _Block, keys: Keys) -> LayerKind:
    attention = _attention(block, keys)
    ffn = _feed_forward(block, keys)
    norms = sum(1 for _, shape in block.left if shape == (block.hidden,))
    found = LayerKind(attention=attention, feed_forward=ffn, norms=norms)
    rest = [shape for _, shape in block.left if shape != (block.hidden,)]
    side = sum(size(shape) for shape in rest if len(shape) == 2)
    extra = sum(size(shape) for shape in rest if len(shape) != 2)
    return LayerKind(
        attention=attention, feed_forward=ffn, norms=found.norms, side_elements=side, extra_parameters=extra
    )


def _attention(block: _Block, keys: Keys) -> Attention | None:
    """Softmax attention where query, key, value and output are there with shapes that heads explain."""
    before = list(block.left)
    heads = keys.count("heads", 0, least=0)
    if not heads:
        return None
    query, key, value = (block.take(ATTENTION, pattern) for pattern in (QUERY, KEY, VALUE))
    fused = block.take(ATTENTION, FUSED) if query is None else None
    output = block.take(ATTENTION, OUTPUT)
    try:
        if query and key and value and output and query[0] % heads == 0:
            head_dim = query[0] // heads
            return _exact(block, before, Attention(query_heads=heads, kv_heads=key[0] // head_dim, head_dim=head_dim,
                                                   v_head_dim=head_dim))  # fmt: skip
        if fused and output:
            kv_heads = keys.count("kv_heads", heads)
            head_dim = max(fused) // (heads + 2 * kv_heads)
            return _exact(block, before, Attention(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                                                   v_head_dim=head_dim))  # fmt: skip
    except (ConfigError, ZeroDivisionError):
        pass
    block.left = before
    return None


def _exact(block: _Block, before: list[tuple[str, Shape]], attention: Attention) -> Attention | None:
    """The attention, if its projections are as large as the matrices taken for it; else all stay plain products."""
    taken = sum(size(shape) for _, shape in before) - sum(size(shape) for _, shape in block.left)
    kind = LayerKind(attention=attention, feed_forward=None, norms=0)
    if layer_parameters(kind, block.hidden, False).total == taken:
        return attention
    block.left = before
    return None


def _feed_forward(block: _Block, keys: Keys) -> FeedForward | None:
    """Stacked experts (three dimensions), else a dense MLP by its down projection."""
    stacks = [shape for name, shape in block.left if len(shape) == 3 and "conv" not in name and shape[0] > 1]
    if len(stacks) >= 2:
        return _experts(block, keys, stacks)
    down = next((shape for name, shape in block.left if len(shape) == 2 and FEED_FORWARD.search(name)
                 and DOWN.search(name.removesuffix(".weight")) and "shared" not in name), None)  # fmt: skip
    if down is None or block.hidden not in down:
        return None
    width = down[1] if down[0] == block.hidden else down[0]
    matrices = [(n, s) for n, s in block.left if len(s) == 2 and FEED_FORWARD.search(n) and size(s) % (width * block.hidden) == 0
                and "shared" not in n]  # fmt: skip
    count = sum(size(shape) for _, shape in matrices) // (width * block.hidden)
    if count not in (2, 3):
        return None
    block.left = [entry for entry in block.left if entry not in matrices]
    return FeedForward(width=width, gated=count == 3)


def _experts(block: _Block, keys: Keys, stacks: Sequence[Shape]) -> FeedForward | None:
    experts, elements = stacks[0][0], sum(size(shape) for shape in stacks)
    width = min(side for shape in stacks for side in shape[1:])
    if any(shape[0] != experts for shape in stacks) or block.hidden not in stacks[-1]:
        return None
    narrow = stacks[-1][1] if stacks[-1][2] == block.hidden else stacks[-1][2]
    width = narrow or width
    matrices = elements / (experts * width * block.hidden)
    router = next(((n, s) for n, s in block.left if len(s) == 2 and sorted(s) == sorted((experts, block.hidden))), None)
    if matrices not in (2.0, 3.0) or router is None:
        return None
    block.left = [entry for entry in block.left if entry[1] not in stacks and entry != router]
    top_k = min(keys.count("top_k", 1), experts)
    return FeedForward(width=width, gated=matrices == 3.0, experts=experts, top_k=top_k)

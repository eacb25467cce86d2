"""Any ModelSpec survives the way through our YAML."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.models.document import build_model, to_document
from autodeploy.models.schema import checked_model
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec

small = st.integers(1, 8)
flags = st.booleans()


@st.composite
def softmax(draw):
    groups = draw(small)
    return Attention(
        query_heads=groups * draw(small), kv_heads=groups, head_dim=draw(small), v_head_dim=draw(small),
        window_tokens=draw(st.sampled_from([0, 128])), qkv_bias=draw(flags), output_bias=draw(flags), qk_norm=draw(flags),
        sinks=draw(flags), output_gate=draw(flags),
    )  # fmt: skip


@st.composite
def latent(draw):
    nope, rope, heads = draw(small), draw(small), draw(small)
    return Attention(
        kind="mla", query_heads=heads, kv_heads=heads, head_dim=nope + rope, v_head_dim=draw(small),
        q_lora_rank=draw(st.sampled_from([0, 24])), kv_lora_rank=draw(small), qk_nope_head_dim=nope, qk_rope_head_dim=rope,
    )  # fmt: skip


@st.composite
def linear(draw):
    return Attention(
        kind=draw(st.sampled_from(["gated_delta", "lightning", "mamba"])), query_heads=draw(small), kv_heads=draw(small),
        head_dim=draw(small), v_head_dim=draw(small), value_heads=draw(small), state_dim=draw(small),
        state_groups=draw(small), conv_kernel=draw(small),
    )  # fmt: skip


@st.composite
def feed_forward(draw):
    experts = draw(st.integers(0, 8))
    return FeedForward(
        width=draw(small), gated=draw(flags), bias=draw(flags), experts=experts,
        top_k=draw(st.integers(1, experts)) if experts else 0, shared_width=draw(small) if experts else 0,
    )  # fmt: skip


@st.composite
def layer_kind(draw):
    attention = draw(softmax() | latent() | linear() | st.none())
    return LayerKind(attention=attention, feed_forward=draw(feed_forward() | st.none()), norms=draw(st.integers(0, 4)))


@st.composite
def model(draw):
    kinds = draw(st.lists(layer_kind(), min_size=1, max_size=3))
    kinds.append(LayerKind(attention=draw(softmax()), feed_forward=draw(feed_forward() | st.none())))
    pattern = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 5)), min_size=1, max_size=4))
    layers = tuple([(kinds[-1], 1)] + pattern * draw(st.integers(1, 4)))
    modules = draw(st.integers(0, 2))
    return ModelSpec(
        name=draw(st.sampled_from(["a", "b-7b", "on", "1.5"])), hidden=draw(st.integers(1, 9000)),
        vocab=draw(st.integers(1, 300_000)), layers=layers, tied_embeddings=draw(flags), norm_bias=draw(flags),
        mtp_modules=modules, mtp_kind=draw(st.sampled_from([None, *kinds])) if modules else None,
        learned_positions=draw(st.sampled_from([0, 2048])), embedding_norm=draw(flags), head_bias=draw(flags),
        max_seq_length=draw(st.sampled_from([0, 4096])), notes=tuple(draw(st.lists(st.just("a: note"), max_size=1))),
    )  # fmt: skip


@given(model())
@settings(max_examples=150, deadline=None)
def test_yaml_round_trip(spec):
    text = yaml.safe_dump(to_document(spec, "a source"), sort_keys=False)
    document = yaml.safe_load(text)
    assert checked_model(document) == spec
    assert build_model(document) == spec

"""Parameter counts: by hand, in three buckets, by stage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.errors import ConfigError
from cost_models.inputs import Attention, FeedForward, LayerKind, ModelSpec
from cost_models.mixers.table import MIXERS
from cost_models.parameters import (
    LayerParameters,
    embedding_parameters,
    head_parameters,
    heaviest_stage,
    layer_parameters,
    model_buckets,
    model_parameters,
    mtp_parameters,
    padded_vocab,
    stage_parameters,
)

H = 16


def plain_attention(heads: int = 4, head_dim: int = 4) -> Attention:
    return Attention(query_heads=heads, kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim)


DENSE = LayerKind(attention=plain_attention(), feed_forward=FeedForward(width=64, gated=False))
SPARSE = LayerKind(attention=plain_attention(), feed_forward=FeedForward(width=32, gated=False, experts=4, top_k=1))


def small(*layers: tuple[LayerKind, int], tied: bool = True) -> ModelSpec:
    """The shape of the unit tests of Megatron-Bridge's memory estimator: hidden 16, FFN 64, vocabulary 32, LayerNorm."""
    return ModelSpec(name="small", hidden=H, vocab=32, layers=layers, tied_embeddings=tied, norm_bias=True)


# ------------------------------------------------------------------------------------------------ by hand


def test_plain_layer_by_hand():
    """4h^2 attention, 2hf MLP, two LayerNorms of 2h."""
    assert layer_parameters(DENSE, H, True) == LayerParameters(4 * 16 * 16 + 2 * 16 * 64, 2 * 2 * 16, 0)


def test_grouped_query_layer_by_hand():
    """Llama-3.1-8B layer: 218,112,000 = h(a+2g)d + ad h + 3hf + 2h."""
    attention = Attention(query_heads=32, kv_heads=8, head_dim=128, v_head_dim=128)
    kind = LayerKind(attention=attention, feed_forward=FeedForward(width=14336))
    expected = 4096 * (32 + 16) * 128 + 4096 * 4096 + 3 * 4096 * 14336 + 2 * 4096
    assert layer_parameters(kind, 4096, False).total == expected == 218_112_000


def test_latent_attention_by_hand():
    """DeepSeek-V3: down-projections and their norms replicated, up- and output projections sharded."""
    attention = Attention(kind="mla", query_heads=128, kv_heads=128, head_dim=192, v_head_dim=128, q_lora_rank=1536,
                          kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64)  # fmt: skip
    buckets = layer_parameters(LayerKind(attention=attention, feed_forward=None, norms=0), 7168, False)
    assert buckets.replicated == 7168 * (1536 + 512 + 64) + 1536 + 512
    assert buckets.tp_sharded == 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert buckets.total == 187_107_328


def test_direct_query_projection_is_sharded():
    attention = Attention(kind="mla", query_heads=16, kv_heads=16, head_dim=192, v_head_dim=128, kv_lora_rank=512,
                          qk_nope_head_dim=128, qk_rope_head_dim=64)  # fmt: skip
    buckets = layer_parameters(LayerKind(attention=attention, feed_forward=None, norms=0), 2048, False)
    assert buckets.tp_sharded == 2048 * 16 * 192 + 512 * 16 * 256 + 16 * 128 * 2048
    assert buckets.replicated == 2048 * (512 + 64) + 512


def test_three_buckets_of_an_expert_layer():
    """Router and shared-expert gate are replicated, shared experts sharded over TP, routed experts apart."""
    ffn = FeedForward(width=8, experts=4, top_k=2, shared_width=24, shared_gate=True)
    buckets = layer_parameters(LayerKind(attention=None, feed_forward=ffn, norms=1), H, False)
    assert buckets == LayerParameters(3 * 16 * 24, 16 * 4 + 16 + 16, 4 * 3 * 16 * 8)
    assert buckets.on_card(tp=2, ep=2, etp=2) == 3 * 16 * 24 / 2 + 96 + 4 * 3 * 16 * 8 / 4


def test_expert_biases_go_with_their_expert():
    """gpt-oss: an up bias of 2f, a down bias of h per expert, and a router bias."""
    ffn = FeedForward(width=8, bias=True, experts=4, top_k=2, router_bias=True)
    buckets = layer_parameters(LayerKind(attention=None, feed_forward=ffn, norms=0), H, False)
    assert buckets == LayerParameters(0, 16 * 4 + 4, 4 * (3 * 16 * 8 + 2 * 8 + 16))


def test_attention_extras_by_hand():
    bare = plain_attention()
    extras = {
        "qkv_bias": (3 * 16, 0),
        "output_bias": (0, 16),
        "output_gate": (16 * 16, 0),
        "sinks": (4, 0),
        "qk_norm": (0, 2 * 4),
    }
    base = layer_parameters(LayerKind(attention=bare, feed_forward=None, norms=0), H, False)
    for name, (sharded, replicated) in extras.items():
        attention = Attention(query_heads=4, kv_heads=4, head_dim=4, v_head_dim=4, **{name: True})
        more = layer_parameters(LayerKind(attention=attention, feed_forward=None, norms=0), H, False)
        assert (more.tp_sharded - base.tp_sharded, more.replicated - base.replicated) == (sharded, replicated), name


def test_linear_mixers_by_hand():
    delta = Attention(kind="gated_delta", query_heads=16, kv_heads=16, head_dim=128, v_head_dim=128, value_heads=32,
                      conv_kernel=4)  # fmt: skip
    keys, values, h = 2048, 4096, 2048
    expected = h * (2 * keys + 2 * values + 2 * 32) + (2 * keys + values) * 4 + 2 * 32 + values * h + 128
    assert layer_parameters(LayerKind(attention=delta, feed_forward=None, norms=0), h, False).total == expected
    lightning = Attention(kind="lightning", query_heads=64, kv_heads=64, head_dim=128, v_head_dim=128, value_heads=64)
    part = layer_parameters(LayerKind(attention=lightning, feed_forward=None, norms=0), 6144, False)
    assert part.total == 5 * 6144 * 8192 + 8192


@pytest.mark.parametrize("kind", sorted(MIXERS))
def test_every_mixer_counts_something_to_shard(kind):
    attention = Attention(kind=kind, query_heads=4, kv_heads=4, head_dim=8, v_head_dim=8, value_heads=4, kv_lora_rank=8,
                          qk_nope_head_dim=4, qk_rope_head_dim=4, state_dim=8, state_groups=2, conv_kernel=4,
                          q_lora_rank=8, o_lora_rank=8, o_groups=2, dt_rank=4)  # fmt: skip
    assert MIXERS[kind].parameters(attention, 64, False).tp_sharded > 0


def test_multi_token_prediction_module():
    """One layer, the projection 2h -> h, three norms; embedding and head are shared."""
    model = small((DENSE, 2))
    layer = layer_parameters(DENSE, H, True)
    assert mtp_parameters(model) == layer + LayerParameters(2 * 16 * 16, 3 * 2 * 16)


def test_active_counts_top_k_experts_only():
    model = small((SPARSE, 3))
    idle = 3 * (4 - 1) * 2 * 16 * 32
    assert model_parameters(model, active_only=False) - model_parameters(model, active_only=True) == idle


def test_every_layer_pattern_is_counted_by_itself():
    """User case 6: a pattern that is ignored counts every layer as MoE."""
    model = small((DENSE, 3), (SPARSE, 1))
    dense, sparse = layer_parameters(DENSE, H, True).total, layer_parameters(SPARSE, H, True).total
    assert model.parameters() == 3 * dense + sparse + 32 * 16 + 32


# ------------------------------------------------------------------------------------------------ vocabulary


@pytest.mark.parametrize(
    ("vocab", "tp", "padded"),
    [(151936, 1, 151936), (151936, 8, 152576), (50257, 1, 50304), (50257, 8, 51200), (152064, 8, 152576)],
)
def test_padded_vocab(vocab, tp, padded):
    assert padded_vocab(vocab, tp) == padded


@given(st.integers(1, 300_000), st.sampled_from([1, 2, 4, 8, 16, 3, 6]))
def test_padding_adds_less_than_one_multiple(vocab, tp):
    padded = padded_vocab(vocab, tp)
    assert padded % (128 * tp) == 0
    assert vocab <= padded < vocab + 128 * tp


def test_tied_head_has_no_matrix():
    assert head_parameters(small((DENSE, 1))).tp_sharded == 0
    assert head_parameters(small((DENSE, 1), tied=False)).tp_sharded == 32 * 16
    assert embedding_parameters(small((DENSE, 1)), vocab=128).tp_sharded == 128 * 16


# ------------------------------------------------------------------------------------------------ stages


def test_uneven_dense_stages():
    """User case 3 (Megatron-Bridge PR 5077): 8 dense layers as [1,2,2,3] hold 9,952 on the last stage, not the 6,792 of
    an even share of the layers plus a whole embedding."""
    stages = stage_parameters(small((DENSE, 8)), [1, 2, 2, 3])
    assert [stage.total for stage in stages] == [3136 + 512, 2 * 3136, 2 * 3136, 9_952]
    assert heaviest_stage(stages) == 3
    assert (8 * 3136 + 32) // 4 + 512 == 6_792


def test_uneven_mixed_stages():
    """The same case with every second layer MoE: 5,856 dense parameters on the heaviest stage; ours adds the routers."""
    model = small(*[(DENSE, 1), (SPARSE, 1)] * 4)
    stages = stage_parameters(model, [1, 2, 2, 3])
    routers = 2 * 16 * 4
    assert stages[3].tp_sharded + stages[3].replicated - routers == 5_856
    assert stages[3].routed_experts == 2 * 4 * 2 * 16 * 32


def test_even_stages_match_the_published_small_model():
    """The estimator's own unit test: 4 layers, 13,088 in all."""
    assert small((DENSE, 4)).parameters() == 13_088


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(lambda counts: sum(counts) > 0))
def test_stages_sum_to_the_model(counts):
    """Whatever the layout: nothing is lost, and only a tied embedding is held twice."""
    total = sum(counts)
    kinds = [DENSE if i % 3 else SPARSE for i in range(total)]
    model = small(*[(kind, 1) for kind in kinds])
    stages = stage_parameters(model, counts)
    copy = 32 * 16 if len(counts) > 1 else 0
    assert sum(stage.total for stage in stages) == model.parameters() + copy
    assert model_buckets(model).total == model.parameters()


def test_mtp_sits_on_the_last_stage():
    model = ModelSpec(name="m", hidden=H, vocab=32, layers=((DENSE, 4),), mtp_modules=1)
    without = ModelSpec(name="m", hidden=H, vocab=32, layers=((DENSE, 4),))
    extra = stage_parameters(model, [2, 2])[1].total - stage_parameters(without, [2, 2])[1].total
    assert extra == mtp_parameters(model).total
    assert model.parameters() == without.parameters()


def test_layout_must_hold_every_layer():
    """User cases 37-41: layers that vanish."""
    with pytest.raises(ConfigError, match=r"layers_per_stage = \[2, 2\]: must be whole numbers that sum to 5 layers"):
        stage_parameters(small((DENSE, 5)), [2, 2])


def test_stages_pad_the_vocabulary_under_tensor_parallel():
    stages = stage_parameters(small((DENSE, 2)), [1, 1], tp=2)
    assert stages[0].tp_sharded == 3072 + 256 * 16

"""Where parsing a config.json is tricky, one trap at a time, on small configurations."""

from __future__ import annotations

from typing import Any

import pytest

from autodeploy.errors import InputError
from autodeploy.models.huggingface import parse_config

BASE = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
        "intermediate_size": 128}  # fmt: skip
EXPERTS = BASE | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def read(**changes: Any):
    """A model from the base configuration; None drops a key."""
    merged = BASE | changes
    return parse_config({key: value for key, value in merged.items() if value is not None})


def kinds(model):
    return [model.kinds[i] for i in model.layer_sequence()]


def test_1_nested_text_config():
    model = parse_config(
        {"model_type": "llama4", "tie_word_embeddings": True, "vision_config": {}, "text_config": BASE}
    )
    assert model.hidden == 64
    assert model.tied_embeddings
    assert any("vision" in note for note in model.notes)


@pytest.mark.parametrize(("stated", "expected"), [({}, 16), ({"head_dim": 32}, 32), ({"head_dim": None}, 16)])
def test_2_head_dim(stated, expected):
    assert read(**stated).layers[0][0].attention.head_dim == expected


def test_2_value_head_dim_may_differ():
    attention = read(head_dim=192, v_head_dim=128).layers[0][0].attention
    assert (attention.head_dim, attention.v_head_dim) == (192, 128)


def test_3_other_names_of_head_dim():
    assert read(attention_head_dim=24).layers[0][0].attention.head_dim == 24
    attention = read(qk_nope_dim=16, qk_rope_dim=8, v_channels=12, num_key_value_heads=2).layers[0][0].attention
    assert (attention.kind, attention.head_dim, attention.v_head_dim) == ("softmax", 24, 12)


@pytest.mark.parametrize(("stated", "expected"), [
    ({}, 4), ({"num_key_value_heads": None}, 4), ({"num_key_value_heads": 2}, 2), ({"attn_config": {"kv_n_heads": 1}}, 1),
])  # fmt: skip
def test_4_key_value_heads(stated, expected):
    assert read(**stated).layers[0][0].attention.kv_heads == expected


@pytest.mark.parametrize(
    "name", ["num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts"]
)
@pytest.mark.parametrize("value", [8, [8, 8, 8, 8]])
def test_5_expert_count(name, value):
    half = read(**{name: value, "num_experts_per_tok": 2, "moe_intermediate_size": 32}).layers[0][0].feed_forward
    assert (half.experts, half.top_k, half.width) == (8, 2, 32)


@pytest.mark.parametrize("stated", [
    {"num_experts_per_tok": 2}, {"moe_topk": [2, 2, 2, 2]}, {"moe_k": 2}, {"ffn_config": {"moe_top_k": 2}},
    {"top_k_experts": 2},
])  # fmt: skip
def test_5_top_k(stated):
    assert read(num_experts=8, moe_intermediate_size=32, **stated).layers[0][0].feed_forward.top_k == 2


def test_5_generation_top_k_is_not_the_routers():
    """Kimi-K2.5 carries the sampling parameter top_k = 50."""
    assert read(num_experts=8, num_experts_per_tok=2, top_k=50).layers[0][0].feed_forward.top_k == 2


def test_6_expert_width():
    assert read(num_local_experts=8, num_experts_per_tok=2).layers[0][0].feed_forward.width == 128
    model = read(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=[32, 32, 48, 48])
    assert [kind.feed_forward.width for kind in kinds(model)] == [32, 32, 48, 48]


def test_6_llama4_dense_width():
    model = read(model_type="llama4_text", num_local_experts=8, num_experts_per_tok=1, intermediate_size_mlp=256,
                 interleave_moe_layer_step=2)  # fmt: skip
    halves = [kind.feed_forward for kind in kinds(model)]
    assert [half.is_moe for half in halves] == [False, True, False, True]
    assert (halves[0].width, halves[1].width, halves[1].shared_width) == (256, 128, 128)


@pytest.mark.parametrize(("stated", "expected"), [
    ({}, [1, 1, 1, 1]),
    ({"first_k_dense_replace": 3}, [0, 0, 0, 1]),
    ({"num_dense_layers": 1}, [0, 1, 1, 1]),
    ({"moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1}, [0, 1, 1, 1]),
    ({"decoder_sparse_step": 2}, [0, 1, 0, 1]),
    ({"decoder_sparse_step": 1, "mlp_only_layers": [2]}, [1, 1, 0, 1]),
    ({"mlp_only_layers": [0, 1]}, [0, 0, 1, 1]),
    ({"interleave_moe_layer_step": 2}, [0, 1, 0, 1]),
    ({"moe_layers": [1, 3]}, [0, 1, 0, 1]),
    ({"moe_layer_freq": [0, 1, 1, 1]}, [0, 1, 1, 1]),
    ({"moe_layer_freq": 1, "first_k_dense_replace": 1}, [0, 1, 1, 1]),
    ({"moe_layer_freq": 2}, [1, 0, 1, 0]),
])  # fmt: skip
def test_7_dense_and_expert_layers(stated, expected):
    model = parse_config(EXPERTS | stated)
    assert [int(kind.feed_forward.is_moe) for kind in kinds(model)] == expected


@pytest.mark.parametrize(("stated", "expected"), [
    ({}, 0),
    ({"n_shared_experts": 2}, 64),
    ({"n_shared_experts": None}, 0),
    ({"num_shared_expert": [1, 1, 1, 1]}, 32),
    ({"moe_num_shared_experts": 2}, 64),
    ({"shared_expert_intermediate_size": 80}, 80),
    ({"shared_expert_intermediate_size": 0}, 0),
    ({"shared_intermediate_size": 0}, 0),
])  # fmt: skip
def test_8_shared_experts(stated, expected):
    half = parse_config(EXPERTS | stated).layers[0][0].feed_forward
    assert half.shared_width == expected


@pytest.mark.parametrize(("stated", "expected"), [
    ({}, 0), ({"num_nextn_predict_layers": 1}, 1), ({"num_mtp_layers": 1}, 1), ({"num_nextn_predict_layers": 0}, 0),
    ({"mtp_num_hidden_layers": 1}, 1), ({"use_mtp": False, "num_mtp_modules": 3}, 0),
])  # fmt: skip
def test_9_mtp_comes_on_top(stated, expected):
    model = read(**stated)
    assert (model.mtp_modules, model.num_layers) == (expected, 4)
    assert model.parameters() == read().parameters()


@pytest.mark.parametrize(("model_type", "expected"), [
    ("llama", False), ("gemma2", True), ("gemma3_text", True), ("grok-1", True), ("deepseek_v3", False), ("qwen3", False),
])  # fmt: skip
def test_10_tied_by_family_where_not_stated(model_type, expected):
    assert read(model_type=model_type).tied_embeddings is expected
    assert read(model_type=model_type, tie_word_embeddings=not expected).tied_embeddings is not expected


LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "num_key_value_heads": 4}


def test_11_latent_attention():
    attention = read(**LATENT, q_lora_rank=24).layers[0][0].attention
    assert (attention.kind, attention.head_dim, attention.q_lora_rank) == ("mla", 12, 24)
    assert read(**LATENT, q_lora_rank=None).layers[0][0].attention.q_lora_rank == 0


def test_11_pangu_names_and_null_rank():
    pangu = {"attention_kv_lora_dim": 16, "attention_q_lora_dim": 24, "attention_qk_rope_dim": 4, "attention_v_dim": 8,
             "attention_qk_dim": 8}  # fmt: skip
    assert read(**pangu).layers[0][0].attention == read(**LATENT, q_lora_rank=24).layers[0][0].attention
    assert parse_config(BASE | {"kv_lora_rank": None}).layers[0][0].attention.kind == "softmax"


def windows(model):
    return [kind.attention.window_tokens for kind in kinds(model)]


@pytest.mark.parametrize(("stated", "expected"), [
    ({"sliding_window": 8}, [8, 8, 8, 8]),
    ({"sliding_window": None}, [0, 0, 0, 0]),
    ({"sliding_window": 8, "use_sliding_window": False}, [0, 0, 0, 0]),
    ({"sliding_window": 8, "model_type": "qwen2"}, [0, 0, 0, 0]),
    ({"sliding_window": 8, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 3}, [0, 0, 0, 8]),
    ({"sliding_window": 8, "model_type": "gemma2"}, [8, 0, 8, 0]),
    ({"sliding_window": 8, "model_type": "gemma3_text", "sliding_window_pattern": 2}, [8, 0, 8, 0]),
    ({"sliding_window": 8, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, [8, 8, 8, 0]),
    ({"sliding_window": 64, "max_position_embeddings": 64}, [0, 0, 0, 0]),
    ({"attention_chunk_size": 8}, [8, 8, 8, 0]),
    ({"sliding_window": 8, "hybrid_layer_pattern": [0, 1, 1, 0]}, [0, 8, 8, 0]),
])  # fmt: skip
def test_12_sliding_window(stated, expected):
    assert windows(read(**stated)) == expected


DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
         "linear_conv_kernel_dim": 4}  # fmt: skip


def test_12_linear_layers():
    model = read(model_type="qwen3_next", full_attention_interval=4, **DELTA)
    assert [kind.attention.kind for kind in kinds(model)] == ["gated_delta"] * 3 + ["softmax"]
    assert kinds(model)[3].attention.output_gate
    types = ["linear_attention", "full_attention"] * 2
    assert [kind.attention.kind for kind in kinds(read(layer_types=types, **DELTA))] == ["gated_delta", "softmax"] * 2
    model = read(model_type="minimax_text_01", attn_type_list=[0, 0, 0, 1])
    assert [kind.attention.kind for kind in kinds(model)] == ["lightning"] * 3 + ["softmax"]


def test_12_hybrid_pattern_counts_blocks_of_every_kind():
    mamba = {"mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 2, "conv_kernel": 4}
    model = parse_config(EXPERTS | mamba | {"model_type": "nemotron_h", "hybrid_override_pattern": "ME*-"})
    blocks = kinds(model)
    assert [kind.attention.kind if kind.attention else None for kind in blocks] == ["mamba", None, "softmax", None]
    assert [kind.feed_forward is not None for kind in blocks] == [False, True, False, True]
    assert all(kind.norms == 1 for kind in blocks)
    assert not blocks[1].feed_forward.gated
    with pytest.raises(InputError, match="one letter for each of 4 layers"):
        parse_config(EXPERTS | mamba | {"hybrid_override_pattern": "ME*"})


def test_12_unused_cross_layer_sharing_is_ignored():
    assert read(cla_share_factor=2, use_cla=False).parameters() == read().parameters()


@pytest.mark.parametrize(("stated", "gated"), [
    ({"hidden_act": "silu"}, True), ({"model_type": "nemotron", "hidden_act": "relu2"}, False),
    ({"model_type": "new", "hidden_act": "relu2"}, False), ({"model_type": "new", "hidden_act": "silu"}, True),
    ({"model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh"}, True), ({"model_type": "gpt2"}, False),
])  # fmt: skip
def test_13_gated_or_plain(stated, gated):
    assert read(**stated).layers[0][0].feed_forward.gated is gated


def test_13_nemotron_has_layer_norm():
    assert read(model_type="nemotron").norm_bias
    assert not read().norm_bias


def test_14_quantisation_and_dtype_change_nothing():
    stored = {"quantization_config": {"quant_method": "fp8"}, "torch_dtype": "float8_e4m3fn", "dtype": "bfloat16"}
    assert read(**stored) == read()


def test_15_renamed_keys():
    renamed = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "max_seq_len": 32,
               "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 8, "moe_top_k": 2, "model_type": ""}}  # fmt: skip
    model = parse_config(renamed)
    assert (model.hidden, model.num_layers, model.max_seq_length) == (64, 4, 32)
    assert (model.layers[0][0].feed_forward.experts, model.layers[0][0].feed_forward.width) == (8, 32)
    old = parse_config(
        {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 32}
    )
    assert (old.layers[0][0].feed_forward.width, old.learned_positions, old.tied_embeddings) == (256, 32, True)


def test_16_vocabulary_is_kept_as_stated():
    assert read(vocab_size=128167).vocab == 128167


# ------------------------------------------------------------------------------------------------ unknown architectures


def test_unknown_architecture_is_read_by_its_generic_keys():
    model = read(model_type="brand_new", architectures=["BrandNewForCausalLM"], hidden_act="silu", rms_norm_eps=1e-5)
    assert model.layers == read().layers
    assert any("unknown architecture (brand_new)" in note for note in model.notes)


def test_unknown_model_type_with_a_known_architecture():
    assert not read(model_type="my_copy", architectures=["LlamaForCausalLM"]).notes


def test_architecture_alone_is_enough():
    assert read(model_type=None, architectures=["Qwen2ForCausalLM"]).layers[0][0].attention.qkv_bias


# ------------------------------------------------------------------------------------------------ wrong values


@pytest.mark.parametrize(("changes", "message"), [
    ({"hidden_size": None}, "hidden_size = None: must be a whole number >= 1; the key is missing"),
    ({"num_hidden_layers": None}, "num_hidden_layers = None"),
    ({"vocab_size": None}, "vocab_size = None"),
    ({"intermediate_size": None}, "intermediate_size = None"),
    ({"hidden_size": -64}, "hidden_size = -64: must be a whole number >= 1"),
    ({"hidden_size": 0}, "hidden_size = 0"),
    ({"hidden_size": "64"}, "hidden_size = '64'"),
    ({"hidden_size": 64.5}, "hidden_size = 64.5"),
    ({"hidden_size": True}, "hidden_size = True"),
    ({"hidden_size": {}}, "hidden_size = {}"),
    ({"hidden_size": []}, r"hidden_size = \[\]"),
    ({"num_attention_heads": 5}, "num_attention_heads = 5: must be a divisor of hidden_size .64.; or state head_dim"),
    ({"num_key_value_heads": 3}, "num_key_value_heads = 3: must be a divisor of num_attention_heads .4."),
    ({"tie_word_embeddings": "yes"}, "tie_word_embeddings = 'yes': must be true or false"),
    ({"num_experts": 8, "num_experts_per_tok": 9}, "top_k = 9"),
    ({"num_experts": 8}, "num_experts_per_tok = None"),
    ({"layer_types": ["full_attention"]}, "layer_types = '1 entries': must be one entry for each of 4 layers"),
    ({"mlp_only_layers": 1, "num_experts": 8, "num_experts_per_tok": 2}, "mlp_only_layers = 1: must be a list of layer numbers"),
    ({"vocab_size": 10**30}, "vocab_size = 1000000"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
])  # fmt: skip
def test_wrong_value_is_named(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(**changes)
    assert "\n" not in str(caught.value)

"""Configurations beyond the usual: counted as transformers counts them, layer words known or refused, unread keys named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autodeploy.errors import InputError
from autodeploy.models import load_model
from autodeploy.models.document import to_document
from autodeploy.models.huggingface import parse_config
from autodeploy.models.schema import checked_model
from tests.models.test_traps import BASE, read

MORE = Path(__file__).resolve().parents[3] / "shared" / "hf_configs" / "more"
TABLE = re.compile(r"^\| (\S+\.json) \| ([\d,]+) \|", re.MULTILINE)
ROWS = TABLE.findall((MORE / "README.md").read_text(encoding="utf-8")) if MORE.is_dir() else [("absent.json", "0")]


@pytest.mark.shared
@pytest.mark.skipif(not MORE.is_dir(), reason="../shared/hf_configs/more is not there")
@pytest.mark.parametrize(("name", "count"), ROWS, ids=[row[0] for row in ROWS])
def test_counts_of_the_table(name: str, count: str) -> None:
    model = load_model(str(MORE / name))
    assert model.parameters() == pytest.approx(int(count.replace(",", "")), rel=3e-3)
    assert not model.unread
    again = checked_model(json.loads(json.dumps(to_document(model))), default_name=model.name)
    assert again == model  # our YAML can say all of it


MAMBA = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2}


def kinds(model: Any) -> list[str]:
    names = [model.kinds[i] for i in model.layer_sequence()]
    return ["+".join(attention.kind for attention in kind.attentions) or "none" for kind in names]


@pytest.mark.parametrize(("stated", "expected"), [
    ({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 2, "mamba_dt_rank": 4, **MAMBA},
     ["mamba1", "mamba1", "softmax", "mamba1"]),
    ({"model_type": "bamba", "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 16, **MAMBA},
     ["mamba", "softmax", "mamba", "mamba"]),
    ({"model_type": "falcon_h1", "mamba_n_heads": 8, "mamba_d_head": 16, **MAMBA}, ["softmax+mamba"] * 4),
    ({"model_type": "lfm2", "full_attn_idxs": [0, 3]}, ["softmax", "short_conv", "short_conv", "softmax"]),
    ({"model_type": "recurrent_gemma", "block_types": ["recurrent", "attention"], "lru_width": 64},
     ["rg_lru", "softmax"] * 2),
    ({"model_type": "kimi_linear", "linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4], "num_heads": 2,
                                                          "head_dim": 16}}, ["kda", "kda", "kda", "softmax"]),
    ({"model_type": "mamba", "state_size": 8, "time_step_rank": 4}, ["mamba1"] * 4),
    ({"model_type": "nemotron_h", "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp"],
      "ssm_state_size": 8, "mamba_num_heads": 8, "mamba_head_dim": 16}, ["mamba", "none", "softmax", "none"]),
])  # fmt: skip
def test_kinds_of_layers(stated: dict[str, Any], expected: list[str]) -> None:
    assert kinds(read(**stated)) == expected


def test_two_attentions_and_two_dense_mlps_in_a_layer() -> None:
    latent = {"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
    model = read(
        model_type="longcat_flash",
        n_routed_experts=8,
        moe_topk=2,
        expert_ffn_hidden_size=32,
        zero_expert_num=4,
        **latent,
    )
    kind = model.kinds[0]
    assert [a.kind for a in kind.attentions] == ["mla", "mla"]
    assert [ffn.is_moe for ffn in kind.feed_forwards] == [True, False, False]
    assert kind.feed_forwards[0].zero_experts == 4 and kind.norms == 4


def test_multi_query_wins_over_the_number_of_heads() -> None:
    assert read(model_type="falcon", multi_query=True, num_kv_heads=4).kinds[0].attention.kv_heads == 1


def test_plain_width_where_it_is_null() -> None:
    config = {"model_type": "gptj", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_inner": None}
    assert parse_config(config).kinds[0].feed_forward.width == 256


def test_experts_of_a_period_and_their_own_dense_width() -> None:
    model = read(model_type="jamba", num_experts=4, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1,
                 attn_layer_period=1, mamba_dt_rank=4, **MAMBA)  # fmt: skip
    assert [model.kinds[i].feed_forward.is_moe for i in model.layer_sequence()] == [False, True, False, True]


def test_sliding_layers_with_their_own_heads() -> None:
    model = read(sliding_window=8, layer_types=["sliding_attention", "full_attention"] * 2, swa_num_attention_heads=8,
                 swa_num_key_value_heads=2, swa_head_dim=8)  # fmt: skip
    near, far = model.kinds[0].attention, model.kinds[1].attention
    assert (near.query_heads, near.kv_heads, near.window_tokens, far.query_heads) == (8, 2, 8, 4)


def test_a_module_of_several_half_blocks() -> None:
    state = {
        "ssm_state_size": 8,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    }
    model = read(model_type="nemotron_h", hybrid_override_pattern="M*M-", num_nextn_predict_layers=1,
                 mtp_hybrid_override_pattern="*E", **state)  # fmt: skip
    kind = model.mtp_layer_kind
    assert (kind.attention.kind, kind.feed_forward.experts, kind.norms) == ("softmax", 4, 2)


def test_one_layer_may_differ() -> None:
    model = read(per_layer_config={"02": {"head_dim": 32}}, head_dim=16)
    assert [model.kinds[i].attention.head_dim for i in model.layer_sequence()] == [16, 16, 32, 16]


# ------------------------------------------------------------------------------------------------ loud


def test_an_unknown_layer_word_is_an_error_unless_assumed() -> None:
    config = BASE | {"layer_types": ["full_attention", "quantum_attention"] * 2}
    with pytest.raises(InputError, match=r"layer_types = 'quantum_attention'.*--assume full\|sliding"):
        parse_config(config)
    assert kinds(parse_config(config, assume="full")) == ["softmax"] * 4


def test_linear_attention_without_a_description_is_an_error() -> None:
    with pytest.raises(InputError, match="linear_attention"):
        read(layer_types=["linear_attention", "full_attention"] * 2)


@pytest.mark.parametrize("key", ["moe_latent_width_size", "memory_dim", "num_memory_slots", "skip_period", "memory_layer_types",
                                 "adapter_layers", "value_rank"])  # fmt: skip
def test_shape_like_keys_that_nothing_reads_are_named(key: str) -> None:
    model = read(**{key: 7})
    assert model.unread == (key,)
    assert any("not used" in note and key in note for note in model.notes)
    assert not read(**{key: 0}).unread and not read().unread


def test_an_unknown_activation_is_named() -> None:
    assert read(hidden_act="wavelet").unread == ("hidden_act",)
    assert not read(hidden_act="silu").unread


def test_encoders_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="decoder-only"):
        read(model_type="bert")

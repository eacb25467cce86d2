"""Shapes of the published runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodeploy.errors import InputError
from autodeploy.models import load_model
from autodeploy.models.reference import from_reference

FILE = Path(__file__).resolve().parents[3] / "shared" / "reference_runs" / "models.yaml"
GPT = {"name": "GPT 175B", "num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96, "vocab_size": 51200,
       "ffn_hidden_size": 49152, "gated_mlp": False}  # fmt: skip


def test_gpt_is_tied_with_biases():
    """12 L h^2 (1 + 13/(12h)) + V h: Narayanan et al. 2021, equation 2, without learned positions, plus the final norm."""
    model = from_reference(GPT)
    layers, h = 96, 12288
    assert model.tied_embeddings
    assert model.parameters() == layers * (12 * h * h + 13 * h) + 51200 * h + 2 * h


def test_latent_experts_and_mtp():
    entry = {"name": "DeepSeek-V3", "num_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "vocab_size": 129280,
             "ffn_hidden_size": 18432, "gated_mlp": True, "untied_embeddings": True, "mtp_layers": 1,
             "mla": {"q_lora_rank": 1536, "kv_lora_rank": 512, "v_head_dim": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
             "moe": {"num_experts": 256, "top_k": 8, "expert_ffn_hidden_size": 2048, "num_shared_experts": 1,
                     "first_dense_layers": 3}}  # fmt: skip
    model = from_reference(entry)
    assert (model.mtp_modules, [count for _, count in model.layers]) == (1, [3, 58])
    assert abs(model.parameters() - load_model("deepseek-v3").parameters()) < 20_000  # router biases


def test_layer_pattern_and_window():
    moe = {"num_experts": 4, "top_k": 1, "expert_ffn_hidden_size": 8, "moe_layer_freq": "[0,1]*48"}
    model = from_reference(GPT | {"moe": moe, "sliding_window": 128, "sliding_window_every": 2})
    kinds = [model.kinds[i] for i in model.layer_sequence()]
    assert [kind.feed_forward.is_moe for kind in kinds[:4]] == [False, True, False, True]
    assert [kind.attention.window_tokens for kind in kinds[:4]] == [128, 0, 128, 0]


def test_missing_size_is_named():
    with pytest.raises(InputError, match="hidden_size = None"):
        from_reference({key: value for key, value in GPT.items() if key != "hidden_size"})


@pytest.mark.shared
@pytest.mark.skipif(not FILE.is_file(), reason="../shared/reference_runs is not there")
def test_every_entry_is_read():
    import yaml

    entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    models = {key: from_reference(entry) for key, entry in entries.items()}
    assert models, "no entry"
    for key, model in models.items():
        assert model.num_layers == entries[key]["num_layers"]
    assert round(models["145b"].parameters() / 1e9, 1) == 145.6
    assert round(models["1t"].parameters() / 1e9) == 1008
    assert round(models["pangu-ultra-moe-718b"].parameters() / 1e9, 2) == 719.09
    pangu = from_reference(
        entries["pangu-ultra-moe-718b"] | {"norms_per_layer": 4}
    )  # sandwich norm, which that file lacks
    assert pangu.layers == load_model("pangu-ultra-moe-718b").layers

"""Megatron-LM and MindSpeed-LLM arguments."""

from __future__ import annotations

import pytest

from autodeploy.errors import InputError
from autodeploy.models import load_model
from autodeploy.models.megatron import parse_arguments, read_arguments
from autodeploy.models.runs import layer_pattern

LLAMA = """--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention
--num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope
--untie-embeddings-and-output-weights --vocab-size 128256 --max-position-embeddings 131072 --seq-length 8192"""

SCRIPT = r"""#!/bin/bash
# --num-layers 99
NUM_LAYERS=64
HIDDEN=${HIDDEN:-7168}
MOE_ARGS="
    --num-experts 256 \
    --moe-router-topk 8 --moe-intermediate-size 2048 --n-shared-experts 1 --first-k-dense-replace 3 --moe-layer-freq 1
    --moe-router-num-groups 8 --moe-router-group-topk 4 --moe-router-enable-expert-bias
"
EXTRA_ARGS="
    --spec mindspeed_llm.tasks.models.spec.deepseek_spec layer_spec \
    --noop-layers 61,62,63 \
"
GPT_ARGS=(
    --num-layers ${NUM_LAYERS}     # decoder only
    --hidden-size $HIDDEN --ffn-hidden-size=18432
    --num-attention-heads 128
    --multi-latent-attention --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128
    --q-lora-rank 1536 --kv-lora-rank 512 --qk-layernorm
    --padded-vocab-size 129280 --max-position-embeddings 163840
    --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear
    --use-rotary-position-embeddings
    --mtp-num-layers 1
)
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py ${GPT_ARGS[@]} $MOE_ARGS $EXTRA_ARGS | tee logs/pretrain.log
"""


def test_llama_arguments_are_the_real_model():
    model, real = parse_arguments(LLAMA), load_model("llama-3.1-70b")
    assert model.layers == real.layers
    assert (model.parameters(), model.max_seq_length) == (real.parameters(), 131072)


def test_launch_script_is_the_real_model(tmp_path):
    path = tmp_path / "pretrain_deepseek3.sh"
    path.write_text(SCRIPT, encoding="utf-8")
    model, real = load_model(str(path)), load_model("deepseek-v3")
    assert model.layers == real.layers
    assert (model.parameters(), model.mtp_modules, model.name) == (671_026_419_200, 1, "pretrain_deepseek3")


def test_gpt_defaults():
    """Megatron-LM without further words: LayerNorm, biases, 4h plain MLP, learned positions, tied embeddings."""
    model = parse_arguments("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 128 --seq-length 32")
    kind = model.layers[0][0]
    assert (kind.feed_forward.width, kind.feed_forward.gated, kind.feed_forward.bias) == (256, False, True)
    assert (model.norm_bias, model.tied_embeddings, model.learned_positions) == (True, True, 32)
    assert kind.attention.qkv_bias and kind.attention.output_bias


def test_swiglu_default_width():
    text = "--num-layers 2 --hidden-size 4096 --num-attention-heads 32 --vocab-size 128 --swiglu"
    assert parse_arguments(text).layers[0][0].feed_forward.width == 10880


def test_frequency_lists():
    text = LLAMA + ' --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-layer-freq "([0]*3+[1]*77)"'
    model = parse_arguments(text)
    assert [(kind.feed_forward.is_moe, count) for kind, count in model.layers] == [(False, 3), (True, 77)]


def test_noop_layers_are_not_layers():
    model = parse_arguments(LLAMA.replace("--num-layers 80", "--num-layers 84 --noop-layers 0,1,82,83"))
    assert model.layers == load_model("llama-3.1-70b").layers
    with pytest.raises(InputError, match="--noop-layers = '80': must be layer numbers from 0 to 79"):
        parse_arguments(LLAMA + " --noop-layers 80")


def test_words():
    given = read_arguments("--a 1 --b=2 --flag --c 'x y' --a 3")
    assert given == {"a": "3", "b": "2", "flag": None, "c": "x"}


@pytest.mark.parametrize(("text", "message"), [
    (LLAMA.replace("--vocab-size 128256", ""), "--vocab-size = None: must be given; the tokenizer is not read"),
    (LLAMA.replace("--hidden-size 8192", ""), "--hidden-size = None: must be given"),
    (LLAMA.replace("--num-layers 80", "--num-layers eighty"), "--num-layers = 'eighty'"),
    (LLAMA.replace("--num-layers 80", "--num-layers $LAYERS"), "a shell variable that the file does not set"),
    (LLAMA.replace("--num-layers 80", "--num-layers -8"), "--num-layers = '-8'"),
    (LLAMA.replace("heads 64", "heads 60"), "--num-attention-heads = 60: must be a divisor of --hidden-size"),
    (LLAMA.replace("groups 8", "groups 7"), "--num-query-groups = 7: must be a divisor"),
    (LLAMA + " --num-experts 8 --moe-layer-freq [0]*3", "--moe-layer-freq"),
])  # fmt: skip
def test_wrong_arguments_are_named(text, message):
    with pytest.raises(InputError, match=message):
        parse_arguments(text)


@pytest.mark.parametrize(("text", "expected"), [
    ("1", [1, 1, 1, 1]), ("2", [1, 0, 1, 0]), ("[0,1]*2", [0, 1, 0, 1]), ("([0]*1+[1]*3)", [0, 1, 1, 1]),
    ("[0, 1, 1, 1]", [0, 1, 1, 1]),
])  # fmt: skip
def test_layer_pattern(text, expected):
    assert layer_pattern("freq", text, 4) == expected


@pytest.mark.parametrize(
    "text", ["0", "-1", "[1]*3", "[1]*10**9", "__import__('os')", "[[1]]*4", "1+1", "", "[1]*999999999"]
)
def test_layer_pattern_refuses_anything_else(text):
    with pytest.raises(InputError, match="freq"):
        layer_pattern("freq", text, 4)

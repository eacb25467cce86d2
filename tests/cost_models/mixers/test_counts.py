"""Parameters of single mixers against the weights that transformers 5.24 builds for the default configurations."""

from __future__ import annotations

import pytest

from cost_models.inputs import Attention, FeedForward, LayerKind, Workload
from cost_models.mixers.core_attention import score_pairs
from cost_models.mixers.table import mixer_of
from cost_models.parameters import active_layer_parameters, feed_forward_parameters, layer_parameters


def mixer(**fields: object) -> Attention:
    usual = {"query_heads": 1, "kv_heads": 1, "head_dim": 1, "v_head_dim": 1}
    return Attention(**(usual | fields))  # type: ignore[arg-type]


# name, hidden, mixer, elements of its tensors as their shapes say
CASES = [
    (  # Kimi Linear: q, k, v, output of 32 x 128; convolutions of 4; low-rank decay and gate of 128; norm of a head
        "kda", 2304,
        mixer(kind="kda", query_heads=32, kv_heads=32, head_dim=128, v_head_dim=128, value_heads=32, conv_kernel=4, gate_rank=128),
        4 * 2304 * 4096 + 12288 * 4 + 2 * (2304 * 128 + 128 * 4096) + 2304 * 32 + 4096 + 32 + 128,
    ),
    (  # Jamba: in 4096 -> 16384, select 8192 -> 288, dt 256 -> 8192 with bias, out; A 16 wide, D, convolution with bias, norms
        "mamba1", 4096,
        mixer(kind="mamba1", query_heads=8192, kv_heads=8192, value_heads=8192, state_dim=16, dt_rank=256,
              conv_kernel=4, qk_norm=True),
        4096 * 16384 + 8192 * 288 + 256 * 8192 + 8192 + 8192 * 4096 + 8192 * 16 + 8192 + 8192 * 5 + 256 + 16 + 16,
    ),
    (  # Bamba: in 4096 -> 17024, convolution of 8704 with bias, three vectors of 128, norm and output of 8192
        "mamba", 4096,
        mixer(kind="mamba", query_heads=1, head_dim=256, v_head_dim=64, value_heads=128, state_dim=256, state_groups=1,
              conv_kernel=4),
        4096 * 17024 + 8704 * 5 + 3 * 128 + 8192 + 8192 * 4096,
    ),
    (  # LFM3: in 2048 -> 6144, depthwise convolution of 7, out
        "short_conv", 2048, mixer(kind="short_conv", query_heads=2048, kv_heads=2048, conv_kernel=7),
        2048 * 6144 + 2048 * 7 + 2048 * 2048,
    ),
    (  # RecurrentGemma: two branches and the output with bias, convolution with bias, two block-diagonal gates, the decay
        "rg_lru", 2560,
        mixer(kind="rg_lru", query_heads=10, kv_heads=10, head_dim=256, v_head_dim=256, value_heads=10, conv_kernel=4,
              qkv_bias=True, output_bias=True),
        3 * (2560 * 2560 + 2560) + 2560 * 5 + 2 * (10 * 256 * 256 + 2560) + 2560,
    ),
    (  # RWKV-4: four square matrices, decay, bonus, three token shifts
        "rwkv", 4096, mixer(kind="rwkv", query_heads=4096, kv_heads=4096), 4 * 4096 * 4096 + 5 * 4096,
    ),
    (  # xLSTM 7B: q and k of 2048, v and output gate of 4096, two gates of 8 with bias, norm, output
        "mlstm", 4096, mixer(kind="mlstm", query_heads=8, kv_heads=8, head_dim=256, v_head_dim=512, value_heads=8),
        4096 * (2 * 2048 + 2 * 4096) + 2 * (8 * 4096 + 8) + 4096 + 4096 * 4096,
    ),
    (  # DeepSeek-V4, compressed with an indexer: as its tensors are listed in transformers
        "compressed", 4096,
        mixer(kind="compressed", query_heads=64, head_dim=512, v_head_dim=512, window_tokens=128, q_lora_rank=1024,
              o_lora_rank=1024, o_groups=8, compress_tokens=4, index_heads=64, index_head_dim=128, index_topk=512, sinks=True),
        64 + 1024 * 4096 + 1024 + 32768 * 1024 + 512 * 4096 + 512 + 8192 * 4096 + 4096 * 8192
        + 4 * 1024 + 2 * 1024 * 4096 + 512 + 4 * 256 + 2 * 256 * 4096 + 128 + 8192 * 1024 + 64 * 4096,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "hidden", "attention", "elements"), CASES, ids=[case[0] for case in CASES])
def test_elements(name: str, hidden: int, attention: Attention, elements: int) -> None:
    assert mixer_of(attention).parameters(attention, hidden, False).total == elements


def test_latent_experts() -> None:
    """Nemotron-3-Super: 512 experts of 1024 x 2688 twice, a shared one of 4096 x 5376 twice, router, two latent projections."""
    ffn = FeedForward(width=2688, gated=False, experts=512, top_k=22, shared_width=5376, latent=1024)
    counted = feed_forward_parameters(ffn, 4096)
    assert counted.routed_experts == 512 * 2 * 1024 * 2688
    assert counted.tp_sharded == 2 * 4096 * 5376 and counted.replicated == 4096 * 512 + 2 * 4096 * 1024


def test_zero_computation_experts_halve_what_a_token_visits() -> None:
    """With as many idle experts as others, half of the choices fall on them; the router scores them all."""
    ffn = FeedForward(width=64, experts=8, top_k=4, zero_experts=8)
    kind = LayerKind(attention=None, feed_forward=ffn, norms=0)
    assert ffn.expert_calls == 2.0
    assert active_layer_parameters(kind, 32, False) == 2 * 3 * 32 * 64 + 32 * 16


def test_further_halves_add_up() -> None:
    """A block with a second mixer has the parameters of both."""
    plain = mixer(query_heads=4, kv_heads=2, head_dim=8, v_head_dim=8)
    wide = FeedForward(width=64)
    both = LayerKind(
        attention=plain, feed_forward=wide, norms=2, more=(plain, wide), extra_parameters=5, side_elements=7
    )
    one = LayerKind(attention=plain, feed_forward=wide, norms=0)
    assert layer_parameters(both, 32, False).total == 2 * layer_parameters(one, 32, False).total + 2 * 32 + 12


def test_sparse_attention_sees_the_chosen_keys_only() -> None:
    """Full 8192^2 / 2 pairs; with 2048 chosen: s k - k^2 / 2."""
    work = Workload(seq_length=8192, global_batch=1)
    latent = {"kind": "mla", "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "head_dim": 8}
    assert score_pairs(mixer(**latent), work) == 8192**2 / 2
    sparse = mixer(**latent, index_heads=2, index_head_dim=8, index_topk=2048)
    assert score_pairs(sparse, work) == 8192 * 2048 - 2048**2 / 2


def test_compressed_attention_grows_with_the_blocks() -> None:
    """Window of 128 and every 16th token's block: s w - w^2/2 + s^2 / 32."""
    work = Workload(seq_length=4096, global_batch=1)
    a = mixer(kind="compressed", window_tokens=128, q_lora_rank=4, o_lora_rank=4, o_groups=1, compress_tokens=16)
    assert score_pairs(a, work) == 4096 * 128 - 128**2 / 2 + 4096**2 / 32

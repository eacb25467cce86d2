"""Relative item costs of published models from counted FLOP, for tests and benchmarks.

One token, forward, 2 FLOP a multiply-add; causal attention ``s * a * (d_qk + d_v)`` (half of the square);
k active experts and the shared ones; head ``2 h V``; the embedding a lookup (0.2% of a layer, so that it is not free).
MTP: one layer of its kind, its 2h -> h projection, and the head it runs (Megatron: with the MTP module).
Model figures: the Hugging Face config.json of each model. Backward is twice the forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from autodeploy.balance.layers.items import LayerItems, uniform_items


@dataclass(frozen=True, kw_only=True)
class FlopModel:
    hidden: int
    vocab: int
    attention: float  # multiply-adds a token of the projections
    attention_width: int  # heads * (d_qk + d_v)
    dense_layers: int
    dense_width: int
    moe_layers: int = 0
    expert_width: int = 0
    active_experts: int = 0  # routed and shared
    mtp: int = 0

    def items(self, sequence_length: int = 8192, mtp_head: bool = True) -> LayerItems:
        attention = 2 * self.attention + sequence_length * self.attention_width
        dense = attention + 6 * self.hidden * self.dense_width
        moe = attention + 6 * self.hidden * self.expert_width * self.active_experts
        head = 2 * self.hidden * self.vocab
        last = moe if self.moe_layers else dense
        runs = [("dense", self.dense_layers, 3.0 * dense)] if self.dense_layers else []
        runs += [("moe", self.moe_layers, 3.0 * moe)] if self.moe_layers else []
        mtp = 3.0 * (last + 4 * self.hidden**2 + (head if mtp_head else 0))
        return uniform_items(embedding_s=0.006 * last, layers=runs, mtp_s=[mtp] * self.mtp, head_s=3.0 * head)


def _mla(h: int, heads: int, q_lora: int = 1536, kv_lora: int = 512) -> float:
    return h * q_lora + q_lora * heads * 192 + h * (kv_lora + 64) + kv_lora * heads * 256 + heads * 128 * h


def _gqa(h: int, heads: int, kv: int, d: int) -> float:
    return h * d * (2 * heads + 2 * kv)


MODELS = {
    "pangu-ultra-moe-718b": FlopModel(
        hidden=7680,
        vocab=153600,
        attention=_mla(7680, 128),
        attention_width=128 * 320,
        dense_layers=3,
        dense_width=18432,
        moe_layers=58,
        expert_width=2048,
        active_experts=9,
        mtp=1,
    ),
    "deepseek-v3": FlopModel(
        hidden=7168,
        vocab=129280,
        attention=_mla(7168, 128),
        attention_width=128 * 320,
        dense_layers=3,
        dense_width=18432,
        moe_layers=58,
        expert_width=2048,
        active_experts=9,
        mtp=1,
    ),
    "llama-3.1-405b": FlopModel(
        hidden=16384,
        vocab=128256,
        attention=_gqa(16384, 128, 8, 128),
        attention_width=128 * 256,
        dense_layers=126,
        dense_width=53248,
    ),
    "qwen3-235b-a22b": FlopModel(
        hidden=4096,
        vocab=151936,
        attention=_gqa(4096, 64, 4, 128),
        attention_width=64 * 256,
        dense_layers=0,
        dense_width=0,
        moe_layers=94,
        expert_width=1536,
        active_experts=8,
    ),
}

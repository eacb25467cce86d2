"""Compressed sparse attention: one shared key/value head, a sliding window beside compressed keys, low-rank queries and
outputs. Source: DeepSeek-V4 modelling code in Hugging Face transformers 5.24.

``compress_tokens`` tokens share a compressed key; with ``index_topk`` an indexer chooses among them, and the blocks overlap
(two sets of compressor columns).
"""

from __future__ import annotations

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL, MLA_UP, core_attention, rotary, score_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps, Saved


def _sets(a: Attention) -> int:
    return 2 if a.index_topk else 1


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    columns = a.query_heads * a.head_dim
    found = [
        Projection(name="q_down", inputs=hidden, outputs=a.q_lora_rank, split="whole"),
        Projection(name="q_up", inputs=a.q_lora_rank, outputs=columns, modules=MLA_UP),
        Projection(name="kv", inputs=hidden, outputs=a.head_dim, split="whole"),
        Projection(name="out_down", inputs=columns // a.o_groups, outputs=a.o_groups * a.o_lora_rank),
        Projection(name="attention_out", inputs=a.o_groups * a.o_lora_rank, outputs=hidden, split="row"),
    ]
    if a.compress_tokens:  # compressed keys and the gate that weighs the tokens of a block
        found.append(Projection(name="compress", inputs=hidden, outputs=2 * _sets(a) * a.head_dim, split="whole"))
    if a.index_heads:
        narrow = 2 * _sets(a) * a.index_head_dim + a.index_heads
        queries = a.index_heads * a.index_head_dim
        found.append(Projection(name="index_k", inputs=hidden, outputs=narrow, split="whole"))
        found.append(Projection(name="index_q", inputs=a.q_lora_rank, outputs=queries, split="whole"))
    return tuple(found)


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    """Norms of the latents and of both kinds of key; positions within a block; sinks."""
    whole = norm_weights(a.q_lora_rank + a.head_dim, norm_bias)
    if a.compress_tokens:
        whole += a.compress_tokens * _sets(a) * a.head_dim + norm_weights(a.head_dim, norm_bias)
    if a.index_heads:
        whole += a.compress_tokens * _sets(a) * a.index_head_dim + norm_weights(a.index_head_dim, norm_bias)
    return LayerParameters(a.query_heads if a.sinks else 0, whole)


def _compressed(a: Attention, hidden: int) -> int:
    """What sequence parallelism gathers: the query latent and the one key."""
    return a.q_lora_rank + a.head_dim


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    tokens, columns = core.tokens, a.query_heads * a.head_dim / core.tp
    rotary(ops, model, workload, tokens * (columns + a.head_dim))
    core_attention(ops, a, workload, core, a.head_dim, a.v_head_dim)
    latents = core.tokens_norm * (a.q_lora_rank + (2 + 2 * _sets(a)) * a.head_dim)
    ops.add(
        Saved(name="latents", size_bytes=2 * BF16 * latents, modules=FULL, swappable=True),
        Saved(name="q", size_bytes=BF16 * tokens * columns, modules=MLA_UP, swappable=True),
        Saved(
            name="attention_out_input",
            size_bytes=BF16 * tokens * columns,
            modules=FULL,
            swappable=True,
            role="input too",
        ),
        Saved(name="out_down", size_bytes=BF16 * tokens * a.o_groups * a.o_lora_rank / core.tp, modules=FULL),
    )


COMPRESSED = Mixer(
    needs=("q_lora_rank", "o_lora_rank", "o_groups"),
    projections=_projections,
    others=_others,
    mixing_flop=score_flop,
    add_mixing=_add_mixing,
    gathered=_compressed,
)

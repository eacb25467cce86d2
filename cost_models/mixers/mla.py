"""Multi-head latent attention. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; norms on both latents."""

from __future__ import annotations

from cost_models.buckets import LayerParameters, norm_weights
from cost_models.dims import Core
from cost_models.inputs import Attention, ModelSpec, Workload
from cost_models.mixers.core_attention import BF16, FULL, MLA_UP, core_attention, score_flop
from cost_models.mixers.record import Mixer, Projection
from cost_models.operators import LayerOps, MemoryBound, Saved


def _projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    """Down-projections are replicated over TP and run on the sequence-parallel share; up-projections are sharded."""
    columns = a.query_heads * a.head_dim
    query: tuple[Projection, ...] = (Projection(name="q", inputs=hidden, outputs=columns, modules=MLA_UP),)
    if a.q_lora_rank:
        query = (
            Projection(name="q_down", inputs=hidden, outputs=a.q_lora_rank, split="whole"),
            Projection(name="q_up", inputs=a.q_lora_rank, outputs=columns, modules=MLA_UP),
        )
    if a.output_gate or a.head_gate:
        columns = a.query_heads * (a.v_head_dim if a.output_gate else 1)
        query = (*query, Projection(name="gate", inputs=hidden, outputs=columns))
    narrow, wide = a.kv_lora_rank + a.qk_rope_head_dim, a.query_heads * (a.qk_nope_head_dim + a.v_head_dim)
    return (
        *query,
        Projection(name="kv_down", inputs=hidden, outputs=narrow, split="whole"),
        Projection(name="kv_up", inputs=a.kv_lora_rank, outputs=wide, modules=MLA_UP),
        *index_projections(a, hidden),
        Projection(name="attention_out", inputs=a.query_heads * a.v_head_dim, outputs=hidden, split="row"),
    )


def _others(a: Attention, hidden: int, norm_bias: bool) -> LayerParameters:
    latents = norm_weights(a.kv_lora_rank, norm_bias)
    if a.q_lora_rank:
        latents += norm_weights(a.q_lora_rank, norm_bias)
    index = 2 * a.index_head_dim if a.index_heads else 0  # a LayerNorm of the index key
    return LayerParameters(a.query_heads if a.sinks else 0, latents + index)


def index_projections(a: Attention, hidden: int) -> tuple[Projection, ...]:
    """The indexer of sparse attention: queries from the query latent, one key, a weight per head; on every rank."""
    if not a.index_heads:
        return ()
    return (
        Projection(
            name="index_q", inputs=a.q_lora_rank or hidden, outputs=a.index_heads * a.index_head_dim, split="whole"
        ),
        Projection(name="index_k", inputs=hidden, outputs=a.index_head_dim + a.index_heads, split="whole"),
    )


def _compressed(a: Attention, hidden: int) -> int:
    return a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim


def _add_mixing(ops: LayerOps, a: Attention, model: ModelSpec, workload: Workload, core: Core) -> None:
    tokens, heads = core.tokens, a.query_heads / core.tp
    q_cols, out_depth = heads * a.head_dim, heads * a.v_head_dim
    latent = core.tokens_norm * (a.q_lora_rank + a.kv_lora_rank)
    ops.add(
        MemoryBound(name="mla_norms", forward_bytes=4 * latent, backward_bytes=6 * latent, forward_kernels=2,
                    backward_kernels=4, modules=MLA_UP),
        # rotary on the rope part; then query and key are concatenated from their parts, which copies both
        MemoryBound(name="rope_concat", forward_bytes=8 * tokens * q_cols, backward_bytes=8 * tokens * q_cols,
                    forward_kernels=4, backward_kernels=4, modules=MLA_UP),
    )  # fmt: skip
    core_attention(ops, a, workload, core, a.head_dim, a.v_head_dim)
    compressed = BF16 * core.tokens_norm * 2 * _compressed(a, model.hidden)
    ops.add(
        Saved(name="mla_compressed", size_bytes=compressed, modules=FULL, swappable=True),
        Saved(name="q", size_bytes=BF16 * tokens * q_cols, modules=MLA_UP, swappable=True),
        Saved(name="k", size_bytes=BF16 * tokens * q_cols, modules=MLA_UP, swappable=True),
        Saved(name="v", size_bytes=BF16 * tokens * out_depth, modules=MLA_UP, swappable=True),
        Saved(
            name="attention_out_input",
            size_bytes=BF16 * tokens * out_depth,
            modules=FULL,
            swappable=True,
            role="input too",
        ),
    )


MLA = Mixer(
    needs=("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"),
    projections=_projections,
    others=_others,
    mixing_flop=score_flop,
    add_mixing=_add_mixing,
    gathered=_compressed,
)

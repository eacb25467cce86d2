"""The frozen value types that the cost models compute on.

Units: seconds, bytes, FLOP; ``_frac`` in 0..1; a bare noun is a count.
Axes: N strategies, S virtual stages, P pipeline ranks, K layer kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from cost_models.errors import ConfigError
from cost_models.records import record

# ---------------------------------------------------------------------------------------------------- model


def _require(condition: bool, name: str, value: object, allowed: str, remedy: str = "") -> None:
    if not condition:
        raise ConfigError(name, value, allowed, remedy)


@record
class Attention:
    """One token mixer. ``softmax`` is MHA/GQA/MQA by ``kv_heads``; ``window_tokens`` makes it sliding.

    MLA uses the five ``*_rank`` / ``*_head_dim`` fields (``q_lora_rank`` 0: direct query projection).
    Linear kinds: ``query_heads`` x ``head_dim`` are the keys, ``value_heads`` x ``v_head_dim`` the values,
    ``state_dim`` the Mamba state, ``conv_kernel`` the short convolution. Kinds without heads have one per channel.
    """

    kind: str = "softmax"
    query_heads: int
    kv_heads: int
    head_dim: int  # query/key dimension per head (MLA: nope + rope)
    v_head_dim: int
    window_tokens: int = 0  # 0: full attention
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    value_heads: int = 0  # linear kinds only
    state_dim: int = 0
    state_groups: int = 0  # Mamba B/C groups
    conv_kernel: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    qk_norm_full: bool = False  # one norm over all heads (OLMo-2, MiniMax-M2), not one of head_dim shared by the heads
    sinks: bool = False  # a learned attention sink per head (gpt-oss)
    output_gate: bool = False  # a sigmoid gate of the attention output's size, computed with the query projection
    head_gate: bool = False  # the same with one value per head
    shared_kv: bool = False  # keys and values are an earlier layer's: no projections for them
    value_from_key: bool = False  # the values are the keys: no projection for them
    gate_rank: int = 0  # KDA: rank of the decay and output gates; 0: full
    dt_rank: int = 0  # Mamba-1: rank of the step size
    plain_output: bool = False  # Mamba-2 without its gated norm
    # Sparse attention: an indexer scores all earlier tokens (or blocks) and the ``index_topk`` best are attended to.
    index_heads: int = 0
    index_head_dim: int = 0
    index_topk: int = 0  # also where the indexer is an earlier layer's (index_heads 0)
    compress_tokens: int = 0  # tokens that share one compressed key (DeepSeek-V4); beside the sliding window
    o_lora_rank: int = 0  # output projection through ``o_groups`` low-rank factors
    o_groups: int = 0

    def __post_init__(self) -> None:
        for name in ("query_heads", "kv_heads", "head_dim", "v_head_dim"):
            _require(getattr(self, name) > 0, f"Attention.{name}", getattr(self, name), "a whole number > 0")
        from cost_models.mixers.table import check

        check(self)


@record
class FeedForward:
    """Dense FFN (``experts`` 0) or mixture of experts. Widths are unsharded."""

    width: int  # dense width, or the width of one routed expert
    gated: bool = True
    bias: bool = False
    experts: int = 0
    top_k: int = 0
    shared_width: int = 0  # summed over shared experts
    router_bias: bool = False  # a bias per expert: trained (gpt-oss) or moved by the load balancer (DeepSeek-V3)
    shared_gate: bool = False  # a learned h -> 1 gate on the shared expert (Qwen)
    latent: int = 0  # experts work on a projection of this size, which is what is dispatched (Nemotron-3 latent MoE)
    zero_experts: int = 0  # experts that return their input; the router chooses among them too (LongCat)
    router_groups: int = 0  # node-limited / group-limited routing: groups of experts
    router_top_groups: int = 0
    # False where the activation is none of the plain (gated) SiLU, GELU or squared ReLU that training frameworks fuse into
    # one kernel, such as GPT-OSS's clamped gate with an offset: every step is then a pass of its own.
    fusable_activation: bool = True

    def __post_init__(self) -> None:
        _require(self.width >= 0, "FeedForward.width", self.width, "a whole number >= 0")
        _require(self.experts >= 0, "FeedForward.experts", self.experts, "a whole number >= 0")
        if self.experts:
            choices = self.experts + self.zero_experts
            _require(0 < self.top_k <= choices, "FeedForward.top_k", self.top_k, f"1..{choices} (experts)")

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def expert_calls(self) -> float:
        """Experts with weights that a token visits, on average, where the router uses all alike."""
        return self.top_k * self.experts / (self.experts + self.zero_experts) if self.zero_experts else self.top_k


@record
class LayerKind:
    """One transformer block. A block may lack either half (hybrid models list them apart), or have ``more`` than two."""

    attention: Attention | None
    feed_forward: FeedForward | None
    norms: int = 2  # norm layers of the hidden size in the block (sandwich norm: 4)
    more: tuple[Attention | FeedForward, ...] = ()  # a Mamba mixer beside the attention, a second attention
    extra_parameters: int = 0  # small vectors: scales, biases; on every rank
    side_elements: int = 0  # small matrices that every token passes beside the halves; on every rank
    reused_parameters: int = 0  # of the block's, those that an earlier block holds too (one shared transformer block)

    @cached_property
    def attentions(self) -> tuple[Attention, ...]:
        first = () if self.attention is None else (self.attention,)
        return first + tuple(half for half in self.more if isinstance(half, Attention))

    @cached_property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        first = () if self.feed_forward is None else (self.feed_forward,)
        return first + tuple(half for half in self.more if isinstance(half, FeedForward))


@record
class ModelSpec:
    """A decoder-only model. ``layers`` are runs (kind, count) in order; MTP modules come on top of them."""

    name: str
    hidden: int
    vocab: int
    layers: tuple[tuple[LayerKind, int], ...]
    tied_embeddings: bool = False
    mtp_modules: int = 0
    mtp_kind: LayerKind | None = None  # defaults to the last layer's kind
    norm_bias: bool = False  # LayerNorm (weight and bias) instead of RMSNorm
    learned_positions: int = 0  # rows of a learned position table
    embedding_norm: bool = False
    head_bias: bool = False
    extra_embedding: int = 0  # parameters of further tables at the input (per-layer embeddings, n-grams)
    extra_head: int = 0  # parameters of further weights at the output
    max_seq_length: int = 0  # 0: not stated
    notes: tuple[str, ...] = ()  # what the parser ignored or guessed
    unread: tuple[str, ...] = ()  # shape-like keys of the file that nothing read

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab"):
            _require(getattr(self, name) > 0, f"ModelSpec.{name}", getattr(self, name), "a whole number > 0")
        _require(bool(self.layers), "ModelSpec.layers", self.layers, "at least one run of layers")
        for _, count in self.layers:
            _require(count > 0, "ModelSpec.layers.count", count, "a whole number > 0")

    @cached_property
    def num_layers(self) -> int:
        return sum(count for _, count in self.layers)

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The distinct layer kinds in order of first appearance, the MTP kind last if it is new. Length K."""
        kinds = list(dict.fromkeys(kind for kind, _ in self.layers))
        if self.mtp_modules and self.mtp_layer_kind not in kinds:
            kinds.append(self.mtp_layer_kind)
        return tuple(kinds)

    @property
    def mtp_layer_kind(self) -> LayerKind:
        return self.mtp_kind or self.layers[-1][0]

    def layer_sequence(self) -> tuple[int, ...]:
        """Index into ``kinds`` of every decoder layer, in order. Length num_layers."""
        return self._sequence

    @cached_property
    def _sequence(self) -> tuple[int, ...]:
        index = {kind: i for i, kind in enumerate(self.kinds)}
        return tuple(i for kind, count in self.layers for i in [index[kind]] * count)

    def parameters(self) -> int:
        """Total parameters: both embedding matrices in (one if tied), MTP modules out."""
        from cost_models.parameters import model_parameters

        return model_parameters(self, active_only=False)

    def active_parameters(self) -> int:
        """Parameters that one token uses: top_k routed experts, both embedding matrices in, MTP out."""
        from cost_models.parameters import model_parameters

        return model_parameters(self, active_only=True)


# ------------------------------------------------------------------------------------------------- hardware

COLLECTIVE_OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")


@record
class GemmCurve:
    """Seconds of a GEMM m x n x k of one dtype:

    t0 + max(F_padded / (peak e_max g_tile) (1 + k0/k) (ceil(w)/w)^alpha, bytes / (bandwidth mem_eff)), w = tiles / units.
    Fitted to measured tables; see hardware_profiles/README.md.
    """

    efficiency_max_frac: float
    k_half: float  # k0: the depth at which efficiency is half of its limit
    launch_s: float
    wave_exponent: float
    memory_efficiency_frac: float
    small_tile_frac: float = 1.0  # g: efficiency of the 128x128 tile relative to the large ones
    large_tile: bool = False  # a 256x256 tile exists beside 128x128, 128x256, 256x128 (Blackwell)
    droop_frac: float = (
        0.0  # share of the rate that long GEMMs lose to power: rate x (1 - droop F / (F + droop_half_flop))
    )
    droop_half_flop: float = 1.0
    dgrad_frac: float = 1.0  # efficiency of the input-gradient GEMM relative to forward
    wgrad_frac: float = 1.0  # of the weight-gradient GEMM with fp32 accumulation
    quantize_memory_frac: float = (
        0.0  # fp8: quantising the input is 3 m k bytes at this share of bandwidth; 0: left out
    )


@record
class GroupedGemmCurve:
    """t0 + max(F / (peak e_max) (1 + m_half / rows_per_expert), weight bytes / (bandwidth mem_eff))."""

    efficiency_max_frac: float
    rows_half: float
    launch_s: float
    memory_efficiency_frac: float
    dgrad_frac: float = 1.0  # efficiency of the input-gradient GEMM relative to forward
    wgrad_frac: float = 1.0  # of the weight-gradient GEMM with fp32 accumulation


@record
class AttentionCurve:
    """Fused attention: rate = peak e_max / ((1 + s_half/S) (1 + tile_half/(B H S/128))), plus t0. FLOPs are causal-halved."""

    forward_efficiency_frac: float
    backward_efficiency_frac: float  # of backward FLOPs = 2.5 x forward
    seq_half: float
    tile_half: float
    launch_s: float
    head_dim_frac: Mapping[int, float] = field(default_factory=dict)  # rate relative to head dim 128; interpolate
    backward_seq_half: float | None = None  # None: as forward
    backward_tile_half: float | None = None  # None: as forward; backward has more blocks, so few heads hurt it less


@record
class CollectiveCurve:
    """t = latency_s + latency_per_rank_s (n-1) + W/B + ramp_sqrt_s sqrt(W/B), W = f S the bytes on the wire per card,
    B = tier bandwidth x efficiency_frac (all-reduce with in-network reduction may exceed 1)."""

    latency_s: float
    efficiency_frac: float
    ramp_sqrt_s: float = 0.0  # unit sqrt(s)
    latency_per_rank_s: float = 0.0
    pair_efficiency_frac: float = 0.0  # efficiency_frac of groups of two, which use fewer links; 0: the same
    in_network_ranks: int = 0  # from this group size on the switch reduces (NVLS); 0: never
    in_network_efficiency_frac: float = 0.0  # efficiency_frac of those groups


@record
class Tier:
    """One level of the network, inside out."""

    name: str
    cards: int  # cards in one domain of this level; the outermost level: a number no cluster exceeds
    bandwidth_bytes_per_s: float  # per card, one direction
    curves: Mapping[str, CollectiveCurve]  # by COLLECTIVE_OPS
    full_mesh: bool = False  # one link per pair: n of the domain's cards have (n-1)/(cards-1) of the bandwidth

    def __post_init__(self) -> None:
        _require(
            self.bandwidth_bytes_per_s > 0, "Tier.bandwidth_bytes_per_s", self.bandwidth_bytes_per_s, "a number > 0"
        )
        _require(self.cards > 0, "Tier.cards", self.cards, "a whole number > 0")
        missing = [op for op in COLLECTIVE_OPS if op not in self.curves]
        _require(not missing, "Tier.curves", missing, f"a curve for each of {', '.join(COLLECTIVE_OPS)}")


@record
class Device:
    """One card (for two-die packages: one die), with curves measured on it or on a named relative."""

    name: str
    vendor: str  # nvidia | amd | ascend
    peak_flop_per_s: Mapping[str, float]  # dense, by dtype: bf16, fp16, fp8, fp4, fp32
    hbm_bytes: float
    usable_bytes: float  # what a framework can reserve
    hbm_bandwidth_bytes_per_s: float
    compute_units: int
    gemm: Mapping[str, GemmCurve]  # by dtype
    grouped_gemm: Mapping[str, GroupedGemmCurve]  # by dtype
    attention: Mapping[str, AttentionCurve]  # by kernel: flash1, flash2, flash3, cudnn, npu_flash, triton
    memory_bound_frac: float  # share of HBM bandwidth that fused element-wise kernels reach
    kernel_launch_s: float  # floor of one small kernel
    # Matrix rate in a long training step relative to the isolated benchmark that the curves were fitted to: the power
    # limit lowers the clock, and framework calls sit between the products. Fitted to training runs.
    sustained_frac: float = 1.0
    grouped_frac: float = 1.0  # the same for grouped expert products, on top of sustained_frac
    # The same for narrow products, on top of sustained_frac (casts, scales, clock): one scale per tensor, scales per block,
    # and 4 bits, whose curve has no table of its own.
    fp8_frac: float = 1.0
    block_scaled_frac: float = 1.0
    fp4_frac: float = 1.0


@record
class Overheads:
    """What is neither computing nor communicating, and the memory outside tensors."""

    step_s: float = 0.0  # fixed host time per step
    micro_batch_s: float = 0.0  # host time per micro-batch and stage
    host_kernel_s: float = 0.0  # host time to issue one kernel (small steps are bound by it)
    optimizer_bandwidth_frac: float = 0.6  # of HBM bandwidth, fused optimizer step
    overlap_slowdown_frac: float = 0.0  # compute slows by this share while a collective runs beside it
    network_frac: float = 1.0  # share of the benchmarked rate between nodes that a training step reaches
    tp_overlap_hidden_frac: float = 0.7  # share of TP communication that chunked overlap with its GEMM hides
    backward_host_frac: float = 0.6  # host time of a backward kernel relative to a forward one (C++ autograd issues it)
    straggler_frac_per_doubling: float = 0.0  # slowest-of-n: step grows by this share for each doubling of cards
    context_bytes: float = 1.0e9  # driver context, kernels
    communication_buffer_bytes: float = 0.4e9  # per communicator group in use
    fragmentation_frac: float = 0.0  # of allocated bytes
    host_link_bytes_per_s: float = 25e9  # card to host, for swap and offload
    host_dram_bytes_per_s: float = (
        400e9  # of a node: 2 x 8 channels of DDR5-4800 peak at 614 GB/s, about two thirds sustained
    )
    # What one process's Adam moves through host memory. Megatron's hybrid optimizer on one H100 adds 0.93 s to a step of
    # Qwen3-0.6B (0.6 G parameters x 30 B; 0.07 s of it are copies): 21 GB/s, the rate of one core.
    host_adam_bytes_per_s: float = 21e9


@record
class SoftwareStack:
    """What the training program does. A profile gives the default; a measured run states its own."""

    attention_kernel: str = "flash2"  # unfused | fused_softmax | flash1 | flash2 | flash3 | cudnn | npu_flash | triton
    fused_norm: bool = True
    fused_rope: bool = True
    fused_activation: bool = True  # bias-gelu or swiglu in one kernel
    fused_cross_entropy: bool = False
    fused_dropout: bool = True
    grouped_gemm: bool = True
    overlap_grad_reduce: bool = True
    serial_grad_reduce_under_ep_overlap: bool = False  # EP overlap and DualPipeV exclude overlapped gradient reduction
    # ZeRO-1 of a program that all-reduces whole gradients and then keeps its shard, instead of reduce-scattering them
    whole_gradients_reduced: bool = False
    overlap_param_gather: bool = True
    overlap_p2p: bool = True
    overlap_tp: bool = False
    async_tp_backward: bool = True  # backward TP all-reduce or reduce-scatter runs under the weight gradient
    hierarchical_chunks: int = (
        1  # hierarchical all-to-all: 1 in series, more: the two steps pipelined over so many chunks
    )
    scatter_gather_p2p: bool = True  # P2P sends 1/t of the activation and gathers it in the node
    wgrad_accumulation_fused: bool = True
    cuda_graphs: bool = False
    # With cuda_graphs: the graphs cover attention, router and the count of tokens; dispatch and experts, whose shapes change
    # with the routing, are launched by the host (Transformer Engine's scoped capture).
    graphs_without_experts: bool = False
    # The host never waits for the number of tokens that experts get: sizes stay on the card, or are fixed by a capacity.
    sync_free_moe: bool = False
    fused_permute: bool = True  # token rows are moved by one kernel, not by torch's index_select and index_add
    consecutive_routing: bool = False  # forced balance whose k experts of a token are neighbours
    host_cost_factor: float = 1.0  # host time per kernel relative to the profile's (older programs issue more slowly)
    # Times composed of short profiles, so that (inferred) the clock is not yet lowered by sustained power.
    short_bursts: bool = False
    launch_blocking: bool = False  # CUDA_LAUNCH_BLOCKING=1: the device idles while the host issues each kernel
    compiled: bool = False  # torch.compile or equivalent
    dropout: bool = False
    forced_balance: bool = False  # routing forced to be balanced, or padded to capacity 1
    moe_capacity_factor: float = 0.0  # 0: dropless
    swap_whole_layers: bool = False  # activation swap takes all that a layer saves (Transformer Engine's CPU offload)
    bias_balanced: bool = False  # experts are balanced by a bias on the selection, without an auxiliary loss
    fp8_dispatch: bool = False  # expert tokens are dispatched in 8 bit and combined in 16
    fp8_activation_input: bool = False  # the input of a gated activation is kept in 8 bit (DeepSeek-V3)
    narrow_gradients_kept: bool = False  # 16-bit gradients stay beside the fp32 ones (DeepSpeed's BF16_Optimizer)
    bucket_elements: float = 0.0  # of a reduction's and a gathering's own buffer (DeepSpeed: 5e8 each); 0: none
    fsdp: bool = False
    fsdp_whole_under_pp: bool = (
        False  # FSDP2 in a pipeline: gathered once a step and kept, gradients reduced at its end
    )
    # False: DeepSpeed's ZeRO-3 of 2021, which fetches one parameter at a time. Its collectives run as a single ring with one
    # NIC per node, the recomputed forward fetches again, reductions are not overlapped. Inferred from the six ZeRO-3 runs of
    # Narayanan et al. 2021: 1.4 TB per card and step at 174B take 66.7 s (21 GB/s), 4.2 TB at 530B 182 s (23 GB/s).
    coalesced_gathers: bool = True
    # Plain torch autograd: the gradients of q, k and v are joined (one projection) or summed (three), and a norm's weight
    # gradient is a pass of its own.
    plain_autograd: bool = False
    # False: Adam as a chain of torch operations, one pass over memory each, with an fp32 temporary of its largest tensor
    norm_saves_input_only: bool = False  # an unfused norm that is one autograd function (tp-2d's RMSNorm2D)
    fused_optimizer: bool = True
    # An offloaded optimizer steps on the host; False: its state travels to the card and back (MindSpeed's swap-optimizer).
    host_adam: bool = True
    fp8_tp_gather: bool = False  # torchao's tensorwise float8 under TP: activations are cast before they are gathered
    unpad_attention: bool = (
        False  # flash-attn's bert_padding: q, k, v gathered by index before the kernel, output scattered
    )
    head_sharded_over_tp: bool = True  # logits divided by TP
    loss_bytes_per_logit: float = 0.0  # at the peak of an unfused loss; 0: Megatron's vocabulary-parallel loss
    transformer_engine: bool = False  # caches a stand-in gradient of every weight shape; experts are separate weights


@record
class HardwareProfile:
    name: str
    device: Device
    tiers: tuple[Tier, ...]  # inside out
    overheads: Overheads = field(default_factory=Overheads)
    stack: SoftwareStack = field(default_factory=SoftwareStack)
    cards_per_node: int = 8
    backend: str = "megatron"
    sha256: str = ""
    expert_imbalance: float = 1.0  # default max/mean card load of real routing: 16 cards, 4 experts each
    price_per_card_hour_usd: float = 0.0  # 0: not stated
    power_per_card_w: float = 0.0  # of the data sheet (thermal design power); 0: not stated

    @property
    def usable_bytes(self) -> float:
        return self.device.usable_bytes

    @property
    def host_copy_bytes_per_s(self) -> float:
        """Of one card to or from the host while all cards of the node copy one way: its link, or its share of the host's
        memory, which every byte crosses."""
        return min(self.overheads.host_link_bytes_per_s, self.overheads.host_dram_bytes_per_s / self.cards_per_node)

    @property
    def host_swap_bytes_per_s(self) -> float:
        """The same in each direction while cards copy both ways."""
        return min(
            self.overheads.host_link_bytes_per_s, self.overheads.host_dram_bytes_per_s / (2 * self.cards_per_node)
        )

    @property
    def host_adam_rate_bytes_per_s(self) -> float:
        """Of one card's optimizer on the host: its process, or the card's share of the host's memory."""
        return min(self.overheads.host_adam_bytes_per_s, self.overheads.host_dram_bytes_per_s / self.cards_per_node)


# ------------------------------------------------------------------------------------------------- workload

PRECISIONS = ("bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4")


@record
class Workload:
    """What one step trains, and in which numbers."""

    seq_length: int
    global_batch: int  # sequences
    precision: str = "bf16"  # of the GEMMs
    weight_bytes: float = 2.0
    grad_bytes: float = 4.0  # accumulation buffer
    grad_reduce_bytes: float = 4.0  # on the wire
    gather_bytes: float = 0.0  # of a sharded weight on the wire (in float8: 1); 0: as weight_bytes
    # Narrow copies of the weights, row- and column-wise, which Transformer Engine keeps over the micro-batches of a step; with
    # one micro-batch there is none.
    cached_weight_bytes: float = 0.0
    optimizer_bytes: float = 12.0  # fp32 master + two moments
    master_grad_bytes: float = 0.0  # fp32 gradients kept with the optimizer state, sharded as it is (DeepSpeed ZeRO-1)
    peak_of_first_step: bool = False  # memory was read after one step: the optimizer's moments were not there before
    lora_rank: int = (
        0  # adapters of this rank beside every linear layer are trained, all else is frozen; 0: all is trained
    )
    expert_imbalance: float = 1.0  # max/mean load of an expert rank
    imbalance_by_ep: bool = False  # expert_imbalance is the profile's figure, to be scaled by EP; see imbalance.py
    attention_mask: str = "causal"  # causal | full
    spare_experts: int = 0  # expert slots of a MoE layer beyond one an expert, over all expert ranks
    stack: SoftwareStack = field(default_factory=SoftwareStack)

    def __post_init__(self) -> None:
        for name in ("seq_length", "global_batch"):
            _require(getattr(self, name) > 0, f"Workload.{name}", getattr(self, name), "a whole number > 0")
        _require(self.precision in PRECISIONS, "Workload.precision", self.precision, f"one of {', '.join(PRECISIONS)}")
        _require(self.spare_experts >= 0, "Workload.spare_experts", self.spare_experts, "a whole number >= 0")
        _require(self.expert_imbalance >= 1.0, "Workload.expert_imbalance", self.expert_imbalance, "a number >= 1")

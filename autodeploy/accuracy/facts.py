"""What a source says about its software stack once, in the README of the runs, instead of in every row.

Facts about a program (what it fuses, overlaps, shards), never a factor on a prediction. A row's own column wins over
its source's fact, which wins over the hardware profile's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Fields of ``SoftwareStack`` and ``Workload`` that hold for every row of a source, and where it says so."""

    says: str
    stack: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    torchao_float8: bool = (
        False  # fp8 by torchao: all recipes but rowwise gather weights (FSDP) and activations (TP) in fp8
    )
    front_heavy_split: bool = False  # layers that do not divide over the stages go to the first ones


_NO_OVERLAP = {"overlap_grad_reduce": False, "overlap_param_gather": False, "overlap_p2p": False, "overlap_tp": False}
# In the vtrain_single rows a layer's forward, recompute and backward never take less than 3.5 ms on an A100, however small:
# the host issues its kernels no faster. host_cost_factor is that host time over the profile's; scripts/fit_stack_constants.py
# fits it to vtrain_single (7.1% on fitted families, 6.6% on held-out ones); that vtrain_multi and bloom_bench share it is
# assumed, since they ran the same program. That no TP all-reduce ran under the backward is inferred.
_MEGATRON_DEEPSPEED = {
    **_NO_OVERLAP, "wgrad_accumulation_fused": False, "fused_cross_entropy": False, "host_cost_factor": 7.0,
    "async_tp_backward": False,
}  # fmt: skip

STACK_FACTS: dict[str, SourceFacts] = {
    "narayanan21": SourceFacts(
        says="Megatron-LM 2021: fp16, no sequence parallel, no flash attention, full recompute, no distributed "
        "optimizer, scatter/gather P2P. P2P overlap and fused weight-gradient accumulation came later (2022). Its ZeRO-3 runs "
        "are DeepSpeed's of 2021.",
        stack={
            **_NO_OVERLAP,
            "coalesced_gathers": False,
            "wgrad_accumulation_fused": False,
            "fused_cross_entropy": False,
            "scatter_gather_p2p": True,
        },
    ),
    "mtnlg": SourceFacts(says="MT-NLG 530B, Megatron-DeepSpeed, bf16, full recompute.", stack=_MEGATRON_DEEPSPEED),
    "korthikanti": SourceFacts(
        says="Megatron-LM 2022: fp16, sequence parallel, selective or full recompute, unfused attention.",
        stack={**_NO_OVERLAP, "fused_cross_entropy": False},
    ),
    "megatron_h100_2024": SourceFacts(
        says="Megatron-Core 2024: bf16, flash attention, sequence parallel, distributed optimizer, overlaps on, VPP.",
        stack={"overlap_grad_reduce": True, "overlap_param_gather": True, "overlap_p2p": True, "overlap_tp": True},
    ),
    "vtrain_multi": SourceFacts(
        says="Megatron-DeepSpeed GPT: fp16, full recompute, no data-parallel overlap, no distributed optimizer "
        "(inferred).",
        stack=_MEGATRON_DEEPSPEED,
    ),
    "vtrain_single": SourceFacts(says="The same stack as vtrain_multi on 1-8 cards.", stack=_MEGATRON_DEEPSPEED),
    "hagemann": SourceFacts(
        says="Aleph Alpha's own code: ZeRO-1; without the RMS kernel, norms and rotary are unfused torch operations; "
        "the last stage's logits are not divided by TP. Not stated, and assumed here: no overlap "
        "(its backward all-reduce included), bf16 gradients.",
        stack={
            **_NO_OVERLAP,
            "wgrad_accumulation_fused": False,
            "head_sharded_over_tp": False,
            "fused_cross_entropy": False,
            "loss_bytes_per_logit": 18.0,
            "async_tp_backward": False,
        },
        workload={"grad_bytes": 2.0, "grad_reduce_bytes": 2.0},
        front_heavy_split=True,
    ),
    "bloom_bench": SourceFacts(
        says="Megatron-DeepSpeed: ALiBi, embedding norm, full recompute, ZeRO-1, whose partition holds its gradients in fp32 "
        "(DeepSpeed stage_1_and_2.py, single_partition_of_fp32_groups).",
        workload={"master_grad_bytes": 4.0},
        stack=_MEGATRON_DEEPSPEED,
    ),
    "zero_bubble": SourceFacts(
        says="Megatron fork: fp16, dropout 0.1, unfused scores with fused softmax, no recompute.",
        stack={"overlap_param_gather": False, "fused_cross_entropy": False},
    ),
    "nemo": SourceFacts(
        says="NVIDIA's NeMo recipes: where a row is silent, TP communication overlaps (NVIDIA/NeMo-Framework-Launcher, "
        "conf/training/gpt3/175b.yaml: ub_tp_comm_overlap True).",
        stack={"overlap_tp": True},
    ),
    "nemo_launcher": SourceFacts(
        says="The same recipes in early 2024; cuDNN attention switched off, which leaves FlashAttention-2 "
        "(NVIDIA/NeMo-Framework-Launcher 01d0773, launcher_scripts/conf/config.yaml: NVTE_FUSED_ATTN 0).",
        stack={"overlap_tp": True, "attention_kernel": "flash2"},
    ),
    "llm_foundry": SourceFacts(
        says="PyTorch FSDP, early 2023-24 software: gathers and reductions run under computing (FSDP prefetch); "
        "low-precision layer norm is one kernel; the output head of MPT trains with torch's cross-entropy. From its code: "
        "DecoupledAdamW in plain torch; flash attention (not Triton) unpads and pads with flash-attn's bert_padding.",
        stack={
            "fused_optimizer": False,
            "plain_autograd": True,
            "unpad_attention": True,
            "transformer_engine": False,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
            "wgrad_accumulation_fused": False,
            "fused_cross_entropy": False,
        },
    ),
    "torchtitan": SourceFacts(
        says="FSDP2, TP, PP, CP in plain torch; torch.compile as in `extra` (what it fuses, eager does not); SDPA. DTensor's "
        "collectives wait where they are issued (no asynchronous backward); AdamW foreach, the default of its configuration.",
        stack={
            "async_tp_backward": False,
            "fused_optimizer": False,
            "plain_autograd": True,
            "attention_kernel": "flash2",
            "transformer_engine": False,
            "loss_bytes_per_logit": 10.0,  # fp32 log-softmax and its gradient, and that in 16 bit
            "norm_saves_input_only": True,  # op-wise checkpoints save products and attention alone: norms run again
            "fused_norm": False,
            "fused_rope": False,
            "fused_activation": False,
            "wgrad_accumulation_fused": False,
            "fused_cross_entropy": False,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
        },
        torchao_float8=True,
        front_heavy_split=True,
    ),
    "simumax_b200": SourceFacts(
        says="Megatron-LM with Transformer Engine 2.11, cross-entropy fusion on.", stack={"transformer_engine": True}
    ),
    "ascend": SourceFacts(
        says="MindSpeed-LLM: memory is Megatron's printed maximum, which it reports once, after the first step. The "
        "Ascend AdamW is not one kernel over all tensors.",
        stack={"fused_optimizer": False},
        workload={"peak_of_first_step": True},
    ),
    "automodel": SourceFacts(
        says="PyTorch, FSDP2; mock data, fake balanced gate (notes of the row).",
        stack={"forced_balance": True, "wgrad_accumulation_fused": False, "transformer_engine": False},
        front_heavy_split=True,
    ),
}

NO_FACTS = SourceFacts(says="")


def facts_of(source: str) -> SourceFacts:
    return STACK_FACTS.get(source, NO_FACTS)

"""Rules of the options: sharding, recompute, swap, dispatch, overlap of expert communication."""

from __future__ import annotations

import numpy as np

from autodeploy.strategy.rule import Proposal, Rule
from cost_models.schedules import schedules_where
from cost_models.strategies import DISPATCHER_CODE, DISPATCHERS, RECOMPUTE_BIT, RECOMPUTE_MODULES, Bool

MEGATRON = ("megatron", "megatron-bridge")


def _dispatcher_is(case: Proposal, name: str) -> Bool:
    return case.batch.dispatcher == DISPATCHER_CODE[name]


def _zero(case: Proposal) -> Bool:
    def lacks(stages: tuple[int, ...]) -> Bool:
        return np.all([case.batch.zero_stage != stage for stage in stages], axis=0)

    flat, piped = case.backend.zero_stages, case.backend.zero_stages_pipelined
    return lacks(flat) if flat == piped else np.where(case.batch.pp > 1, lacks(piped), lacks(flat))


def _dispatcher(case: Proposal) -> Bool:
    return ~np.array([name in case.backend.dispatchers for name in DISPATCHERS])[case.batch.dispatcher]


def _recompute_alone(case: Proposal) -> Bool:
    others = sum(RECOMPUTE_BIT[name] for name in RECOMPUTE_MODULES if name != "full")
    return case.recomputes("full") & ((case.batch.recompute & others) > 0)


def _no_dense(case: Proposal) -> bool:
    return not any(kind.feed_forward and not kind.feed_forward.is_moe for kind in case.model.kinds)


def _no_mla(case: Proposal) -> bool:
    return not any(kind.attention and kind.attention.kind == "mla" for kind in case.model.kinds)


def _overlap_schedule(case: Proposal) -> Bool:
    return case.batch.ep_overlap & (case.batch.pp > 1) & ~case.scheduled(schedules_where(lambda s: s.runs_overlapped))


def _foreign_dedup(case: Proposal) -> Bool:
    vendor = case.hardware.device.vendor if case.hardware else "nvidia"
    return _dispatcher_is(case, "hierarchical-dedup") & (vendor == "ascend")


FEATURE_RULES = (
    Rule(
        name="zero-backend",
        text="the back end lacks this ZeRO stage here (2 and 3 with PP above 1 need Megatron-FSDP or torchtitan)",
        remedy="use ZeRO-1 (the distributed optimizer); torchtitan starts at ZeRO-2",
        broken=_zero,
    ),
    Rule(
        name="recompute-full-alone",
        text="full recompute covers every module",
        remedy="write full alone, or modules without full",
        broken=_recompute_alone,
        relief=True,
    ),
    Rule(
        name="recompute-nested",
        text="recomputing the whole MoE layer covers its activation",
        remedy="drop moe_act",
        broken=lambda c: c.recomputes("moe") & c.recomputes("moe_act"),
        relief=True,
    ),
    Rule(
        name="recompute-mla",
        text="mla_up_proj needs MLA attention",
        remedy="drop mla_up_proj",
        broken=lambda c: c.recomputes("mla_up_proj") & _no_mla(c),
        relief=True,
    ),
    Rule(
        name="recompute-moe",
        text="moe and moe_act need a mixture-of-experts model",
        remedy="recompute mlp instead",
        broken=lambda c: c.recomputes("moe", "moe_act") & (not c.moe),
        relief=True,
    ),
    Rule(
        name="recompute-mlp",
        text="mlp needs dense feed-forward layers",
        remedy="recompute moe or moe_act instead",
        broken=lambda c: c.recomputes("mlp") & _no_dense(c),
        relief=True,
    ),
    Rule(
        name="recompute-layers",
        text="full recompute of the first layers of a stage needs full recompute, and a back end that has it",
        remedy="write full",
        broken=lambda c: (
            (c.batch.recompute_layers > 0) & (~c.recomputes("full") | (not c.backend.partial_full_recompute))
        ),
        relief=True,
    ),
    Rule(
        name="swap-backend",
        text="the back end does not swap activations to the host",
        remedy="drop swap, recompute instead",
        broken=lambda c: (c.batch.swap_frac > 0) & (not c.backend.swaps_activations),
        relief=True,
    ),
    Rule(
        name="offload-backend",
        text="the back end does not keep part of the optimizer on the host",
        remedy="drop offload",
        broken=lambda c: (c.batch.offload_frac > 0) & (not c.backend.offloads_optimizer),
        relief=True,
    ),
    Rule(
        name="offload-needs-zero",
        text="optimizer offload needs the distributed optimizer",
        remedy="use ZeRO1",
        broken=lambda c: (c.batch.offload_frac > 0) & (c.batch.zero_stage == 0),
        backends=(*MEGATRON, "mindspeed"),
        relief=True,
    ),
    Rule(
        name="dispatcher-backend",
        text="the back end does not have this dispatcher",
        remedy="use alltoall, or --backend any to price it all the same",
        broken=_dispatcher,
    ),
    Rule(
        name="dispatcher-needs-ep",
        text="a dispatcher other than alltoall needs EP above 1: no token travels",
        remedy="drop the dispatcher, or raise EP",
        broken=lambda c: (c.batch.ep == 1) & ~_dispatcher_is(c, "alltoall"),
    ),
    Rule(
        name="dedup-hardware",
        text="the de-duplicating dispatchers (DeepEP, HybridEP) do not run on Ascend",
        remedy="use alltoall or hierarchical-allgather",
        broken=_foreign_dedup,
        backends=(*MEGATRON, "mindspeed", "torchtitan"),
    ),
    Rule(
        name="adaptive-pipe-chunks",
        text="Adaptive Pipe pairs a forward chunk with a backward chunk of another stage: it needs VPP above 1",
        remedy="raise VPP, or use 1f1b",
        broken=lambda c: c.scheduled(schedules_where(lambda s: s.needs_overlap)) & (c.batch.vpp < 2),
    ),
    Rule(
        name="adaptive-pipe-overlap",
        text="Adaptive Pipe is the overlap of expert communication",
        remedy="drop no-ep-overlap, or use interleaved",
        broken=lambda c: c.scheduled(schedules_where(lambda s: s.needs_overlap)) & ~c.batch.ep_overlap,
    ),
    Rule(
        name="overlap-needs-ep",
        text="overlap of expert communication needs EP above 1",
        remedy="drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & ((c.batch.ep < 2) | (not c.moe)),
    ),
    Rule(
        name="overlap-schedule",
        text="overlap of expert communication under PP needs VPP above 1, or a bidirectional schedule",
        remedy="raise VPP, or use dualpipev where the back end has it",
        broken=_overlap_schedule,
    ),
    Rule(
        name="megatron-overlap-recompute",
        text="Megatron's EP overlap excludes full recompute, whole-MoE recompute and shared-expert overlap",
        remedy="recompute mla_up_proj, layernorm and moe_act instead",
        broken=lambda c: c.batch.ep_overlap & c.recomputes("full", "moe"),
        backends=MEGATRON,
        relief=True,
    ),
    Rule(
        name="megatron-overlap-fsdp",
        text="Megatron's EP overlap runs with Megatron-FSDP (ZeRO-2 and 3) at PP1 only: with chunks it asserts that there is none",
        remedy="use ZeRO1 or PP1, or drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & (c.batch.zero_stage >= 2) & (c.batch.pp > 1),
        backends=MEGATRON,
    ),
    Rule(
        name="megatron-overlap-mtp",
        text="Megatron's EP overlap takes at most one MTP module, and that with PP above 1",
        remedy="drop ep-overlap, or raise PP",
        broken=lambda c: (
            c.batch.ep_overlap & ((c.model.mtp_modules > 1) | ((c.model.mtp_modules > 0) & (c.batch.pp == 1)))
        ),
        backends=MEGATRON,
    ),
    Rule(
        name="overlap-allgather",
        text="EP overlap does not work with the all-gather dispatcher",
        remedy="use alltoall",
        broken=lambda c: c.batch.ep_overlap & _dispatcher_is(c, "allgather"),
        backends=(*MEGATRON, "mindspeed"),
    ),
)

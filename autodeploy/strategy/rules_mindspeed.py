"""What MindSpeed and MindSpeed-LLM refuse at launch, rule by rule.

Sources: MindSpeed mindspeed/features_manager (moe/fb_overlap.py, pipeline_parallel/dualpipev_feature.py,
pipeline_parallel/pipeline_model_parallel_layout_feature.py, memory/swap_attention.py, optimizer/swap_optimizer_feature.py),
MindSpeed-LLM mindspeed_llm/features_manager (pipeline_parallel/num_layer_list.py, context_parallel/context_parallel_feature.py):
their ``validate_args`` and ``post_validate_args``. FSDP: MindSpeed docs/zh/features/custom_fsdp.md, fsdp2.md, and
core/transformer/moe/moe_feature/fb_overlap/no_pipelining_schedules.py.
"""

from __future__ import annotations

import numpy as np

from autodeploy.strategy.rule import Proposal, Rule
from cost_models.strategies import DISPATCHER_CODE, Bool, Layout

MINDSPEED = ("mindspeed",)


def _hierarchical(case: Proposal) -> Bool:
    return case.batch.dispatcher == DISPATCHER_CODE["hierarchical-allgather"]


def _hierarchical_domain(case: Proposal) -> Bool:
    b = case.batch
    extends = (b.tp > 1) & (b.etp == 1) & (b.ep > b.tp) & (b.ep % b.tp == 0)
    return _hierarchical(case) & ~extends


def _overlap_under_vpp(case: Proposal) -> Bool:
    """EP overlap in a schedule that MindSpeed calls virtual pipeline: dualpipev has its own, without VPP."""
    return case.batch.ep_overlap & (case.batch.vpp > 1) & ~case.schedule_is("dualpipev")


def _noop_before_last_stage(layout: Layout) -> bool:
    if not layout.text.startswith("noop:"):
        return False
    noops = [int(part) for part in layout.text.removeprefix("noop:").split(",")]
    stages = layout.pp * layout.vpp
    slots = (round(float(layout.layers_per_stage.sum())) + len(noops)) // stages
    return min(noops) < slots * (stages - 1)


def _in_grammar(layout: Layout) -> bool:
    """Written as --pipeline-model-parallel-layout."""
    return layout.text.startswith("E")


def _is_list(layout: Layout) -> bool:
    """Written as --num-layer-list."""
    return layout.text[:1].isdecimal()


def _slides(case: Proposal) -> bool:
    windows = [kind.attention.window_tokens for kind in case.model.kinds if kind.attention is not None]
    return any(0 < window < case.workload.seq_length for window in windows)


def _dualpipev(case: Proposal, holds: Bool | bool) -> Bool:
    return np.logical_and(case.schedule_is("dualpipev"), holds)


MINDSPEED_RULES = (
    Rule(
        name="hierarchical-tp-extend-ep",
        text="moe-hierarchical-alltoallv needs tp-extend-ep: TP above 1, ETP1 and EP a larger multiple of TP",
        remedy="use alltoall",
        broken=_hierarchical_domain,
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-hierarchical",
        text="MindSpeed's fb-overlap excludes moe-hierarchical-alltoallv and tp-extend-ep",
        remedy="use alltoall, or drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & _hierarchical(c),
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-swap",
        text="MindSpeed's fb-overlap excludes swap-attention",
        remedy="recompute instead of swapping, or drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & (c.batch.swap_frac > 0),
        backends=MINDSPEED,
        relief=True,
    ),
    Rule(
        name="fb-overlap-fsdp",
        text="MindSpeed's fb-overlap calls the parts of a layer itself, past the hooks by which custom FSDP gathers them, and "
        "torch FSDP2 excludes EP: no ZeRO-2 or 3 with it",
        remedy="use ZeRO1, or drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & (c.batch.zero_stage >= 2),
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-etp",
        text="MindSpeed's fb-overlap needs ETP1",
        remedy="set ETP1",
        broken=lambda c: c.batch.ep_overlap & (c.batch.etp > 1),
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-batch",
        text="MindSpeed's fb-overlap under VPP needs global batch // (MBS x PP x DP) above 1",
        remedy="raise the global batch, or lower PP or MBS",
        broken=lambda c: _overlap_under_vpp(c) & (c.micro_batches // c.batch.pp <= 1),
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-noop",
        text="MindSpeed's fb-overlap under VPP takes no-op layers in the last virtual stage only",
        remedy="drop the layout for the default, or write it in the grammar (Et|(tt|)*30tL)",
        broken=lambda c: _overlap_under_vpp(c) & c.per_layout(lambda i: _noop_before_last_stage(c.batch.layouts[i])),
        backends=MINDSPEED,
    ),
    Rule(
        name="fb-overlap-empty-stage",
        text="MindSpeed's fb-overlap excludes layouts with a stage that has no decoder layer",
        remedy="give every stage a layer, or drop ep-overlap",
        broken=lambda c: (
            c.batch.ep_overlap
            & c.per_layout(
                lambda i: _in_grammar(c.batch.layouts[i]) and bool((c.batch.layouts[i].layers_per_stage == 0).any())
            )
        ),
        backends=MINDSPEED,
    ),
    Rule(
        name="layer-list-vpp",
        text="--num-layer-list excludes VPP, and needs PP above 1 (case 40)",
        remedy="use no-op slots, or VPP1",
        broken=lambda c: ((c.batch.vpp > 1) | (c.batch.pp == 1)) & c.per_layout(lambda i: _is_list(c.batch.layouts[i])),
        backends=MINDSPEED,
    ),
    Rule(
        name="dualpipev-layers",
        text="MindSpeed's DualPipeV needs layers, no-op slots included, in a multiple of 2 PP, and no layout string",
        remedy="pad with no-op slots",
        broken=lambda c: _dualpipev(
            c, c.per_layout(lambda i: _in_grammar(c.batch.layouts[i]) or _is_list(c.batch.layouts[i]))
        ),
        backends=MINDSPEED,
    ),
    Rule(
        name="dualpipev-cp",
        text="MindSpeed's DualPipeV excludes context parallel",
        remedy="set CP1, or use interleaved",
        broken=lambda c: _dualpipev(c, c.batch.cp > 1),
        backends=MINDSPEED,
    ),
    Rule(
        name="dualpipev-swap",
        text="MindSpeed's DualPipeV excludes swap-attention",
        remedy="recompute instead of swapping, or use interleaved",
        broken=lambda c: _dualpipev(c, c.batch.swap_frac > 0),
        backends=MINDSPEED,
        relief=True,
    ),
    Rule(
        name="dualpipev-tied",
        text="MindSpeed's DualPipeV excludes tied embeddings",
        remedy="use interleaved",
        broken=lambda c: _dualpipev(c, c.model.tied_embeddings),
        backends=MINDSPEED,
    ),
    Rule(
        name="swap-whole",
        text="MindSpeed's swap-attention swaps the attention of every layer, not a share",
        remedy="write swap1, or recompute instead",
        broken=lambda c: (c.batch.swap_frac > 0) & (c.batch.swap_frac < 1),
        backends=MINDSPEED,
        relief=True,
    ),
    Rule(
        name="offload-whole",
        text="MindSpeed's swap-optimizer moves the whole optimizer state, not a share",
        remedy="write offload1, or drop it",
        broken=lambda c: (c.batch.offload_frac > 0) & (c.batch.offload_frac < 1),
        backends=MINDSPEED,
        relief=True,
    ),
    Rule(
        name="cp-sliding-window",
        text="MindSpeed's context parallel excludes sliding windows shorter than the sequence",
        remedy="set CP1",
        broken=lambda c: (c.batch.cp > 1) & _slides(c),
        backends=MINDSPEED,
    ),
)

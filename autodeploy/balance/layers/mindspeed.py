"""The same placement in MindSpeed-LLM's arguments: ``--num-layer-list``, or equal slots with ``--noop-layers``.

Rules, source: MindSpeed-LLM, features_manager/pipeline_parallel/num_layer_list.py and tasks/checkpoint/convert.py:
the list has one number a rank, sums to the layers, and excludes VPP, no-op layers and dualpipev; slot ``i`` sits on
stage ``i // slots``, so stage s owns slots ``s * slots`` onwards; ``--num-layers`` counts no-op slots; the MTP
modules sit with the head.
"""

from __future__ import annotations

from dataclasses import dataclass

from autodeploy.balance.layers.items import LayerItems
from autodeploy.balance.layers.plan import LayerPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MindSpeedLayers:
    """``arguments`` to paste; empty with the reason where MindSpeed cannot write the placement."""

    arguments: dict[str, str]
    num_layer_list: tuple[int, ...]  # empty unless VPP 1 without no-ops
    noop_layers: tuple[int, ...]
    slots_per_stage: int
    reason: str = ""


def mindspeed_layers(plan: LayerPlan) -> MindSpeedLayers:
    """``--num-layer-list`` for VPP 1, else equal slots a stage, the spare ones no-ops at the stage's end."""
    placement, pp, vpp = plan.after.placement, plan.problem.pp, plan.problem.vpp
    slots = max(1, *placement.counts)
    noops = tuple(stage * slots + slot for stage, count in enumerate(placement.counts) for slot in range(count, slots))
    reason = plan.not_launchable_because
    if not reason and placement.mtp_stage not in (-1, plan.problem.stages - 1):
        reason = "MTP modules apart from the head: MindSpeed keeps them on the last stage; use the layout string"
    if reason:
        return MindSpeedLayers(arguments={}, num_layer_list=(), noop_layers=(), slots_per_stage=slots, reason=reason)
    arguments = {"--pipeline-model-parallel-size": str(pp)}
    if vpp == 1 and pp > 1 and min(placement.counts) > 0:
        arguments["--num-layers"] = str(sum(placement.counts))
        arguments["--num-layer-list"] = ",".join(map(str, placement.counts))
        return MindSpeedLayers(
            arguments=arguments, num_layer_list=placement.counts, noop_layers=(), slots_per_stage=slots
        )
    arguments["--num-layers"] = str(slots * len(placement.counts))
    if vpp > 1:
        arguments["--num-layers-per-virtual-pipeline-stage"] = str(slots)
    if noops:
        arguments["--noop-layers"] = ",".join(map(str, noops))
    dense = _dense_slots(plan.problem.items, placement.counts, slots)
    if dense is not None:
        arguments["--first-k-dense-replace"] = str(dense)
    return MindSpeedLayers(arguments=arguments, num_layer_list=(), noop_layers=noops, slots_per_stage=slots)


def _dense_slots(items: LayerItems, counts: tuple[int, ...], slots: int) -> int | None:
    """Slots before the first MoE layer, where the first layers are labelled dense.

    It differs from the number of dense layers only where a no-op comes before; that MindSpeed then counts slots is
    inferred from its converter, whose layer numbers count no-ops (its own scripts put no-ops last).
    """
    labels = items.labels[items.decoder]
    dense = next((i for i, label in enumerate(labels) if label != "dense"), len(labels))
    if dense in (0, len(labels)):
        return None
    real = [stage * slots + slot for stage, count in enumerate(counts) for slot in range(count)]
    return real[dense]

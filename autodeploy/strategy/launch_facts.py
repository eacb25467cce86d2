"""What a training program does with a strategy beyond what the notation says: facts that a price has to know."""

from __future__ import annotations

from dataclasses import replace

from cost_models.inputs import SoftwareStack

# MindSpeed refuses --overlap-grad-reduce under both. Sources: MindSpeed features_manager/moe/fb_overlap.py
# (incompatible_check of overlap_grad_reduce), features_manager/pipeline_parallel/dualpipev_feature.py.
SERIAL_GRAD_REDUCE = {"mindspeed": ("ep-overlap", "dualpipev")}


def stack_on(backend: str, stack: SoftwareStack) -> SoftwareStack:
    """The stack with what the back end's program imposes on it."""
    return replace(stack, serial_grad_reduce_under=SERIAL_GRAD_REDUCE.get(backend, stack.serial_grad_reduce_under))

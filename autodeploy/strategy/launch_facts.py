"""What a training program does with a strategy beyond what the notation says: facts that a price has to know.

Axes: N strategies.
"""

from __future__ import annotations

import numpy as np

from cost_models.strategies import SCHEDULE_CODE, Bool, StrategyBatch


def gradient_reduction_exposed(batch: StrategyBatch, backend: str) -> Bool:
    """Strategies whose program refuses --overlap-grad-reduce, so that gradients are reduced after the backward, [N].

    MindSpeed's dualpipev and fb-overlap do. Sources: MindSpeed features_manager/moe/fb_overlap.py
    (``incompatible_check(args, 'overlap_grad_reduce')``), features_manager/pipeline_parallel/dualpipev_feature.py.
    """
    if backend != "mindspeed":
        return np.zeros(len(batch), dtype=bool)
    return batch.ep_overlap | (batch.schedule == SCHEDULE_CODE["dualpipev"])

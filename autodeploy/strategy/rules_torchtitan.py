"""What torchtitan refuses at launch, rule by rule.

Sources: torchtitan models/common/decoder.py (update_from_config), models/deepseek_v3/mtp.py, distributed/parallel_dims.py,
distributed/dual_pipe_v.py (get_dual_pipe_v_flag);
PyTorch torch/distributed/pipelining/schedules.py (the constructors of PipelineScheduleSingle and ScheduleInterleaved1F1B).
"""

from __future__ import annotations

import numpy as np

from autodeploy.strategy.rule import Proposal, Rule
from cost_models.schedules import schedules_where
from cost_models.strategies import I64, Bool, recompute_mask

TORCHTITAN = ("torchtitan",)
MODULES = recompute_mask(("layernorm", "moe_act", "full"))


def micro_batches_per_round(micro_batches: I64, pp: I64) -> I64:
    """Micro-batches that a chunk runs in a row in ScheduleInterleaved1F1B: no option, it follows from the batch."""
    return micro_batches // np.maximum(1, micro_batches // pp)


def _rounds(case: Proposal) -> Bool:
    m, pp = case.micro_batches, case.batch.pp
    uneven = m % np.maximum(1, m // pp) != 0
    other_group = case.group != micro_batches_per_round(m, pp)
    return case.scheduled(schedules_where(lambda s: s.grouped)) & (pp > 1) & (uneven | other_group)


TORCHTITAN_RULES = (
    Rule(
        name="recompute-torchtitan",
        text="torchtitan recomputes everything, or by operator; it knows no modules beyond norms and activations",
        remedy="use full, or selective(layernorm,moe_act)",
        broken=lambda c: (c.batch.recompute & ~MODULES) > 0,
        backends=TORCHTITAN,
        relief=True,
    ),
    Rule(
        name="torchtitan-overlap",
        text="torchtitan overlaps expert communication under DualPipeV only",
        remedy="use dualpipev, or drop ep-overlap",
        broken=lambda c: c.batch.ep_overlap & ~c.schedule_is("dualpipev"),
        backends=TORCHTITAN,
    ),
    Rule(
        name="torchtitan-overlap-recompute",
        text="torchtitan's overlap of expert communication under DualPipeV excludes activation checkpointing",
        remedy="drop the recompute, or ep-overlap",
        broken=lambda c: c.batch.ep_overlap & (c.batch.recompute > 0),
        backends=TORCHTITAN,
        relief=True,
    ),
    Rule(
        name="torchtitan-etp",
        text="torchtitan does not shard an expert over tensor parallel ranks",
        remedy="set ETP1",
        broken=lambda c: c.batch.etp > 1,
        backends=TORCHTITAN,
    ),
    Rule(
        name="torchtitan-tied",
        text="torchtitan refuses tied embeddings with PP above 1",
        remedy="set PP1",
        broken=lambda c: (c.batch.pp > 1) & c.model.tied_embeddings,
        backends=TORCHTITAN,
    ),
    Rule(
        name="torchtitan-mtp",
        text="torchtitan runs MTP modules without pipeline and context parallel only",
        remedy="set PP1 and CP1",
        broken=lambda c: ((c.batch.pp > 1) | (c.batch.cp > 1)) & (c.model.mtp_modules > 0),
        backends=TORCHTITAN,
    ),
    Rule(
        name="torchtitan-micro-batches",
        text="torch's 1F1B and GPipe need at least PP micro-batches",
        remedy="raise the global batch, or lower PP, MBS or DP",
        broken=lambda c: c.scheduled(("1f1b", "gpipe")) & (c.batch.pp > 1) & (c.micro_batches < c.batch.pp),
        backends=TORCHTITAN,
    ),
    Rule(
        name="torchtitan-rounds",
        text="torch's interleaved schedules run max(1, m // PP) rounds of equal length: they must divide the micro-batches, and "
        "G is no option",
        remedy="choose another global batch or MBS, and drop G",
        broken=_rounds,
        backends=TORCHTITAN,
    ),
)

"""Rules of the pipeline: stages and layers, schedules, micro-batch groups, layouts."""

from __future__ import annotations

import numpy as np

from autodeploy.strategy.rule import Proposal, Rule
from cost_models.schedules import SCHEDULE_TABLE, schedules_where
from cost_models.strategies import I64, Bool


def _layout(case: Proposal) -> Bool:
    def sums_wrong(i: int) -> bool:
        return round(float(case.batch.layouts[i].layers_per_stage.sum())) != case.model.num_layers

    wrong_pp = case.batch.pp != _column(case, "pp")
    return wrong_pp | (case.batch.vpp != _column(case, "vpp")) | case.per_layout(sums_wrong)


def _column(case: Proposal, name: str) -> I64:
    return np.array([getattr(layout, name) for layout in case.batch.layouts])[case.batch.layout]


def _group(case: Proposal) -> Bool:
    m, group, pp = case.micro_batches, case.group, case.batch.pp
    rest = m % group
    wrong = (group < pp) | (group > m) | ((rest != 0) & (rest < pp))
    return case.scheduled(schedules_where(lambda s: s.grouped)) & (pp > 1) & wrong


ANY_NUMBER = 1 << 30  # of chunks


def _chunks(case: Proposal) -> Bool:
    chunks = [schedule.chunks for schedule in SCHEDULE_TABLE.values()]
    least = np.array([each.least for each in chunks])[case.batch.schedule]
    most = np.array([ANY_NUMBER if each.most is None else each.most for each in chunks])[case.batch.schedule]
    return (case.batch.vpp < least) | (case.batch.vpp > most)


def _too_few_turns(case: Proposal) -> Bool:
    least = np.array([schedule.least_turns for schedule in SCHEDULE_TABLE.values()])[case.batch.schedule]
    return case.micro_batches < least * case.batch.pp


def _dualpipe(case: Proposal) -> Bool:
    odd = (case.batch.pp % 2 != 0) | (case.micro_batches % 2 != 0)
    return case.scheduled(schedules_where(lambda s: s.even)) & (odd | _too_few_turns(case))


def _foreign_layout(case: Proposal) -> Bool:
    backend = case.backend.name

    def foreign(i: int) -> bool:
        text = case.batch.layouts[i].text
        if text in ("", "even"):
            return False
        if text.startswith("fqn:"):
            return backend != "torchtitan"
        if text.startswith("noop:") or text[0].isdecimal():
            return backend != "mindspeed"
        return backend == "torchtitan" or (backend == "mindspeed" and text.startswith("account-for-"))

    return case.per_layout(foreign)


PIPELINE_RULES = (
    Rule(
        name="schedule-backend",
        text="the back end does not run this schedule",
        remedy="choose a schedule that it runs, or --backend any to price it all the same",
        broken=lambda c: ~c.scheduled(c.backend.schedules),
    ),
    Rule(
        name="schedule-needs-pp",
        text="PP above 1 needs a pipeline schedule",
        remedy="drop the token none",
        broken=lambda c: c.schedule_is("none") & (c.batch.pp > 1),
    ),
    Rule(
        name="vpp-needs-pp",
        text="VPP above 1 needs PP above 1",
        remedy="set VPP1",
        broken=lambda c: (c.batch.vpp > 1) & (c.batch.pp == 1),
    ),
    Rule(
        name="schedule-chunks",
        text="VPP must be 1 for 1F1B, GPipe, ZB-H1, ZB-1P, ZB-2P and DualPipe, above 1 for interleaved, and 2 for "
        "V-shaped schedules",
        remedy="change VPP or the schedule",
        broken=lambda c: _chunks(c) & ~c.scheduled(schedules_where(lambda s: s.needs_overlap)),
    ),
    Rule(
        name="layout",
        text="the layout must place every layer once, on PP x VPP stages (cases 37-42)",
        remedy="give a layout that sums to the layers, or drop it for the default",
        broken=_layout,
    ),
    Rule(
        name="layout-backend",
        text="the back end does not read this kind of layout",
        remedy="drop the layout for the back end's default",
        broken=_foreign_layout,
        backends=("megatron", "megatron-bridge", "mindspeed", "torchtitan"),
    ),
    Rule(
        name="micro-batch-group",
        text="interleaved runs micro-batches in groups of G: PP <= G <= m, and m % G is 0 or at least PP (case 60)",
        remedy="choose such a G (G5 for 10 micro-batches over PP4), or another batch",
        broken=_group,
        backends=("megatron", "megatron-bridge", "mindspeed", "any"),
    ),
    Rule(
        name="dualpipe-shape",
        text="DualPipe needs an even PP, and an even number of micro-batches that is at least 2 PP",
        remedy="raise the micro-batches, or choose another schedule",
        broken=_dualpipe,
    ),
    Rule(
        name="dualpipev-micro-batches",
        text="DualPipeV needs at least 2 PP micro-batches",
        remedy="raise the micro-batches, or choose another schedule",
        broken=lambda c: ~c.scheduled(schedules_where(lambda s: s.even)) & _too_few_turns(c),
    ),
)

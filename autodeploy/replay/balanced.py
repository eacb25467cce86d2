"""Balanced layouts for strategies: the layer balancer on priced items, within the memory that the rest leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.balance.layers import BalanceOptions, LayerPlan, balance_layers
from autodeploy.balance.layers.mindspeed import mindspeed_layers
from autodeploy.errors import InputError
from autodeploy.replay.groups import groups_of
from autodeploy.replay.items import price_items
from autodeploy.strategy.layout import parse_layout
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step import StepCost, evaluate
from cost_models.strategies import SCHEDULES, Layout, StrategyBatch

PLACED = ("weights", "gradients", "optimizer", "activations")  # the memory that moves with the layers


def options_for(cost: StepCost, case: Case, strategy: StrategyBatch, time_limit_s: float) -> BalanceOptions:
    """`cost` is priced by rank: what is neither weights, optimizer nor activations is taken off the cap."""
    assert cost.rank_memory_bytes is not None
    rest = sum(size[0] for cause, size in cost.rank_memory_bytes.items() if cause not in PLACED)
    group = next(groups_of(case, strategy))
    return BalanceOptions(
        micro_batches=group.micro_batches,
        micro_batch_group=group.micro_batch_group if group.layout.vpp > 1 else 0,
        memory_cap_bytes=float(case.hardware.usable_bytes - np.max(rest)),
        extra_warmup=int(group.lanes and group.grouped),
        time_limit_s=time_limit_s,
    )


def balanced(case: Case, strategy: StrategyBatch, backend: str, time_limit_s: float = 0.15) -> StrategyBatch | None:
    """The strategy with the balanced layout that its back end can write; None where there is no other."""
    layout = strategy.layouts[int(strategy.layout[0])]
    if layout.pp == 1 or SCHEDULE_TABLE[SCHEDULES[int(strategy.schedule[0])]].placement != "loop":
        return None
    cost = evaluate(case, strategy, per_rank=True)
    options = options_for(cost, case, strategy, time_limit_s)
    options = replace(options, mtp_apart=backend not in ("mindspeed", "torchtitan"))
    try:
        plan = balance_layers(price_items(case, strategy), layout.pp, layout.vpp, options)
        found = layout_of(plan, case.model, backend) if plan.launchable else None
    except ConfigError:
        return None
    if found is None or np.array_equal(found.counts, layout.counts):
        return None
    return replace(strategy, layout=np.zeros(1, dtype=np.int64), layouts=(found,))


def layout_of(plan: LayerPlan, model: ModelSpec, backend: str) -> Layout:
    """In the text that the back end reads. InputError where it cannot write the placement."""
    counts = plan.after.placement.counts
    if backend == "torchtitan":
        text = "fqn:" + ",".join(map(str, counts))
    elif backend == "mindspeed":
        text = _mindspeed_text(plan)
    else:
        text = plan.after.layout
    return parse_layout(text, model, plan.problem.pp, plan.problem.vpp)


def _mindspeed_text(plan: LayerPlan) -> str:
    written = mindspeed_layers(plan)
    if written.reason:
        raise InputError("strategy.layout", plan.after.layout, "a placement that MindSpeed can write", written.reason)
    if written.num_layer_list:
        return ",".join(map(str, written.num_layer_list))
    return "noop:" + ",".join(map(str, written.noop_layers)) if written.noop_layers else "even"


def stages_of(layout: Layout) -> tuple[str, ...]:
    """The layout as symbols of each stage: E, t, m, L."""
    return tuple(
        "".join(
            symbol * int(round(count))
            for symbol, count in zip("EtmL", (row[-3], row[:-3].sum(), *row[-2:]), strict=True)
        )
        for row in layout.counts
    )

"""Balanced layouts for strategies: the layer balancer on priced items, within the memory that the rest leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autodeploy.balance.layers import BalanceOptions, LayerPlan, balance_layers
from autodeploy.balance.layers.chunks import even_chunk_placements
from autodeploy.balance.layers.mindspeed import mindspeed_layers
from autodeploy.balance.layers.plan import evaluate as evaluate_placement
from autodeploy.errors import InputError
from autodeploy.replay.groups import ReplayGroup, groups_of
from autodeploy.replay.items import price_items
from autodeploy.strategy.layout import parse_layout
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step import StepCost, evaluate, price
from cost_models.strategies import F64, I64, SCHEDULES, Layout, StrategyBatch

PLACED = ("weights", "gradients", "optimizer", "activations")  # the memory that moves with the layers


def options_for(cost: StepCost, case: Case, strategy: StrategyBatch, time_limit_s: float) -> BalanceOptions:
    """`cost` is priced by rank: what is neither weights, optimizer nor activations is taken off the cap."""
    return _options(next(groups_of(case, strategy)), _beside_layers(cost)[0], time_limit_s=time_limit_s)


def _beside_layers(cost: StepCost) -> F64:
    """Memory that stays where it is, on the rank that has most of it, [N]."""
    assert cost.rank_memory_bytes is not None
    rest = np.sum([size for cause, size in cost.rank_memory_bytes.items() if cause not in PLACED], axis=0)
    return np.asarray(rest.max(axis=1))


def _options(group: ReplayGroup, rest_bytes: float, **others: Any) -> BalanceOptions:
    return BalanceOptions(
        micro_batches=group.micro_batches,
        micro_batch_group=group.micro_batch_group if group.layout.vpp > 1 else 0,
        memory_cap_bytes=float(group.case.hardware.usable_bytes - rest_bytes),
        extra_warmup=int(group.lanes and group.grouped),
        **others,
    )


LEAST_GAIN_FRAC = 1e-3  # of the step: less is not worth an uneven layout


def balanced(case: Case, strategies: StrategyBatch, backend: str) -> tuple[I64, StrategyBatch]:
    """The strategies once more in layouts that their back end can write, that fit and are shorter by closed form; and the
    rows that they are of. Placed by rank sums and by chunks: which of them sets the pace depends on the schedule, and where
    expert communication overlaps only the replay tells."""
    start = evaluate(case, strategies, per_rank=True)
    beside = _beside_layers(start)
    rows: list[int] = []
    layouts: list[Layout] = []
    for row in range(len(strategies)):
        found = _placed(case, strategies.take(np.array([row])), float(beside[row]), backend)
        rows += [row] * len(found)
        layouts += found
    if not rows:
        return np.array([], dtype=np.int64), strategies.take(np.array([], dtype=np.intp))
    origin = np.array(rows, dtype=np.int64)
    placed = replace(strategies.take(origin), layout=np.arange(len(origin)), layouts=tuple(layouts))
    priced = price(case, placed)
    # Within the card, or no larger than a start that is not either.
    fits = priced.peak_reserved_bytes <= np.maximum(case.hardware.usable_bytes, start.peak_reserved_bytes[origin])
    shorter = np.flatnonzero(fits & (priced.step_s < start.step_s[origin] * (1 - LEAST_GAIN_FRAC)))
    return origin[shorter], placed.take(shorter)


def _placed(case: Case, strategy: StrategyBatch, beside_bytes: float, backend: str) -> list[Layout]:
    """Layouts with the least largest rank sum, and with the least largest chunk, that the back end can write; not its own."""
    layout = strategy.layouts[int(strategy.layout[0])]
    if layout.pp == 1 or SCHEDULE_TABLE[SCHEDULES[int(strategy.schedule[0])]].placement != "loop":
        return []
    apart = backend not in ("mindspeed", "torchtitan")
    options = _options(next(groups_of(case, strategy)), beside_bytes, mtp_apart=apart, proven=False)
    try:
        items = price_items(case, strategy)
        plan = balance_layers(items, layout.pp, layout.vpp, options)
        placements = even_chunk_placements(items, layout.pp, layout.vpp, options.mtp_apart)
    except ConfigError:
        return []
    others = [replace(plan, after=evaluate_placement(plan.problem, placement)) for placement in placements]
    found = {layout.counts.tobytes(): layout}
    for each in (plan, *others):
        try:
            written = layout_of(each, case.model, backend) if each.launchable else layout
        except ConfigError:
            continue
        found.setdefault(written.counts.tobytes(), written)
    return list(found.values())[1:]


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

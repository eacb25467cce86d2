"""Balanced layouts for strategies: the layer balancer on priced items, within the memory that the rest leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autodeploy.balance.layers import BalanceOptions, LayerPlan, balance_layers
from autodeploy.balance.layers.chunks import even_chunk_placements
from autodeploy.balance.layers.mindspeed import mindspeed_layers
from autodeploy.balance.layers.plan import evaluate as evaluate_placement
from autodeploy.errors import InputError
from autodeploy.replay.batch import simulated_step_s
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
    """The strategy with the balanced layout that its back end can write; None where none is shorter than its own.

    Placed by rank sums and by chunks: which of them sets the pace depends on the schedule, so the price decides (the
    replay's, where expert communication overlaps).
    """
    layout = strategy.layouts[int(strategy.layout[0])]
    if layout.pp == 1 or SCHEDULE_TABLE[SCHEDULES[int(strategy.schedule[0])]].placement != "loop":
        return None
    cost = evaluate(case, strategy, per_rank=True)
    options = options_for(cost, case, strategy, time_limit_s)
    options = replace(options, mtp_apart=backend not in ("mindspeed", "torchtitan"))
    lanes = next(groups_of(case, strategy)).lanes  # where chunks overlap the closed form does not order layouts
    start_s = float(simulated_step_s(case, strategy)[0]) if lanes else float(cost.step_s[0])
    best, best_s = None, start_s * (1 - LEAST_GAIN_FRAC)
    for counts in _placed(case, strategy, options, backend):
        if np.array_equal(counts.counts, layout.counts):
            continue
        found = replace(strategy, layout=np.zeros(1, dtype=np.int64), layouts=(counts,))
        price = evaluate(case, found)
        seconds = float(simulated_step_s(case, found)[0]) if lanes else float(price.step_s[0])
        if seconds < best_s and _fits(price, cost, case):
            best, best_s = found, seconds
    return best


LEAST_GAIN_FRAC = 1e-3  # of the step: less is not worth an uneven layout


def _fits(price: StepCost, start: StepCost, case: Case) -> bool:
    """Within the card, or no larger than a start that is not either."""
    return bool(price.peak_reserved_bytes[0] <= max(case.hardware.usable_bytes, start.peak_reserved_bytes[0]))


def _placed(case: Case, strategy: StrategyBatch, options: BalanceOptions, backend: str) -> Iterator[Layout]:
    """Layouts with the least largest rank sum, and with the least largest chunk, that the back end can write."""
    layout = strategy.layouts[int(strategy.layout[0])]
    try:
        items = price_items(case, strategy)
        plan = balance_layers(items, layout.pp, layout.vpp, options)
        placements = even_chunk_placements(items, layout.pp, layout.vpp, options.mtp_apart)
    except ConfigError:
        return
    others = [replace(plan, after=evaluate_placement(plan.problem, placement)) for placement in placements]
    for found in (plan, *others):
        try:
            if found.launchable:
                yield layout_of(found, case.model, backend)
        except ConfigError:
            continue


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

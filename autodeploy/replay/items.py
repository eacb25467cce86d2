"""The layers of a model under a strategy as the layer balancer takes them, priced; and the layout it finds as a `Layout`.

Axes: C columns of the price list, I items in model order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.balance.layers import LayerItems
from autodeploy.errors import InputError
from autodeploy.replay.groups import groups_of
from cost_models.case import Case
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.step import memory
from cost_models.step.expert_overlap import hide_expert_communication
from cost_models.step.group import PricedGroup, laid_out
from cost_models.step.stages import StageCosts, full_share, stage_costs
from cost_models.strategies import F64, I64, Layout, StrategyBatch


def price_items(case: Case, strategy: StrategyBatch) -> LayerItems:
    """Items of a batch of one: they add up to the closed form's stages, whatever the layout. What a stage waits for
    beside its layers (parameter gathers of ZeRO-3, swapped activations) is left out."""
    model = case.model
    group = next(groups_of(case, strategy))
    looped = [name for name, schedule in SCHEDULE_TABLE.items() if schedule.placement == "loop"]
    if group.schedule.name not in looped:
        raise InputError("strategy.schedule", group.schedule.name, f"one of {', '.join(looped)}, for balanced layers")
    costs, _ = hide_expert_communication(_columns(group.priced), group.priced)
    kinds, columns, labels = _order(model)
    static = _static_bytes(group.priced)
    backward = costs.backward_input_s + costs.backward_weight_s
    embedding, head = columns[0], columns[-1]
    away = static[embedding] if group.layout.pp > 1 else 0.0
    per_item = static[columns]
    if model.mtp_modules:
        per_item[len(columns) - 1 - model.mtp_modules] += away
    return LayerItems(
        kinds=kinds,
        labels=labels,
        forward_s=costs.forward_s[:, columns],
        backward_s=backward[:, columns],
        static_bytes=per_item,
        activation_bytes=(costs.saved_bytes - costs.swapped_bytes)[:, columns],
        mtp_apart_bytes=float(static[head]) if model.mtp_modules else 0.0,
        mtp_embedding_s=float(costs.forward_s[0, embedding] + backward[0, embedding]) if model.mtp_modules else 0.0,
        mtp_embedding_bytes=float(away) if model.mtp_modules else 0.0,
    )


def _columns(group: PricedGroup) -> StageCosts:
    """Every column of the price list as a stage of its own, [1, C]; under full recompute by the layout's mean share."""
    count = group.table.prices.forward_s.shape[1]
    every = replace(group.batch, recompute_layers=np.zeros_like(group.batch.recompute_layers))
    alone = laid_out(replace(group, batch=every), Layout(pp=count, vpp=1, counts=np.eye(count)))
    costs = stage_costs(alone)
    layers = np.maximum(group.layout.layers_per_stage, 1e-9)
    share = float(np.average(full_share(group)[0], weights=layers))
    if share == 1.0:
        return costs
    plain = stage_costs(replace(alone, table=replace(group.table, mask=group.table.plain)))
    blended = {
        name: share * getattr(costs, name) + (1.0 - share) * getattr(plain, name)
        for name in ("backward_input_s", "backward_ep_s", "saved_bytes", "swapped_bytes")
    }
    return replace(costs, **blended)


def _order(model: ModelSpec) -> tuple[tuple[str, ...], I64, tuple[str, ...]]:
    """Kind, column and label of each item."""
    count = len(model.kinds)
    sequence = list(model.layer_sequence())
    names = [_label(model, k) for k in range(count)]
    kinds = ("embedding", *["decoder"] * len(sequence), *["mtp"] * model.mtp_modules, "head")
    columns = np.array([count, *sequence, *[count + 1] * model.mtp_modules, count + 2], dtype=np.int64)
    labels = ("embedding", *[names[k] for k in sequence], *["mtp"] * model.mtp_modules, "head")
    return kinds, columns, labels


def _label(model: ModelSpec, k: int) -> str:
    """dense or moe, numbered where the model has several kinds of one."""
    moe = [kind.feed_forward is not None and kind.feed_forward.is_moe for kind in model.kinds]
    alike = [i for i, flag in enumerate(moe) if flag == moe[k]]
    name = "moe" if moe[k] else "dense"
    return name if len(alike) == 1 else f"{name}-{alike.index(k) + 1}"


def _static_bytes(group: PricedGroup) -> F64:
    """Weights, gradients and optimizer state of one layer of each column, [C]."""
    prices = group.table.prices
    dense, expert = group.priced(prices.dense_parameters), group.priced(prices.expert_parameters)
    return np.sum(list(memory.static_bytes(dense, expert, group.batch, group.case.workload).values()), axis=0)[0]

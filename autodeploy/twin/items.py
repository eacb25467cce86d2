"""The layers of a model under a strategy as the layer balancer takes them, priced; and the layout it finds as a `Layout`.

Axes: C columns of the price list, I items in model order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autodeploy.balance.layers import LayerItems
from autodeploy.errors import InputError
from autodeploy.twin.groups import TwinInput, groups_of
from autodeploy.twin.prices import PriceTable, price_table
from cost_models import memory
from cost_models.expert_overlap import hide_expert_communication
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.stages import StageCosts, full_share, stage_costs
from cost_models.strategies import F64, I64, Layout, StrategyBatch


def price_items(model: ModelSpec, hardware: HardwareProfile, workload: Workload, strategy: StrategyBatch) -> LayerItems:
    """Items of a batch of one: they add up to the closed form's stages, whatever the layout. What a stage waits for
    beside its layers (parameter gathers of ZeRO-3, swapped activations) is left out."""
    given = TwinInput(model=model, hardware=hardware, workload=workload)
    group = next(groups_of(strategy, workload.global_batch))
    looped = [name for name, schedule in SCHEDULE_TABLE.items() if schedule.placement == "loop"]
    if group.schedule not in looped:
        raise InputError("strategy.schedule", group.schedule, f"one of {', '.join(looped)}, for balanced layers")
    table = price_table(model, hardware, workload, strategy)
    costs = _columns(given, table, strategy)
    hide_expert_communication(costs, strategy, group.layout, group.schedule, np.array([group.micro_batches]), hardware)
    kinds, columns, labels = _order(model)
    static = _static_bytes(table, strategy, workload)
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


def _columns(given: TwinInput, table: PriceTable, strategy: StrategyBatch) -> StageCosts:
    """Every column of the price list as a stage of its own, [1, C]; under full recompute by the layout's mean share."""
    count = table.prices.forward_s.shape[1]
    alone = Layout(pp=count, vpp=1, counts=np.eye(count))
    every = replace(strategy, recompute_layers=np.zeros_like(strategy.recompute_layers))

    def priced(mask: I64) -> StageCosts:
        return stage_costs(
            table.prices, table.point, mask, table.plain, every, alone, given.model, given.hardware, given.workload
        )

    costs = priced(table.mask)
    layout = strategy.layouts[int(strategy.layout[0])]
    share = float(np.average(full_share(strategy, layout)[0], weights=np.maximum(layout.layers_per_stage, 1e-9)))
    if share < 1.0:
        plain = priced(table.plain)
        for name in ("backward_input_s", "backward_ep_s", "saved_bytes", "swapped_bytes"):
            setattr(costs, name, share * getattr(costs, name) + (1.0 - share) * getattr(plain, name))
    return costs


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


def _static_bytes(table: PriceTable, strategy: StrategyBatch, workload: Workload) -> F64:
    """Weights, gradients and optimizer state of one layer of each column, [C]."""
    dense, expert = table.prices.dense_parameters[table.point], table.prices.expert_parameters[table.point]
    return np.sum(list(memory.static_bytes(dense, expert, strategy, workload).values()), axis=0)[0]

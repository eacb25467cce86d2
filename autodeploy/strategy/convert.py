"""Between one ``Strategy`` and a ``StrategyBatch`` of length 1."""

from __future__ import annotations

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.backends import backend_named
from autodeploy.strategy.layout import Placing, default_layout, parse_layout
from autodeploy.strategy.notation import Strategy
from autodeploy.strategy.rules_torchtitan import micro_batches_per_round
from cost_models.inputs import ModelSpec
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import DISPATCHERS, SCHEDULES, StrategyBatch, recompute_mask, recompute_modules, single


def strategy_to_batch(
    strategy: Strategy,
    model: ModelSpec,
    devices: int | None = None,
    backend: str = "megatron",
    global_batch: int | None = None,
) -> StrategyBatch:
    """A batch of one. DP comes from ``devices`` unless the strategy states it; then both must agree.

    torch's interleaved schedule has no micro-batch group to choose: it follows from ``global_batch``.
    """
    s, dp = strategy, _data_parallel(strategy, devices)
    backend_named(backend)
    if s.layout:
        layout = parse_layout(s.layout, model, s.pp, s.vpp)
    else:
        layout = default_layout(
            model, s.pp, s.vpp, backend, Placing(SCHEDULE_TABLE[s.schedule].v_shaped, bool(s.ep_overlap))
        )
    return single(
        layout=layout, tp=s.tp, pp=s.pp, vpp=s.vpp, cp=s.cp, ep=s.ep, etp=s.etp, dp=dp,
        micro_batch=s.micro_batch, micro_batch_group=_group(s, dp, backend, global_batch), zero_stage=s.zero_stage,
        sequence_parallel=s.sequence_parallel, recompute=recompute_mask(s.recompute),
        recompute_layers=s.recompute_layers, schedule=s.schedule, dispatcher=s.dispatcher,
        ep_overlap=bool(s.ep_overlap), offload_frac=s.offload_frac, swap_frac=s.swap_frac,
    )  # fmt: skip


def _group(s: Strategy, dp: int, backend: str, global_batch: int | None) -> int:
    """0 means PP."""
    if s.micro_batch_group or backend != "torchtitan" or not SCHEDULE_TABLE[s.schedule].grouped or not global_batch:
        return s.micro_batch_group
    micro_batches = np.array(global_batch // (s.micro_batch * dp))
    group = int(micro_batches_per_round(micro_batches, np.array(s.pp)))
    return 0 if group == s.pp else group


def _data_parallel(s: Strategy, devices: int | None) -> int:
    inner = s.tp * s.cp * s.pp
    if devices is None:
        if not s.dp:
            raise InputError("--devices", devices, "the number of cards", f"give it, or DP in {s}")
        return s.dp
    product = f"TP x CP x PP = {s.tp} x {s.cp} x {s.pp} = {inner}"
    if devices < inner or devices % inner:
        raise InputError(
            "--devices", devices, f"a multiple of {product}", "change TP, CP or PP, or the number of cards"
        )
    if s.dp and s.dp * inner != devices:
        raise InputError(
            "--devices", devices, f"{product} x DP{s.dp} = {inner * s.dp}", "drop DP: it follows from the cards"
        )
    return devices // inner


def batch_to_strategy(batch: StrategyBatch, i: int = 0) -> Strategy:
    """Strategy ``i`` of a batch; DP is left to the card count."""
    pp, group = int(batch.pp[i]), int(batch.micro_batch_group[i])
    return Strategy(
        tp=int(batch.tp[i]), pp=pp, vpp=int(batch.vpp[i]), cp=int(batch.cp[i]), ep=int(batch.ep[i]),
        etp=int(batch.etp[i]), micro_batch=int(batch.micro_batch[i]), micro_batch_group=0 if group == pp else group,
        zero_stage=int(batch.zero_stage[i]), sequence_parallel=bool(batch.sequence_parallel[i]),
        recompute=recompute_modules(int(batch.recompute[i])), recompute_layers=int(batch.recompute_layers[i]),
        schedule=SCHEDULES[batch.schedule[i]], dispatcher=DISPATCHERS[batch.dispatcher[i]],
        ep_overlap=bool(batch.ep_overlap[i]), offload_frac=float(batch.offload_frac[i]),
        swap_frac=float(batch.swap_frac[i]), layout=batch.layouts[batch.layout[i]].key,
    )  # fmt: skip

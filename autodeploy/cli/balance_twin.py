"""What `balance experts` needs to know of a training job, from the twin instead of the user: MODEL STRATEGY."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autodeploy.balance.experts import Links, Topology
from autodeploy.balance.experts.placement import F64
from autodeploy.errors import InputError

HORIZON_S = 600.0  # loads are taken to last ten minutes of training, unless --horizon says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFacts:
    """Prices and shape of one strategy's expert-parallel group."""

    topology: Topology
    links: Links
    layer_s: float  # a card's work on the routed experts of one MoE layer in a step at balanced load, both passes
    step_s: float
    token_bytes: float  # a token to another node and back, both passes

    def horizon(self) -> int:
        """Steps in ten minutes."""
        return max(1, round(HORIZON_S / self.step_s))

    def seconds_per_token(self, loads: F64) -> float:
        """Of the history's tokens [T, L, E], whatever part of the batch it counts: its mean card is the balanced one."""
        mean = float(loads.sum(axis=2).mean()) / self.topology.cards
        if not mean > 0:
            raise InputError("--input", 0.0, "a history with some tokens")
        return self.layer_s / mean


def twin_facts(given: dict[str, Any]) -> TwinFacts:
    """From MODEL STRATEGY --hardware H --devices N, priced at balanced experts."""
    from autodeploy.cli.case import CaseOptions, OneStrategy
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.one_strategy import replayed_s

    for name in ("strategy", "hardware", "devices"):
        if not given[name]:
            raise InputError(name, given[name], "given with MODEL: MODEL STRATEGY --hardware H --devices N")
    case = CaseOptions(
        model=given["model"], hardware=given["hardware"], seq_length=given["seq_length"],
        global_batch=given["global_batch"], precision=None, backend=None, imbalance=1.0, memory_cap=None, tokens=None,
        price=None,
    )  # fmt: skip
    one = OneStrategy(strategy=given["strategy"], devices=str(given["devices"]))
    loaded, batch, cost = load_and_price(case, one, "balance experts")
    step_s = replayed_s(loaded.case, batch) or float(cost.step_s[0])
    topology = _topology(loaded, batch, given)
    return TwinFacts(
        topology=topology,
        links=_links(loaded, batch, topology),
        layer_s=_layer_s(loaded, batch),
        step_s=step_s,
        token_bytes=8.0 * loaded.model.hidden,  # dispatch and combine, forward and backward, two bytes a number
    )


def _topology(loaded: Any, batch: Any, given: dict[str, Any]) -> Topology:
    """Expert ranks as cards; as many in a node as its cards hold beside the expert tensor parallel ones."""
    ranks, etp = int(batch.ep[0]), int(batch.etp[0])
    if ranks == 1:
        raise InputError("STRATEGY", "EP1", "expert parallelism", "experts are placed over EP ranks")
    in_node = min(max(loaded.hardware.tiers[0].cards // etp, 1), ranks)
    nodes = given["nodes"] if given["nodes"] > 1 else -(-ranks // in_node)
    cards = given["cards_per_node"] or ranks // nodes
    if nodes * cards != ranks:
        raise InputError(
            "--nodes", f"{nodes} x {cards} cards", f"the {ranks} expert ranks of the strategy", "drop both"
        )
    return Topology(nodes=nodes, cards_per_node=cards)


def _links(loaded: Any, batch: Any, topology: Topology) -> Links:
    """What one copy weighs on a card: its weights and its share of the optimizer state, sharded over expert DP."""
    from cost_models.parameters import layer_parameters

    model, workload = loaded.model, loaded.workload
    kind = next((k for k in model.kinds if any(part.is_moe for part in k.feed_forwards)), None)
    if kind is None:
        raise InputError("MODEL", model.name, "a model with experts")
    experts = max(part.experts for part in kind.feed_forwards if part.is_moe)
    parameters = layer_parameters(kind, model.hidden, model.norm_bias).routed_experts / experts / float(batch.etp[0])
    sharded = float(np.ravel(batch.expert_dp)[0]) if int(batch.zero_stage[0]) else 1.0
    inside = [tier for tier in loaded.hardware.tiers if tier.cards >= topology.cards_per_node * int(batch.etp[0])]
    across = [tier for tier in loaded.hardware.tiers if tier.cards >= topology.cards * int(batch.etp[0])]
    near, far = ((found or loaded.hardware.tiers[-1:])[0].bandwidth_bytes_per_s for found in (inside, across))
    return Links(
        bytes_per_expert=parameters * (workload.weight_bytes + workload.optimizer_bytes / sharded),
        intra_bytes_per_s=near,
        inter_bytes_per_s=far,
    )


def _layer_s(loaded: Any, batch: Any) -> float:
    """Seconds of the routed experts of the busiest layer kind in a step, every micro-batch."""
    from autodeploy.replay.groups import groups_of
    from cost_models.layer_price import FAMILY_INDEX

    case = replace(loaded.case, workload=replace(loaded.workload, expert_imbalance=1.0, imbalance_by_ep=False))
    group = next(groups_of(case, batch))
    family = FAMILY_INDEX["experts"]
    prices = group.prices
    seconds = (prices.forward_s + prices.backward_input_s + prices.backward_weight_s)[0, :, family]
    return float(np.max(seconds[: len(loaded.model.kinds)])) * group.micro_batches

"""What changes the stages beside their layers: one ordered tuple, for the closed form and for the replay.

An effect is a pure function: stage costs of a group in, stage costs and what it took or added out. The order is physics:
expert communication is hidden under computing first; what still runs then has parameter gathers and swapped tensors beside
it, and a stage is never shorter than these.

Axes: N strategies, S virtual stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cost_models.records import record
from cost_models.step.expert_overlap import hide_expert_communication
from cost_models.step.fully_sharded import gather_parameters
from cost_models.step.group import PricedBatch
from cost_models.step.stages import StageCosts, Taken
from cost_models.step.swap import swap_activations
from cost_models.strategies import F64

Effect = Callable[[StageCosts, PricedBatch], tuple[StageCosts, Taken]]

WAITS: tuple[Effect, ...] = (gather_parameters, swap_activations)
EFFECTS: tuple[Effect, ...] = (hide_expert_communication, *WAITS)


@record(kw_only=False)
class Affected:
    """Stage costs after all effects, and what each effect took or added."""

    costs: StageCosts
    taken: tuple[Taken, ...]

    def of(self, cause: str) -> F64:
        """Seconds per micro-batch that the effects of a cause added (negative: took out), [N, S]."""
        found = [each.seconds for each in self.taken if each.cause == cause]
        return np.sum(found, axis=0) if found else np.zeros_like(self.costs.forward_s)


def with_effects(costs: StageCosts, group: PricedBatch, effects: Sequence[Effect] = EFFECTS) -> Affected:
    """The effects one after another, each on what the one before has left."""
    taken = []
    for effect in effects:
        costs, change = effect(costs, group)
        taken.append(change)
    return Affected(costs, tuple(taken))


def with_effects_on_computing(costs: StageCosts, group: PricedBatch) -> Affected:
    """Where a clock has lanes of its own for expert communication: the waits are beside computing alone, and the
    communication comes on top, for the clock to hide."""
    computing = replace(
        costs,
        forward_s=costs.forward_s - costs.forward_ep_s,
        backward_input_s=costs.backward_input_s - costs.backward_ep_s,
    )
    affected = with_effects(computing, group, WAITS)
    after = replace(
        affected.costs,
        forward_s=affected.costs.forward_s + costs.forward_ep_s,
        backward_input_s=affected.costs.backward_input_s + costs.backward_ep_s,
    )
    return Affected(after, affected.taken)

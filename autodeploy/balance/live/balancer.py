"""The expert balancer as a trainer holds it: one object a rank, the same answers on all of them.

Every rank feeds it the same loads (all-reduced over the data-parallel group), so every rank decides alike without
talking: nothing here is random, reads a clock or knows a rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.balance.experts.balancer import Balancer, Peaks
from autodeploy.balance.experts.choose import Task, Trigger
from autodeploy.balance.experts.migrate import Move, list_moves
from autodeploy.balance.experts.placement import F64, Placement
from autodeploy.balance.experts.validate import check_loads
from autodeploy.balance.live.maps import EplbMaps, eplb_maps
from autodeploy.balance.live.pace import Pace
from autodeploy.errors import InputError

STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearrangement:
    """What to carry out before the next step: moves in order, wave by wave, then the new maps."""

    before: Placement
    after: Placement
    moves: list[Move]
    saving_s_per_step: float

    @property
    def moved_bytes(self) -> float:
        return sum(move.moved_bytes for move in self.moves)

    def maps(self) -> EplbMaps:
        """The new placement as EPLB, vLLM and SGLang hold it."""
        return eplb_maps(self.after)


class ExpertBalancer:
    """``observe`` the loads of every step; ``decide`` between steps, whenever a rearrangement could be carried out."""

    def __init__(self, placement: Placement, task: Task, horizon: int = 100, trigger: Trigger | None = None) -> None:
        if horizon < 1:
            raise InputError("horizon", horizon, "a whole number of steps > 0")
        self._balancer = Balancer(placement, task, horizon, trigger)
        self._shape = (placement.layers, placement.experts)
        self._pace = Pace(horizon)
        self._peaks = Peaks(placement)

    @property
    def placement(self) -> Placement:
        """Where the experts are now."""
        return self._balancer.placement

    @property
    def steps(self) -> int:
        """Steps observed."""
        return self._balancer.predictor.steps

    def maps(self) -> EplbMaps:
        """The present placement as EPLB, vLLM and SGLang hold it."""
        return eplb_maps(self.placement)

    def observe(self, loads: F64) -> None:
        """Tokens per expert of the step just done [L, E], summed over all ranks."""
        checked = check_loads(loads)
        if checked.shape != self._shape:
            raise InputError("loads", checked.shape, f"{self._shape}: layers and experts of the placement")
        self._balancer.observe(checked)
        mean = checked.mean(axis=1) * self._shape[1] / self.placement.cards
        loaded = mean > 0
        if loaded.any():
            self._pace.observe(float((self._peaks(checked)[loaded] / mean[loaded]).mean()) - 1)

    def decide(self) -> Rearrangement | None:
        """What to move now, None if nothing pays; the balancer takes it as carried out.

        May be called after every step: looking for placements is paced (``Pace``), what is between costs next to nothing.
        """
        before = self.placement
        due = self._pace.due(self.steps)
        if due == "nothing":
            return None
        choice = self._balancer.confirm() if due == "confirm" else self._balancer.decide(longest_only=True)
        if not choice.moved.any():
            return None
        self._peaks = Peaks(self.placement)
        task = self._balancer.task
        return Rearrangement(
            before=before,
            after=self.placement,
            moves=list_moves(before, self.placement, task.topology, task.links),
            saving_s_per_step=float(choice.saving_s.sum()),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs to go on as if it had not stopped: arrays and numbers."""
        return {
            "version": STATE_VERSION,
            "horizons": np.array(self._balancer.horizons),
            **self._pace.state(),
            **self._balancer.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state that ``state_dict`` gave, of the same model, cards and horizon."""
        if int(state.get("version", 0)) != STATE_VERSION:
            raise InputError("state.version", state.get("version"), str(STATE_VERSION), "start the balancer afresh")
        if tuple(int(h) for h in state["horizons"]) != self._balancer.horizons:
            raise InputError("state.horizons", list(state["horizons"]), f"{self._balancer.horizons}", "same horizon")
        shape = np.shape(state["placement"])
        if shape != self.placement.slot_expert.shape:
            raise InputError("state.placement", shape, f"{self.placement.slot_expert.shape}", "same cards and slots")
        self._balancer.load(state)
        self._pace.load(state)
        self._peaks = Peaks(self.placement)

"""When a live balancer looks for a new placement: often at first and when loads change, seldom while they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_SMOOTH = 0.125  # weight of the newest step in the excess
_STIRRED = (1.5, 0.02)  # times the least excess since the last look, and more: the placement no longer suits the loads
_FIRST_LOOK = 2  # steps from which it can be told that loads do not change
_NEVER = 2**62


class Pace:
    """A look costs some hundred milliseconds at 61 x 256; intervals double from a sixteenth of the horizon to twice it.

    A proposal is confirmed, or dropped, a sixteenth of the horizon after it was made.
    """

    def __init__(self, horizon: int) -> None:
        self.shortest, self.longest = max(1, horizon // 16), 2 * horizon
        self.interval = self.shortest
        self.look_at, self.confirm_at, self.looked_at = _FIRST_LOOK, _NEVER, 0
        self.excess = self.least = float("nan")

    def observe(self, excess: float) -> None:
        """One step's largest over mean card load, less one, averaged over layers."""
        self.excess = excess if np.isnan(self.excess) else self.excess + _SMOOTH * (excess - self.excess)
        self.least = self.excess if np.isnan(self.least) else min(self.least, self.excess)

    def due(self, steps: int) -> str:
        """nothing, confirm or look, after ``steps`` steps; what is due counts as done."""
        stirred = self.excess > _STIRRED[0] * self.least + _STIRRED[1] and steps - self.looked_at >= self.shortest
        if steps >= self.look_at or stirred:
            self.interval = self.shortest if stirred or not self.looked_at else min(2 * self.interval, self.longest)
            self.look_at, self.confirm_at = steps + self.interval, steps + self.shortest
            self.looked_at, self.least = steps, float("nan")
            return "look"
        if steps >= self.confirm_at:
            self.confirm_at = _NEVER
            return "confirm"
        return "nothing"

    def state(self) -> dict[str, Any]:
        """As numbers."""
        return {f"pace.{name}": np.array(getattr(self, name)) for name in _STATE}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what ``state`` gave."""
        for name, kind in _STATE.items():
            setattr(self, name, kind(state[f"pace.{name}"]))


_STATE = {"interval": int, "look_at": int, "confirm_at": int, "looked_at": int, "excess": float, "least": float}

"""The best plans found with the whole history known, to measure regret against. Found, not proven best."""

from __future__ import annotations

import numpy as np

from autodeploy.balance.experts.choose import Task, Trigger, choose
from autodeploy.balance.experts.place import place
from autodeploy.balance.experts.placement import F64, I64, Placement
from autodeploy.balance.experts.replay import Ledger, PolicyResult, replay_fixed, replay_static

CLAIRVOYANT = Trigger(intra_factor=1.0, inter_factor=1.0, hysteresis=1.0, least_saving_frac=0.0, least_trust=0.0)


def best_fixed(history: F64, task: Task, slots: int, tries: int = 300, sample: int = 250, seed: int = 0) -> Placement:
    """Placement [L, G, C] whose largest card load, summed over the steps of ``history`` [T, L, E], is smallest.

    Starts from the placement of the mean loads; then random swaps of two slots are kept where they lower the sum over
    ``sample`` evenly spaced steps.
    """
    start = place(history.mean(axis=0), task.topology, slots, task.groups)
    if not tries or task.groups > 1:
        return start
    steps = history[:: max(1, len(history) // sample)]
    shares = steps / start.counts()
    flat = np.stack(
        [_climb(start.flat()[layer], shares[:, layer], start.cards, tries, seed) for layer in range(start.layers)]
    )
    return Placement(flat.reshape(start.slot_expert.shape), start.experts)


def _climb(slots: I64, shares: F64, cards: int, tries: int, seed: int) -> I64:
    """Improve one layer's slots [S] for shares [T, E] by random swaps from a card that is often hottest."""
    rng = np.random.default_rng(seed)
    slots, width = slots.copy(), len(slots) // cards
    load = shares[:, slots].reshape(len(shares), cards, width).sum(axis=2)  # [T, G]
    best = load.max(axis=1).sum()
    for _ in range(tries):
        a = rng.choice(np.bincount(load.argmax(axis=1), minlength=cards).nonzero()[0]) * width + rng.integers(width)
        b = rng.integers(len(slots))
        card_a, card_b = a // width, b // width
        in_a, in_b = slots[card_a * width :][:width], slots[card_b * width :][:width]
        if card_a == card_b or slots[a] in in_b or slots[b] in in_a:
            continue
        shed = shares[:, slots[a]] - shares[:, slots[b]]
        trial = load.copy()
        trial[:, card_a] -= shed
        trial[:, card_b] += shed
        value = trial.max(axis=1).sum()
        if value < best:
            best, load = value, trial
            slots[a], slots[b] = slots[b], slots[a]
    return slots


def replay_clairvoyant(history: F64, placement: Placement, task: Task, window: int) -> PolicyResult:
    """Every ``window`` steps the choice that pays best for exactly the steps to come."""
    ledger = Ledger(f"clairvoyant_{window}", task)
    for start in range(0, len(history), window):
        future = history[start : start + window]
        found = choose(placement, future.mean(axis=0), future, len(future), task, CLAIRVOYANT)
        if found.moved.any():
            ledger.migrate(placement, found.placement)
            placement = found.placement
        ledger.step(placement, future)
    return ledger.result(placement)


def best_in_hindsight(history: F64, placement: Placement, task: Task, windows: tuple[int, ...]) -> PolicyResult:
    """The least total time among static, the best fixed placement and clairvoyant plans at several windows."""
    fixed = best_fixed(history, task, placement.slots)
    results = [replay_static(history, placement, task), replay_fixed(history, placement, fixed, task)]
    results += [replay_clairvoyant(history, placement, task, window) for window in windows]
    return min(results, key=lambda result: result.total_s)

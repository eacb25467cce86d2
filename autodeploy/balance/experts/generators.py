"""Reproducible load histories: the workloads of Megatron-LM pull request 7488 (W0-W7), and drift.

Each returns the probability [T, L, E] of every expert; ``generate`` draws tokens from it. Same seed, same loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autodeploy.balance.experts.placement import F64
from autodeploy.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of a generated history."""

    steps: int = 400
    layers: int = 4
    experts: int = 64
    cards: int = 16
    tokens: int = 65_536  # token-expert pairs per layer and step
    heat: float = 4.0  # load of a hot expert over a cold one
    period: int = 100  # steps of one place of the rotating hot spot, and between bursts


def _flat(shape: Shape) -> F64:
    return np.ones((shape.steps, shape.layers, shape.experts))


def balanced(shape: Shape, rng: np.random.Generator) -> F64:
    """W0: every expert alike."""
    return _flat(shape)


def hot_expert(shape: Shape, rng: np.random.Generator) -> F64:
    """W1: a set of hot experts at random places, one for every other card."""
    weight = _flat(shape)
    for layer in range(shape.layers):
        weight[:, layer, rng.choice(shape.experts, shape.cards // 2, replace=False)] = shape.heat
    return weight


def hot_card(shape: Shape, rng: np.random.Generator) -> F64:
    """W2: all experts of one card (contiguous placement) are hot."""
    weight, width = _flat(shape), shape.experts // shape.cards
    for layer in range(shape.layers):
        first = int(rng.integers(shape.cards)) * width
        weight[:, layer, first : first + width] = shape.heat
    return weight


def spread(shape: Shape, rng: np.random.Generator) -> F64:
    """W3: as many hot experts as ``hot_card``, on different cards."""
    weight, width = _flat(shape), shape.experts // shape.cards
    for layer in range(shape.layers):
        weight[:, layer, rng.choice(shape.cards, width, replace=False) * width] = shape.heat
    return weight


def ragged(shape: Shape, rng: np.random.Generator) -> F64:
    """W4: each source prefers its own experts and sends a ragged number of tokens, new every step."""
    sources = 8
    taste = rng.dirichlet(np.full(shape.experts, 4.0), size=(shape.layers, sources))
    amount = rng.dirichlet(np.full(sources, 1.0), size=shape.steps)
    return np.einsum("ts,lse->tle", amount, taste)


def zero_load(shape: Shape, rng: np.random.Generator) -> F64:
    """W5: the experts of two cards and a tenth of the others get nothing."""
    weight, width = _flat(shape), shape.experts // shape.cards
    for layer in range(shape.layers):
        for card in rng.choice(shape.cards, 2, replace=False):
            weight[:, layer, card * width : (card + 1) * width] = 0.0
        weight[:, layer, rng.choice(shape.experts, shape.experts // 10, replace=False)] = 0.0
    return weight


def rotating(shape: Shape, rng: np.random.Generator) -> F64:
    """W6: the hot card moves on every ``period`` steps."""
    weight, width = _flat(shape), shape.experts // shape.cards
    start = rng.integers(shape.cards, size=shape.layers)
    for step in range(shape.steps):
        card = (start + step // shape.period) % shape.cards
        for layer in range(shape.layers):
            weight[step, layer, card[layer] * width : (card[layer] + 1) * width] = shape.heat
    return weight


def burst(shape: Shape, rng: np.random.Generator) -> F64:
    """W7: balanced, but for three steps in every period with a hot card of their own."""
    weight, width = _flat(shape), shape.experts // shape.cards
    for start in range(shape.period // 2, shape.steps, shape.period):
        for layer in range(shape.layers):
            first = int(rng.integers(shape.cards)) * width
            weight[start : start + 3, layer, first : first + width] = shape.heat
    return weight


def drift(shape: Shape, rng: np.random.Generator) -> F64:
    """Log-normal loads whose logits wander slowly: a stationary walk that forgets half of itself in 3 periods."""
    keep = 0.5 ** (1 / (3 * shape.period))
    logit = rng.normal(size=(shape.layers, shape.experts))
    weight = np.empty((shape.steps, shape.layers, shape.experts))
    for step in range(shape.steps):
        weight[step] = np.exp(0.7 * logit)
        logit = keep * logit + np.sqrt(1 - keep**2) * rng.normal(size=logit.shape)
    return weight


GENERATORS: dict[str, Callable[[Shape, np.random.Generator], F64]] = {
    "balanced": balanced,
    "hot_expert": hot_expert,
    "hot_card": hot_card,
    "spread": spread,
    "ragged": ragged,
    "zero_load": zero_load,
    "rotating": rotating,
    "burst": burst,
    "drift": drift,
}


def generate(name: str, shape: Shape | None = None, seed: int = 0) -> F64:
    """Loads [T, L, E] in tokens of the named workload."""
    if name not in GENERATORS:
        raise InputError("generator", name, f"one of {', '.join(GENERATORS)}")
    shape = shape or Shape()
    rng = np.random.default_rng([seed, list(GENERATORS).index(name)])
    weight = GENERATORS[name](shape, rng)
    return rng.multinomial(shape.tokens, weight / weight.sum(axis=2, keepdims=True)).astype(np.float64)

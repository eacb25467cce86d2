"""Does re-arranging one global batch change the gradient?  It says what, where it does."""

from __future__ import annotations

from dataclasses import dataclass

from autodeploy.errors import InputError

LOSS_NORMALISATIONS = {
    "global_token": "",
    "micro_batch": (
        "the loss is a mean over each micro-batch, then over micro-batches and ranks: tokens that move to a "
        "micro-batch with fewer tokens weigh more (no change where all hold equally many loss tokens); "
        "Megatron: --calculate-per-token-loss"
    ),
    "sequence": "",
}
AUX_LOSSES = {
    "none": "",
    "global": "",
    "sequence": "",
    "micro_batch": (
        "the router's auxiliary loss is taken over each micro-batch: its gradient depends on which samples share "
        "one; Megatron: --moe-router-load-balancing-type global_aux_loss or seq_aux_loss"
    ),
    "ep_group": (
        "the router's auxiliary loss is taken over an expert-parallel group's micro-batch: its gradient depends on "
        "which samples meet there; take it over the global batch"
    ),
}
CAPACITIES = {
    "dropless": "",
    "global": "",
    "micro_batch": (
        "experts have a capacity per micro-batch: which tokens are dropped depends on which samples share one; "
        "train dropless"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientEffect:
    """``unchanged``: equal but for the order of floating-point sums. ``changes``: what differs, and the remedy."""

    unchanged: bool
    changes: tuple[str, ...]


def gradient_effect(loss_normalisation: str, aux_loss: str = "none", capacity: str = "dropless") -> GradientEffect:
    """The gradient of a step is a sum over its samples, so a permutation within the batch leaves it, unless a
    term is normalised or cut within a micro-batch or a group."""
    chosen = (
        ("loss_normalisation", loss_normalisation, LOSS_NORMALISATIONS),
        ("aux_loss", aux_loss, AUX_LOSSES),
        ("capacity", capacity, CAPACITIES),
    )
    for field, value, table in chosen:
        if value not in table:
            raise InputError(field, value, f"one of {', '.join(table)}")
    changes = tuple(table[value] for _, value, table in chosen if table[value])
    return GradientEffect(unchanged=not changes, changes=changes)

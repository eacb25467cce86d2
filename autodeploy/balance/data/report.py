"""A data plan as plain data: the JSON of ``balance data`` and its rows, one a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodeploy.balance.data.cost import SampleCost
from autodeploy.balance.data.gradient import GradientEffect
from autodeploy.balance.data.rearrange import DataPlan

SCHEMA = "autodeploy.balance/1"
DOCUMENT_COLUMNS = ("document", "sample", "batch", "rank", "micro_batch", "place", "parts")


def plan_to_dict(plan: DataPlan, cost: SampleCost, effect: GradientEffect) -> dict[str, Any]:
    """``plan.order[b][r][j]``: samples of batch b, rank r, micro-batch j; ``sample_of_document`` maps into them."""
    samples = plan.samples
    return {
        "schema": SCHEMA,
        "kind": "data",
        "before": plan.before.to_dict(),
        "after": plan.after.to_dict(),
        "plan": {
            "documents": int(samples.of_document.size),
            "samples": int(samples.tokens.size),
            "batches": len(plan.order),
            "ranks": plan.shape.ranks,
            "ep_ranks": plan.shape.ep_ranks,
            "micro_batches": int(plan.order.shape[2]),
            "micro_batch": plan.shape.micro_batch,
            "free_counts": plan.shape.free_counts,
            "empty_micro_batches": int((plan.order < 0).all(axis=3).sum()),
            "cost": {
                "alpha_s_per_token": cost.alpha_s_per_token,
                "beta_s_per_token2": cost.beta_s_per_token2,
                "gamma_s": cost.gamma_s,
                "ring_s_per_token": cost.ring_s_per_token,
                "fit_error_frac": cost.fit_error_frac,
            },
            "context_parallel": {int(i): int(plan.parts[i]) for i in np.flatnonzero(plan.parts > 1)},
            "delay": _delay(plan),
            "gradient_unchanged": effect.unchanged,
            "gradient_changes": list(effect.changes),
            "notes": notes(plan),
            "order": [
                [[[int(i) for i in slot if i >= 0] for slot in rank] for rank in batch] for batch in plan.order.tolist()
            ],
            "sample_of_document": samples.of_document.tolist(),
        },
    }


def notes(plan: DataPlan) -> list[str]:
    """What a user should know beside the gradient."""
    said = []
    if plan.packed and len(plan.order) > 1:
        said.append(
            "packing decides which documents share a global batch (what did not fit waited for the next one); "
            "re-arranging then moves samples within their batch only"
        )
    empty = int((plan.order[:-1] < 0).all(axis=3).sum())
    if empty:
        said.append(f"{empty} micro-batches are empty: the framework must feed them a dummy")
    split = plan.parts > 1
    if split.any():
        said.append(
            f"{int(split.sum())} samples are split over 2 to {int(plan.parts.max())} neighbouring ranks at one "
            "micro-batch (order lists them at each); the framework must run them context parallel there"
        )
    return said


def _delay(plan: DataPlan) -> dict[str, Any] | None:
    if plan.delay is None:
        return None
    names = ("most_batches", "delayed", "delayed_tokens_frac", "mean_batches")
    return {name: getattr(plan.delay, name) for name in names}


def document_table(plan: DataPlan) -> np.ndarray:
    """int64 [D, 7] in the order of DOCUMENT_COLUMNS: where each document goes; the first of its ranks where split."""
    batch, rank, micro_batch, place = (where[::-1] for where in np.nonzero(plan.order >= 0))
    where = np.empty((plan.samples.tokens.size, 4), dtype=np.int64)
    where[plan.order[batch, rank, micro_batch, place]] = np.stack([batch, rank, micro_batch, place], axis=1)
    sample = plan.samples.of_document
    return np.column_stack([np.arange(sample.size), sample, where[sample], plan.parts[sample]])

"""The figures of merit, each one small function over plain arrays. NaN-free: callers drop unmeasured rows."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

CLOSE_FRAC = 0.02  # pairs measured closer than this have no order worth ranking
SMALLEST_FAMILY = 5
HELD_OUT_FRAC = 0.3  # of the families of a group, kept out of every fit


def error_frac(predicted: float, measured: float) -> float:
    """(predicted - measured) / measured."""
    return (predicted - measured) / measured


def mean_ape(errors: Sequence[float]) -> float | None:
    """Mean absolute percentage error as a fraction; None of nothing."""
    return float(np.mean(np.abs(errors))) if len(errors) else None


def median_ape(errors: Sequence[float]) -> float | None:
    return float(np.median(np.abs(errors))) if len(errors) else None


def p90_ape(errors: Sequence[float]) -> float | None:
    return float(np.quantile(np.abs(errors), 0.9)) if len(errors) else None


def mean_error(errors: Sequence[float]) -> float | None:
    """Signed: above 0 the twin is too slow (or too full)."""
    return float(np.mean(errors)) if len(errors) else None


def tau_b(measured: ArrayLike, predicted: ArrayLike, close_frac: float = CLOSE_FRAC) -> tuple[float, int]:
    """Kendall's tau-b over the pairs that differ in measurement by ``close_frac`` or more, and how many those are.

    (C - D) / sqrt(n (n - ties in the prediction)); ties in the measurement are among the pairs left out.
    """
    m, p = np.asarray(measured, dtype=float), np.asarray(predicted, dtype=float)
    i, j = np.triu_indices(len(m), k=1)
    far = np.abs(m[i] - m[j]) >= close_frac * np.minimum(m[i], m[j])
    i, j = i[far], j[far]
    pairs = len(i)
    if not pairs:
        return 0.0, 0
    agreement = np.sign(m[i] - m[j]) * np.sign(p[i] - p[j])
    untied = int(np.count_nonzero(agreement))
    return (float(agreement.sum() / np.sqrt(pairs * untied)) if untied else 0.0), pairs


def pooled_tau(families: Sequence[tuple[ArrayLike, ArrayLike]]) -> float | None:
    """Tau-b of each family of at least five (measured, predicted), averaged with their pairs as weights."""
    taus = [tau_b(m, p) for m, p in families if len(np.asarray(m)) >= SMALLEST_FAMILY]
    pairs = sum(n for _, n in taus)
    return sum(tau * n for tau, n in taus) / pairs if pairs else None


def balanced_accuracy(died: Sequence[bool], said_died: Sequence[bool]) -> float | None:
    """Mean of the shares called right among those that died and among those that ran."""
    d, s = np.asarray(died, dtype=bool), np.asarray(said_died, dtype=bool)
    if not d.any() or d.all():
        return None
    return float((s[d].mean() + (~s[~d]).mean()) / 2)


def held_out_families(families_by_group: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The families kept out of every fit: in each group the three tenths (rounded, of two and more at least one) whose
    names hash lowest, so that nobody chooses and no group lacks them."""
    held: list[str] = []
    for families in families_by_group.values():
        ordered = sorted(set(families), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        held += ordered[: max(round(len(ordered) * HELD_OUT_FRAC), min(len(ordered) - 1, 1))]
    return frozenset(held)

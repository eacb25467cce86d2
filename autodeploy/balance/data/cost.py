"""What one sample costs: ``alpha * tokens + beta * sum(len^2) + gamma``, given or fitted from timings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from autodeploy.errors import InputError
from autodeploy.files import csv_rows, read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCost:
    """Seconds of a sequence of documents that do not attend to each other."""

    alpha_s_per_token: float  # projections, experts, head: linear in tokens
    beta_s_per_token2: float = 0.0  # attention: per document, quadratic in its length
    gamma_s: float = 0.0  # launch and host time of one sample
    ring_s_per_token: float = 0.0  # keys and values of a split sample, passed on: exposed, both passes, all layers
    fit_error_frac: float | None = None  # mean |predicted - measured| / measured, where fitted

    def __post_init__(self) -> None:
        for name in ("alpha_s_per_token", "beta_s_per_token2", "gamma_s", "ring_s_per_token"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"SampleCost.{name}", value, "a number >= 0")
        if self.alpha_s_per_token + self.beta_s_per_token2 + self.gamma_s == 0:
            raise InputError("SampleCost", 0.0, "at least one rate > 0", "give --timings, or --alpha and --beta")

    def seconds(self, tokens: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Seconds [N] of samples with ``tokens`` [N] and sums of squared document lengths ``squares`` [N]."""
        return self.alpha_s_per_token * tokens + self.beta_s_per_token2 * squares + self.gamma_s


def sample_cost_from_flop(*, flop_per_token: float, attention_flop_per_token2: float, flop_per_s: float) -> SampleCost:
    """Rates from counted FLOP: of one token without attention, and of attention per squared document length."""
    if not flop_per_s > 0:
        raise InputError("flop_per_s", flop_per_s, "a number > 0")
    return SampleCost(
        alpha_s_per_token=flop_per_token / flop_per_s, beta_s_per_token2=attention_flop_per_token2 / flop_per_s
    )


def fit_sample_cost(tokens: np.ndarray, squares: np.ndarray, seconds: np.ndarray) -> SampleCost:
    """Least squares of the relative error over timed samples [M >= 3], all three rates kept >= 0.

    Rates that the timings cannot tell apart (all samples of one length) are an error, not a guess.
    """
    tokens, squares, seconds = (np.asarray(a, dtype=np.float64) for a in (tokens, squares, seconds))
    if not (tokens.shape == squares.shape == seconds.shape and tokens.ndim == 1 and tokens.size >= 3):
        raise InputError("timings", f"{tokens.size} rows", "at least 3 timed samples")
    bad = ~(np.isfinite(seconds) & (seconds > 0) & np.isfinite(tokens) & (tokens > 0) & (squares >= tokens))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"timings[{row}]", (tokens[row], squares[row], seconds[row]), "tokens > 0, sum_len2 >= tokens, seconds > 0"
        )
    design = np.stack([tokens, squares, np.ones_like(tokens)], axis=1) / seconds[:, None]
    scale = np.linalg.norm(design, axis=0)
    if np.linalg.matrix_rank(design / scale, tol=1e-6) < 3:
        raise InputError("timings", f"{np.unique(tokens).size} lengths", "at least 3 different lengths")
    rates = nnls(design / scale, np.ones_like(seconds))[0] / scale
    error = float(np.mean(np.abs(design @ rates - 1)))
    return SampleCost(alpha_s_per_token=rates[0], beta_s_per_token2=rates[1], gamma_s=rates[2], fit_error_frac=error)


def read_timings(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens, squares, seconds), each [M], from a CSV with ``seconds`` and ``tokens`` (or ``length``).

    ``sum_len2`` holds the sum of squared document lengths; without it each sample is one document.
    """
    if not path.is_file():
        raise InputError("--timings", str(path), "a file that exists")
    rows = csv_rows(read_text(path, "timings with seconds and tokens"), str(path))
    names = set(rows[0]) if rows else set()
    token_name = "tokens" if "tokens" in names else "length"
    if not rows or token_name not in names or "seconds" not in names:
        raise InputError(f"{path}: columns", sorted(names), "tokens (or length), seconds, optionally sum_len2")
    try:
        tokens = np.array([float(row[token_name]) for row in rows])
        seconds = np.array([float(row["seconds"]) for row in rows])
        squares = np.array([float(row["sum_len2"]) for row in rows]) if "sum_len2" in names else tokens**2
    except (TypeError, ValueError) as error:
        raise InputError(str(path), str(error), "numbers in every row") from None
    return tokens, squares, seconds

"""What failures and checkpoints take of a job, apart from the pure step time."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Llama 3 405B: 419 unexpected interruptions in 54 days of 16,384 H100 (Grattafiori et al. 2024, "The Llama 3 Herd of
# Models", arXiv 2407.21783, section 3.3.4): 50,676 hours between failures per card.
MTBF_HOURS_PER_CARD = 54 * 24 * 16384 / 419
# Stated by the user or assumed: what a storage takes in from the whole job, and how long until training goes on.
# Llama 3's Tectonic: 2 TB/s sustained for up to 7,500 servers (same paper, section 3.3.1); 0.1 TB/s is a modest cluster's.
CHECKPOINT_BYTES_PER_S = 100e9
RESTART_S = 600.0
STATE_BYTES = 14.0  # a parameter in a checkpoint: 16-bit weight, fp32 master and two moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """``mtbf_hours_per_card``: mean time between failures that stop the job; the rest as named."""

    mtbf_hours_per_card: float = MTBF_HOURS_PER_CARD
    checkpoint_bytes_per_s: float = CHECKPOINT_BYTES_PER_S
    restart_s: float = RESTART_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """``frac``: share of wall time that trains; the interval is between checkpoints."""

    frac: float
    mtbf_s: float  # of the whole job
    checkpoint_s: float
    interval_s: float


def optimal_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Training time between checkpoints that wastes least. Source: Daly, FGCS 22(3), 2006, equation 37; its first term is
    Young's (CACM 17(9), 1974)."""
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    x = checkpoint_s / (2 * mtbf_s)
    return math.sqrt(2 * checkpoint_s * mtbf_s) * (1 + math.sqrt(x) / 3 + x / 9) - checkpoint_s


def goodput(parameters: float, cards: int, reliability: Reliability) -> Goodput:
    """Expected share of the time that trains, with failures at exponential times, a checkpoint after each interval, and
    a restart that may itself fail: interval / (M e^(R/M) (e^((interval + C)/M) - 1)) (Daly 2006, equation 20)."""
    mtbf = reliability.mtbf_hours_per_card * 3600.0 / cards
    saving = parameters * STATE_BYTES / reliability.checkpoint_bytes_per_s
    interval = optimal_interval_s(saving, mtbf)
    exponents = (reliability.restart_s / mtbf, (interval + saving) / mtbf)
    wall = math.inf if max(exponents) > 500 else mtbf * math.exp(exponents[0]) * math.expm1(exponents[1])
    return Goodput(frac=interval / wall, mtbf_s=mtbf, checkpoint_s=saving, interval_s=interval)

"""What binds a strategy: the memory of a card, or the largest part of the step that is not useful computing."""

from __future__ import annotations

from collections.abc import Mapping

MEMORY_BINDS_FRAC = 0.92  # of the cap: above it the next larger micro-batch or a little less recompute does not fit
COST_BINDS_FRAC = 0.10  # of the step

WORDS = {
    "tp_comm": "TP communication",
    "ep_comm": "EP communication",
    "cp_comm": "CP communication",
    "dp_comm": "DP communication",
    "pp_comm": "PP communication",
    "bubble": "bubble",
    "recompute": "recompute",
    "optimizer": "optimizer",
    "overhead": "host overhead",
    "straggler": "slowest card",
}


def binds(
    time_s: Mapping[str, float],
    step_s: float,
    peak_bytes: float,
    cap_bytes: float,
    memory_rank: int,
    critical_rank: int,
) -> str:
    """In few words, such as "memory on rank 2" or "EP communication"."""
    if peak_bytes > cap_bytes:
        return f"does not fit: rank {memory_rank}"
    if peak_bytes >= MEMORY_BINDS_FRAC * cap_bytes:
        return f"memory on rank {memory_rank}"
    lost = {cause: seconds for cause, seconds in time_s.items() if cause in WORDS}
    cause = max(lost, key=lambda name: lost[name], default="")
    if cause and lost[cause] >= COST_BINDS_FRAC * step_s:
        return WORDS[cause]
    return f"computing on rank {critical_rank}"

"""How many micro-batches of each chunk a pipeline rank holds at once: what the memory cap multiplies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """``rows[r]`` [T, V]: the counts by chunk that rank r holds at its T worst moments; none covers another.

    The rank fits if every row times its chunks' activation bytes, plus static bytes, stays under the cap.
    """

    rows: tuple[np.ndarray, ...]

    @property
    def ranks(self) -> int:
        return len(self.rows)

    @property
    def chunks(self) -> int:
        return self.rows[0].shape[1]


def in_flight_counts(pp: int, vpp: int, micro_batches: int, group: int = 0, extra_warmup: int = 0) -> InFlight:
    """1F1B (``vpp`` 1) and interleaved 1F1B in groups of ``group`` micro-batches (default ``pp``).

    Rank r runs ``min(m*v, 2*(p-r-1) + (v-1)*G + extra)`` forward chunks (1F1B: p-r-1), then one forward, one
    backward in turn. Source: Megatron-LM, megatron/core/pipeline_parallel/schedules.py.
    """
    for name, value, least in (("pp", pp, 1), ("vpp", vpp, 1), ("micro_batches", micro_batches, 1)):
        if value < least:
            raise InputError(name, value, f"a whole number >= {least}")
    group = group or min(pp, micro_batches)
    if vpp > 1 and micro_batches < pp:
        raise InputError("micro_batches", micro_batches, f">= PP ({pp}) for an interleaved schedule")
    rows = []
    for rank in range(pp):
        warmup = pp - rank - 1 if vpp == 1 else 2 * (pp - rank - 1) + (vpp - 1) * group + extra_warmup
        rows.append(_worst_moments(_replay(vpp, micro_batches, group, min(warmup, micro_batches * vpp))))
    return InFlight(rows=tuple(rows))


def _chunk_order(vpp: int, micro_batches: int, group: int) -> list[int]:
    """Chunk of each forward in turn: groups of micro-batches, chunk by chunk. Length m * v."""
    order: list[int] = []
    for start in range(0, micro_batches, group):
        for chunk in range(vpp):
            order += [chunk] * min(group, micro_batches - start)
    return order


def _replay(vpp: int, micro_batches: int, group: int, warmup: int) -> np.ndarray:
    """Micro-batches in flight by chunk after each forward, [m * v, V]."""
    forward = _chunk_order(vpp, micro_batches, group)
    held = np.zeros(vpp, dtype=np.int64)
    moments = np.empty((len(forward), vpp), dtype=np.int64)
    for step, chunk in enumerate(forward):
        held[chunk] += 1
        moments[step] = held
        if step >= warmup:
            held[vpp - 1 - forward[step - warmup]] -= 1
    return moments


def _worst_moments(moments: np.ndarray) -> np.ndarray:
    moments = np.unique(moments, axis=0)
    covered = (moments[None] >= moments[:, None]).all(axis=2) & ~np.eye(len(moments), dtype=bool)
    return moments[~covered.any(axis=1)]

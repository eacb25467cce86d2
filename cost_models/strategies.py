"""Strategies as struct of arrays: the unit that every cost function broadcasts over.

Axes: N strategies, S = pp * vpp virtual stages, K layer kinds of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.errors import ConfigError
from cost_models.records import record
from cost_models.schedules.table import SCHEDULE_TABLE

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

SCHEDULES = tuple(SCHEDULE_TABLE)
SCHEDULE_CODE = {name: code for code, name in enumerate(SCHEDULES)}

# How expert tokens travel. flat: one all-to-all over the whole group. hierarchical-allgather: variant (a), a token goes once
# to every other node, then fans out. hierarchical-dedup: variant (b), only to nodes that hold one of its experts.
DISPATCHERS = ("alltoall", "allgather", "hierarchical-allgather", "hierarchical-dedup")
DISPATCHER_CODE = {name: code for code, name in enumerate(DISPATCHERS)}

# Recompute is a bit mask over modules, so that variants are data.
RECOMPUTE_MODULES = ("core_attn", "moe_act", "mla_up_proj", "layernorm", "mlp", "moe", "full")
RECOMPUTE_BIT = {name: 1 << i for i, name in enumerate(RECOMPUTE_MODULES)}


def recompute_mask(modules: Sequence[str]) -> int:
    """Bit mask of recompute modules; empty: none."""
    mask = 0
    for module in modules:
        if module not in RECOMPUTE_BIT:
            raise ConfigError("recompute", module, f"among {', '.join(RECOMPUTE_MODULES)}")
        mask |= RECOMPUTE_BIT[module]
    return mask


def recompute_modules(mask: int) -> tuple[str, ...]:
    return tuple(name for name in RECOMPUTE_MODULES if mask & RECOMPUTE_BIT[name])


@record(kw_only=False, eq=False)
class Layout:
    """Which layers sit on which virtual stage.

    ``counts`` [S, K + 3]: layers of each kind, then embedding, MTP modules, head (loss). Virtual stage s is chunk
    s // pp on rank s % pp, except for V-shaped schedules, where chunk 1 is placed in reverse (rank 2p - 1 - s).
    ``text`` is what an exporter prints ("" for the default split); ``key`` names it in the strategy notation.
    """

    pp: int
    vpp: int
    counts: F64
    text: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if self.counts.shape[0] != self.pp * self.vpp:
            raise ConfigError(
                "Layout.counts", self.counts.shape, f"one row for each of pp * vpp = {self.pp * self.vpp} stages"
            )

    @property
    def layers_per_stage(self) -> F64:
        """Decoder layers of each virtual stage, [S]."""
        return self.counts[:, :-3].sum(axis=1)


@record(eq=False)
class StrategyBatch:
    """N strategies. All arrays [N]. ``layout`` indexes ``layouts``; 0 in ``micro_batch_group`` means pp."""

    tp: I64
    pp: I64
    vpp: I64
    cp: I64
    ep: I64
    etp: I64
    dp: I64
    micro_batch: I64
    micro_batch_group: I64
    zero_stage: I64
    sequence_parallel: Bool
    recompute: I64  # bit mask, RECOMPUTE_BIT
    recompute_layers: I64  # layers per virtual stage that "full" covers; 0: all of them
    schedule: I64  # index into SCHEDULES
    dispatcher: I64  # index into DISPATCHERS
    ep_overlap: Bool  # expert communication of one micro-batch under computing of another
    offload_frac: F64  # share of the optimizer state kept on the host
    swap_frac: F64  # share of the attention half's saved activations swapped to the host
    layout: I64
    layouts: tuple[Layout, ...]

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def devices(self) -> I64:
        return self.tp * self.pp * self.cp * self.dp

    @property
    def expert_dp(self) -> I64:
        """Expert data parallel size: devices / (etp * ep * pp)."""
        return np.maximum(self.devices // (self.etp * self.ep * self.pp), 1)

    def micro_batches(self, global_batch: int) -> I64:
        """Micro-batches per step on each data-parallel rank."""
        return global_batch // (self.micro_batch * self.dp)

    def take(self, index: NDArray[np.intp] | Bool | slice) -> StrategyBatch:
        """The strategies at ``index`` (anything that numpy indexes with), sharing the layout table."""
        arrays = {f.name: getattr(self, f.name)[index] for f in fields(self) if f.name != "layouts"}
        return replace(self, **arrays)

    @staticmethod
    def concatenate(batches: Sequence[StrategyBatch]) -> StrategyBatch:
        """One batch; layout tables are joined."""
        offsets = np.cumsum([0] + [len(b.layouts) for b in batches[:-1]])
        arrays = {
            f.name: np.concatenate([getattr(b, f.name) for b in batches])
            for f in fields(StrategyBatch)
            if f.name not in ("layouts", "layout")
        }
        layout = np.concatenate([b.layout + o for b, o in zip(batches, offsets, strict=True)])
        layouts = tuple(item for b in batches for item in b.layouts)
        return StrategyBatch(**arrays, layout=layout, layouts=layouts)


@record(eq=False)
class Ladder:
    """R ways to trade time for memory, from none to the most; arrays [R], or [B, R] where bases differ."""

    recompute: I64  # bit mask
    recompute_layers: I64
    swap_frac: F64
    offload_frac: F64

    def __len__(self) -> int:
        return int(self.recompute.shape[-1])

    def take(self, rows: I64 | slice) -> Ladder:
        """Of some of the bases."""
        return self._each(lambda value: value if value.ndim == 1 else value[rows])

    def part(self, rungs: slice) -> Ladder:
        """Some of the rungs."""
        return self._each(lambda value: value[..., rungs])

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Ladder:
        return Ladder(**{each.name: change(getattr(self, each.name)) for each in fields(self)})

    def rung_by_rung(self, bases: StrategyBatch) -> StrategyBatch:
        """All bases under the first rung, then all under the next: row r * B + b, [R * B]."""
        shape = (len(bases), len(self))
        every = bases if len(self) == 1 else bases.take(np.tile(np.arange(len(bases)), len(self)))
        columns: dict[str, Any] = {
            each.name: np.broadcast_to(getattr(self, each.name), shape).T.reshape(-1) for each in fields(self)
        }
        return replace(every, **columns)

    def expand(self, bases: StrategyBatch) -> StrategyBatch:
        """Bases x ladder, base by base: row b * R + r, [B * R]."""
        count = len(bases)
        batch = bases.take(np.repeat(np.arange(count), len(self)))
        shape = (count, len(self))
        columns: dict[str, Any] = {
            each.name: np.broadcast_to(getattr(self, each.name), shape).reshape(-1) for each in fields(self)
        }
        return replace(batch, **columns)


def single(
    *, layout: Layout, tp: int = 1, pp: int = 1, vpp: int = 1, cp: int = 1, ep: int = 1, etp: int = 1, dp: int = 1,
    micro_batch: int = 1, micro_batch_group: int = 0, zero_stage: int = 1, sequence_parallel: bool | None = None,
    recompute: int = 0, recompute_layers: int = 0, schedule: str = "1f1b", dispatcher: str = "alltoall",
    ep_overlap: bool = False, offload_frac: float = 0.0, swap_frac: float = 0.0,
) -> StrategyBatch:  # fmt: skip
    """A batch of length 1: there is one code path."""
    ints = {
        "tp": tp, "pp": pp, "vpp": vpp, "cp": cp, "ep": ep, "etp": etp, "dp": dp, "micro_batch": micro_batch,
        "micro_batch_group": micro_batch_group, "zero_stage": zero_stage, "recompute": recompute,
        "recompute_layers": recompute_layers, "schedule": SCHEDULE_CODE[schedule], "dispatcher": DISPATCHER_CODE[dispatcher],
        "layout": 0,
    }  # fmt: skip
    arrays: dict[str, NDArray] = {name: np.array([value], dtype=np.int64) for name, value in ints.items()}
    sp = (tp > 1) if sequence_parallel is None else sequence_parallel
    return StrategyBatch(
        **arrays, sequence_parallel=np.array([sp]), ep_overlap=np.array([ep_overlap]),
        offload_frac=np.array([offload_frac]), swap_frac=np.array([swap_frac]), layouts=(layout,),
    )  # fmt: skip

"""Core points: TP, PP, CP, EP, ETP, DP and micro-batch, on the cards there are; and the VPP values of each PP.

Axes: C core points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from autodeploy.strategy.axes import Axes, Between, among
from autodeploy.strategy.backends import Backend
from autodeploy.strategy.layout import Placing, first_layout, parse_layout
from autodeploy.strategy.rules import RULES, check
from autodeploy.strategy.rules_world import WORLD_RULES, node_cards
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import I64, Bool, Layout, StrategyBatch, single

MAX_VPP = 8  # that a free search tries
MIN_TOKENS_PER_CP_RANK = 2048  # that a free search leaves to a context-parallel rank (MindSpeed's tuner asks 4K to 8K)
MICRO_BATCHES = (1, 2, 4, 8)
PADDING = 1.35  # largest stage x stages over layers: beyond it VPP cuts the model into mostly idle slots


@dataclass(frozen=True, slots=True, eq=False)
class CorePoints:
    """C core points, whatever their VPP; arrays [C]."""

    pp: I64
    tp: I64
    cp: I64
    ep: I64
    etp: I64
    dp: I64
    micro_batch: I64

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def devices(self) -> I64:
        return self.tp * self.pp * self.cp * self.dp

    def take(self, index: NDArray[np.intp] | Bool | slice) -> CorePoints:
        return CorePoints(**{each.name: getattr(self, each.name)[index] for each in fields(self)})

    @staticmethod
    def concatenate(parts: Sequence[CorePoints]) -> CorePoints:
        names = [each.name for each in fields(CorePoints)]
        return CorePoints(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def plain(self) -> StrategyBatch:
        """The points with default options and nothing said of VPP and layout, [C]."""
        batch = single(layout=_UNSAID).take(np.zeros(len(self), dtype=np.intp))
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(batch, **columns, sequence_parallel=self.tp > 1)


_UNSAID = Layout(pp=1, vpp=1, counts=np.zeros((1, 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a space is made for; ``sizes``: numbers of cards."""

    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    sizes: tuple[int, ...]
    backend: Backend
    axes: Axes


def core_points(asked: Asked, times: Callable[[int], int], rejected: Counter[str]) -> CorePoints:
    """Core points that the rules of division allow, by number of cards and PP. ``rejected`` counts the others, each as
    often as ``times`` says for its PP: once for each VPP that it goes with."""
    grids = [_grid(asked, devices, [pp for pp in pipeline_sizes(asked.model, devices, asked.axes) if times(pp)])
             for devices in asked.sizes]  # fmt: skip
    if not grids:
        return CorePoints(*np.zeros((7, 0), dtype=np.int64))
    core = CorePoints.concatenate(grids)
    codes = check(
        asked.model, asked.hardware, asked.workload, core.plain(), asked.backend.name,
        devices=np.repeat(asked.sizes, [len(grid) for grid in grids]), soft=asked.axes.tp is None, among=WORLD_RULES,
    )  # fmt: skip
    out = np.flatnonzero(codes)
    pps, place = np.unique(core.pp[out], return_inverse=True)
    counted = np.bincount(codes[out], weights=np.array([times(pp) for pp in pps.tolist()], dtype=np.int64)[place])
    for code in np.flatnonzero(counted):
        rejected[RULES[code - 1].name] += int(counted[code])
    return core.take(codes == 0)


def divisors(number: int) -> list[int]:
    low = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*low, *(number // d for d in low)})


def pipeline_sizes(model: ModelSpec, devices: int, axes: Axes) -> list[int]:
    return among(axes.pp, [pp for pp in divisors(devices) if pp <= model.num_layers + 2])


def stage_cuts(
    model: ModelSpec, pp: int, backend: Backend, axes: Axes, rejected: Counter[str]
) -> list[tuple[int, Layout]]:
    """VPP values with a layout. Free: the smallest for each size of the largest stage, and not mostly padding."""
    named = axes.vpp is not None and not isinstance(axes.vpp, Between)
    found: dict[int, tuple[int, Layout]] = {}
    for vpp in among(axes.vpp, range(1, (MAX_VPP if pp > 1 and axes.vpp is None else model.num_layers) + 1)):
        if vpp > 1 and pp == 1 and not named:
            continue
        v_shaped = vpp == 2 and not any(SCHEDULE_TABLE[s].grouped for s in axes.schedule or backend.search_schedules)
        layout: Layout | None
        if axes.layout is not None and any(axes.layout):
            layout = parse_layout(next(filter(None, axes.layout)), model, pp, vpp)
        else:
            layout = first_layout(model, pp, vpp, backend.name, Placing(v_shaped))
        if layout is None:
            rejected["layout"] += 1
            continue
        largest = int(layout.layers_per_stage.max())
        padded = largest * pp * vpp > PADDING * (model.num_layers + 2)
        if named or vpp == 1 or (largest not in found and not padded) or (vpp == 2 and _v_only(backend, axes)):
            found.setdefault(largest if not named else -vpp, (vpp, layout))
    return list(found.values())


def _v_only(backend: Backend, axes: Axes) -> bool:
    return axes.schedule is not None and all(SCHEDULE_TABLE[name].v_shaped for name in axes.schedule)


def _grid(asked: Asked, devices: int, pps: Sequence[int]) -> CorePoints:
    """All combinations of PP, TP, CP, EP, ETP and micro-batch candidates, [C]. DP follows; 0 where it is no number."""
    model, axes = asked.model, asked.axes
    tps = among(axes.tp, _tensor_sizes(model, asked.hardware, devices))
    cps = among(axes.cp, _context_sizes(asked.workload, devices))
    experts = max((k.feed_forward.experts for k in model.kinds if k.feed_forward), default=0)
    eps = among(axes.ep, divisors(experts) if experts else [1])
    etps = among(axes.etp, {1, *tps} if experts else [1])
    sizes = (tps, cps, eps, etps, among(axes.micro_batch, MICRO_BATCHES))
    columns = _combined(axes.etp is None, *map(tuple, sizes))
    pp = np.repeat(np.array(pps, dtype=np.int64), columns.shape[1])
    tp, cp, ep, etp, micro_batch = np.tile(columns, len(pps))
    inner = tp * cp * pp
    dp = np.where(devices % inner == 0, devices // inner, 0)
    core = CorePoints(pp=pp, tp=tp, cp=cp, ep=ep, etp=etp, dp=dp, micro_batch=micro_batch)
    if isinstance(axes.dp, Between):
        return core.take((dp >= axes.dp.low) & (dp <= axes.dp.high))
    return core if axes.dp is None else core.take(np.isin(dp, axes.dp))


@lru_cache(maxsize=256)
def _combined(etp_as_tp: bool, *sizes: tuple[int, ...]) -> I64:
    """All combinations of TP, CP, EP, ETP and micro-batch, [5, C]. ``etp_as_tp``: experts are unsharded, or sharded as
    attention is."""
    columns = np.stack([axis.reshape(-1) for axis in np.meshgrid(*sizes, indexing="ij")]).astype(np.int64)
    etp, tp = columns[3], columns[0]
    return columns[:, (etp == 1) | (etp == tp)] if etp_as_tp else columns


def _tensor_sizes(model: ModelSpec, hardware: HardwareProfile, devices: int) -> list[int]:
    """Divisors of the heads, up to one doubling beyond the node (where the rule names them)."""
    heads = max((k.attention.query_heads for k in model.kinds if k.attention), default=1)
    return [tp for tp in divisors(heads) if tp <= min(2 * node_cards(hardware), devices)]


def _context_sizes(workload: Workload, devices: int) -> list[int]:
    sizes = [1]
    while 2 * sizes[-1] <= devices and workload.seq_length >= 2 * sizes[-1] * MIN_TOKENS_PER_CP_RANK:
        sizes.append(2 * sizes[-1])
    return sizes

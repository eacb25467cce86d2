"""The space of valid strategies as core x options, in batches.

Core: TP PP VPP CP EP ETP DP MBS. Options: schedule, overlap, layout, dispatcher, ZeRO stage, recompute, swap, offload.
Axes: N strategies, C core points, O options of a (PP, VPP) pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from autodeploy.errors import InputError
from autodeploy.strategy.axes import Axes, among
from autodeploy.strategy.backends import Backend, backend_named
from autodeploy.strategy.core import CorePoints, core_points
from autodeploy.strategy.options import Relief, Run, dispatchers, reliefs, runs, zero_stages
from autodeploy.strategy.prune import DEVIATIONS, DOMINATED, groups, static_floor_bytes
from autodeploy.strategy.rule import Proposal
from autodeploy.strategy.rules import RULES, check
from autodeploy.strategy.rules_torchtitan import micro_batches_per_round
from cost_models.inputs import HardwareProfile, ModelSpec, Workload
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import DISPATCHER_CODE, I64, SCHEDULE_CODE, Bool, Layout, StrategyBatch

CHUNK = 16384  # strategies in one batch

Fits = Callable[[StrategyBatch], Bool]  # whether each strategy fits its card, [N]


@dataclass(slots=True)
class SpaceCounts:
    """Filled while the space is walked."""

    core: int = 0  # valid core points
    enumerated: int = 0  # strategies yielded
    pruned: Counter[str] = field(default_factory=Counter)  # by statement: strategies not yielded (audit: yielded too)
    rejected: Counter[str] = field(default_factory=Counter)  # by rule: core points or strategies it excludes


@dataclass(slots=True)
class SpaceChunks:
    """Batches of at most ``CHUNK`` strategies; iterate it once. ``counts`` grows on the way."""

    batches: Iterator[StrategyBatch]
    counts: SpaceCounts

    def __iter__(self) -> Iterator[StrategyBatch]:
        return self.batches


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    model: ModelSpec
    hardware: HardwareProfile
    workload: Workload
    devices: int
    backend: Backend
    axes: Axes
    audit: bool
    keep_oversized: bool
    fits: Fits | None
    counts: SpaceCounts

    def case(self, batch: StrategyBatch) -> Proposal:
        return Proposal(
            model=self.model, hardware=self.hardware, workload=self.workload, batch=batch, backend=self.backend,
            devices=self.devices,
        )  # fmt: skip


def enumerate_space(
    model: ModelSpec,
    hardware: HardwareProfile,
    workload: Workload,
    devices: int,
    backend: str,
    axes: Axes | None = None,
    *,
    audit: bool = False,
    keep_oversized: bool = False,
    fits: Fits | None = None,
) -> SpaceChunks:
    """Every valid strategy of ``devices`` cards within ``axes``.

    ``audit`` also yields what is pruned. ``keep_oversized`` keeps core points whose weights alone exceed the card (to
    name the nearest misses). ``fits``, where given, prunes recompute, swap and offload where the plain strategy fits,
    and all but the most frugal where not even that one does.
    """
    if devices < 1:
        raise InputError("--devices", devices, "a whole number of cards >= 1")
    counts = SpaceCounts()
    request = _Request(
        model=model, hardware=hardware, workload=workload, devices=devices, backend=backend_named(backend),
        axes=axes or Axes(), audit=audit, keep_oversized=keep_oversized or audit, fits=None if audit else fits,
        counts=counts,
    )  # fmt: skip
    return SpaceChunks(_chunks(_walk(request), counts), counts)


def _chunks(parts: Iterator[StrategyBatch], counts: SpaceCounts) -> Iterator[StrategyBatch]:
    """Joins small batches and cuts large ones."""
    waiting: list[StrategyBatch] = []
    held = 0
    for part in parts:
        waiting.append(part)
        held += len(part)
        while held >= CHUNK:
            batch = StrategyBatch.concatenate(waiting) if len(waiting) > 1 else waiting[0]
            counts.enumerated += CHUNK
            yield batch.take(slice(0, CHUNK))
            rest = batch.take(slice(CHUNK, None))
            waiting, held = ([rest], len(rest)) if len(rest) else ([], 0)
    if held:
        counts.enumerated += held
        yield StrategyBatch.concatenate(waiting) if len(waiting) > 1 else waiting[0]


def _walk(request: _Request) -> Iterator[StrategyBatch]:
    for core in core_points(
        request.model, request.hardware, request.workload, request.devices, request.backend, request.axes,
        request.counts.rejected,
    ):  # fmt: skip
        request.counts.core += len(core)
        ways = runs(request.model, request.backend, request.axes, core.pp, core.vpp)
        if not ways:
            request.counts.rejected["schedule-chunks"] += len(core)
            continue
        stages = core.pp * core.vpp
        ladder = reliefs(
            request.model, request.workload, request.backend, request.axes, -(-request.model.num_layers // stages)
        )
        rows = list(
            product(
                ways,
                dispatchers(request.model, request.backend, request.axes),
                zero_stages(request.backend, request.axes, core.pp),
            )
        )
        core = _without_oversized(request, core, rows, ladder)
        step = max(1, CHUNK // max(len(rows) * len(ladder), 1))
        for start in range(0, len(core), step):
            yield from _expand(request, core.take(slice(start, start + step)), rows, ladder)


def _without_oversized(
    request: _Request, core: CorePoints, rows: Sequence[tuple[Run, str, int]], ladder: Sequence[Relief]
) -> CorePoints:
    """Drops core points whose weights and gradients alone exceed the card under the most frugal option."""
    zero = max((stage for _, _, stage in rows), default=1)
    offload = max(relief.offload_frac for relief in ladder)
    floor = static_floor_bytes(request.model, request.workload, core.plain(rows[0][0].layout), zero, offload)
    too_large = floor > request.hardware.usable_bytes
    request.counts.pruned["weights-exceed-card"] += int(too_large.sum()) * len(rows) * len(ladder)
    return core if request.keep_oversized else core.take(~too_large)


# ------------------------------------------------------------------------------------------------ expansion


def _expand(
    request: _Request, core: CorePoints, rows: Sequence[tuple[Run, str, int]], ladder: Sequence[Relief]
) -> Iterator[StrategyBatch]:
    """Core points x rows x ladder, checked and pruned."""
    base = _valid(request, _with_rows(request, core, rows))
    if not len(base):
        return
    batches: Iterable[StrategyBatch]
    if request.fits is None or len(ladder) < 2 or not ladder[0].none:
        batches = [_valid(request, _with_ladder(base, ladder))]
    else:
        batches = _by_need(request, base, ladder, request.fits)
    for batch in batches:
        if len(batch):
            yield batch
            yield from _deviations(request, batch)


def _with_rows(request: _Request, core: CorePoints, rows: Sequence[tuple[Run, str, int]]) -> StrategyBatch:
    """Core points x rows, without relief, [C * O]."""
    table: dict[int, int] = {}
    layouts: list[Layout] = []
    for run, _, _ in rows:
        if id(run.layout) not in table:
            table[id(run.layout)] = len(layouts)
            layouts.append(run.layout)
    plain = core.plain(layouts[0]).take(np.repeat(np.arange(len(core)), len(rows)))

    def column(values: Sequence[int] | Sequence[bool]) -> I64:
        return np.tile(np.array(values), len(core))

    batch = replace(
        plain,
        schedule=column([SCHEDULE_CODE[run.schedule] for run, _, _ in rows]),
        ep_overlap=column([run.ep_overlap for run, _, _ in rows]).astype(bool),
        layout=column([table[id(run.layout)] for run, _, _ in rows]),
        dispatcher=column([DISPATCHER_CODE[name] for _, name, _ in rows]),
        zero_stage=column([stage for _, _, stage in rows]),
        layouts=tuple(layouts),
    )
    return _with_axes(request, batch)


def _with_axes(request: _Request, batch: StrategyBatch) -> StrategyBatch:
    """Micro-batch groups and sequence parallel: the default, or what the user names."""
    case = request.case(batch)
    if request.axes.micro_batch_group is None:
        if request.backend.name == "torchtitan":
            smallest = micro_batches_per_round(case.micro_batches, batch.pp)
        else:
            smallest, _ = groups(case.micro_batches, batch.pp)
        looped = np.array([schedule.grouped for schedule in SCHEDULE_TABLE.values()])[batch.schedule]
        batch = replace(batch, micro_batch_group=np.where(looped & (smallest != batch.pp), smallest, 0))
    else:
        most = int(case.micro_batches.max(initial=1))
        values = among(request.axes.micro_batch_group, range(1, most + 1))
        batch = StrategyBatch.concatenate(
            [replace(batch, micro_batch_group=np.full(len(batch), value)) for value in values]
        )
    if request.axes.sequence_parallel is not None:
        wanted = request.axes.sequence_parallel
        batch = StrategyBatch.concatenate([replace(batch, sequence_parallel=np.full(len(batch), sp)) for sp in wanted])
    return batch


def _with_ladder(base: StrategyBatch, ladder: Sequence[Relief]) -> StrategyBatch:
    count = len(base)
    batch = base.take(np.repeat(np.arange(count), len(ladder)))
    return replace(
        batch,
        recompute=np.tile(np.array([relief.mask for relief in ladder], dtype=np.int64), count),
        recompute_layers=np.tile(np.array([relief.layers for relief in ladder], dtype=np.int64), count),
        swap_frac=np.tile(np.array([relief.swap_frac for relief in ladder]), count),
        offload_frac=np.tile(np.array([relief.offload_frac for relief in ladder]), count),
    )


def _valid(request: _Request, batch: StrategyBatch) -> StrategyBatch:
    """Without what a rule rejects, and (unless audited) without what another strategy of the expansion dominates."""
    codes = check(
        request.model, request.hardware, request.workload, batch, request.backend.name, devices=request.devices
    )
    for code, count in zip(*np.unique(codes[codes > 0], return_counts=True), strict=True):
        request.counts.rejected[RULES[code - 1].name] += int(count)
    batch = batch.take(codes == 0)
    if request.axes.dispatcher is not None:
        return batch  # the user chose
    case, keep = request.case(batch), np.ones(len(batch), dtype=bool)
    for statement in DOMINATED:
        holds = keep & statement.holds(case)
        request.counts.pruned[statement.name] += int(holds.sum())
        keep &= ~holds
    return batch if request.audit else batch.take(keep)


def _by_need(request: _Request, base: StrategyBatch, ladder: Sequence[Relief], fits: Fits) -> Iterator[StrategyBatch]:
    """The plain strategies; more relief only where they do not fit and where some relief does."""
    plain = fits(base)
    yield base
    request.counts.pruned["relief-not-needed"] += int(plain.sum()) * (len(ladder) - 1)
    needy = base.take(~plain)
    if not len(needy):
        return
    frugal = _valid(request, _with_ladder(needy, ladder[-1:]))
    if len(frugal) < len(needy):  # a rule excludes the most frugal for some: no statement about those
        yield _valid(request, _with_ladder(needy, ladder[1:]))
        return
    possible = fits(frugal)
    yield frugal
    request.counts.pruned["no-relief-fits"] += int((~possible).sum()) * (len(ladder) - 2)
    if possible.any() and len(ladder) > 2:
        yield _valid(request, _with_ladder(needy.take(possible), ladder[1:-1]))


def _deviations(request: _Request, batch: StrategyBatch) -> Iterator[StrategyBatch]:
    """Counts the dominated strategies one step away; yields them when audited."""
    case = request.case(batch)
    for deviation in DEVIATIONS:
        if _asked_for(request.axes, deviation.name):
            continue
        where = deviation.where(case)
        request.counts.pruned[deviation.name] += int(where.sum())
        if request.audit and where.any():
            stepped = batch.take(where)
            yield deviation.step(stepped, request.case(stepped))


def _asked_for(axes: Axes, name: str) -> bool:
    """A user who names values of the axis gets these, and nothing besides."""
    given = {"zero-0": axes.zero}
    return given[name] is not None

"""``calibrate``: every curve that the measurements determine, on top of a base profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodeploy.calibrate.curves import gemm_s, grouped_gemm_s
from autodeploy.calibrate.entries import Entry, entry
from autodeploy.calibrate.fit_compute import fit_attention, fit_gemm, fit_grouped_gemm, layout_factor, take
from autodeploy.calibrate.fit_network import fit_inter, fit_intra
from autodeploy.calibrate.fit_runs import fit_runs, run_predictor, scaled_entries
from autodeploy.calibrate.fitting import FitError
from autodeploy.calibrate.log_run import run_of_log
from autodeploy.calibrate.measurements import (
    AttentionTable,
    CollectiveTable,
    GemmTable,
    GroupedGemmTable,
    IterationLog,
    MoeTable,
    Table,
)
from autodeploy.errors import InputError
from autodeploy.hardware.build import build_profile
from autodeploy.hardware.document import merge, plain
from cost_models.inputs import HardwareProfile, Tier

MIN_ROWS = 4  # of a table that a curve is fitted to


@dataclass(frozen=True, slots=True)
class Fitted:
    """One curve: where it goes in the ``fits`` section, its entry there, its error."""

    path: tuple[str, ...]
    entry: Entry
    error: FitError


@dataclass(frozen=True, slots=True)
class Runs:
    """Measured training runs (``autodeploy.accuracy.Run``) and the shapes of their models by name."""

    runs: tuple[Any, ...]
    models: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the measurements gave. ``skipped`` says why a table was not used."""

    base: str
    fitted: tuple[Fitted, ...]
    skipped: tuple[tuple[str, str], ...]  # (table, reason)

    @property
    def fits(self) -> dict[str, Any]:
        """The nested ``fits`` section."""
        section: dict[str, Any] = {}
        for one in self.fitted:
            node = section
            for key in one.path[:-1]:
                node = node.setdefault(key, {})
            node[one.path[-1]] = one.entry
        return section


def calibrate(tables: Sequence[Table], base: dict[str, Any], runs: Runs | None = None) -> Calibration:
    """Fits every table to the device and tiers of ``base`` (a profile document, ``hardware.document.read_document``).

    Of several tables for one curve the one with the smallest median error is kept. Training logs and ``runs`` are
    fitted last, on top of the tables.
    """
    tables = _joined(tables)
    fitted: tuple[Fitted, ...] = ()
    skipped: list[tuple[str, str]] = []
    for kind, fit_kind in _STAGES:
        profile = _with(base, fitted)  # later stages build on earlier ones: grouped GEMMs on GEMMs, nodes on links
        found: list[Fitted] = []
        for table in (table for table in tables if isinstance(table, kind)):
            if table.seconds.size < MIN_ROWS:
                skipped.append((table.source, f"{table.seconds.size} rows: a fit needs at least {MIN_ROWS}"))
                continue
            try:
                found += fit_kind(table, tables, profile)
            except _NotUsed as unused:
                skipped.append((table.source, str(unused)))
        fitted = _best(found, fitted)
    logs = [table for table in tables if isinstance(table, IterationLog)]
    if logs or runs:
        on_top, reasons = _fit_to_runs(logs, runs or Runs((), {}), _with(base, fitted))
        fitted = _best([*on_top], tuple(one for one in fitted if one.path not in {other.path for other in on_top}))
        skipped += reasons
    if not fitted:
        reason = "; ".join(f"{source}: {why}" for source, why in skipped) or "no table"
        raise InputError("measurements", reason, "at least one table that determines a curve")
    return Calibration(base["name"], fitted, tuple(dict.fromkeys(skipped)))


def _joined(tables: Sequence[Table]) -> list[Table]:
    """Prints of one group size each become one table of their operation: together they tell latency by ranks."""
    prints: dict[str, list[CollectiveTable]] = {}
    others: list[Table] = []
    for table in tables:
        if isinstance(table, CollectiveTable) and table.nodes == 1 and np.unique(table.ranks).size == 1:
            prints.setdefault(table.op, []).append(table)
        else:
            others.append(table)
    return [*others, *(_concatenated(same) for same in prints.values())]


def _concatenated(tables: Sequence[CollectiveTable]) -> CollectiveTable:
    columns = ("ranks", "message_bytes", "seconds")
    joined: dict[str, Any] = {name: np.concatenate([getattr(table, name) for table in tables]) for name in columns}
    return dataclasses.replace(tables[0], source="; ".join(table.source for table in tables), **joined)


def _with(base: dict[str, Any], fitted: tuple[Fitted, ...]) -> HardwareProfile:
    """The base profile with the curves fitted so far."""
    tables_only = {key: value for key, value in base.items() if key != "training"}  # tables are of isolated operators
    return build_profile(plain(merge(tables_only, {"fits": Calibration(base["name"], fitted, ()).fits})))


def _best(candidates: Sequence[Fitted], others: tuple[Fitted, ...] = ()) -> tuple[Fitted, ...]:
    """One fit for each curve, sorted by where it goes: the smallest median error wins."""
    best: dict[tuple[str, ...], Fitted] = {one.path: one for one in others}
    for candidate in candidates:
        other = best.get(candidate.path)
        if other is None or candidate.error.median_ape_frac < other.error.median_ape_frac:
            best[candidate.path] = candidate
    return tuple(best[path] for path in sorted(best))


def _fit_to_runs(
    logs: Sequence[IterationLog], runs: Runs, base: HardwareProfile
) -> tuple[list[Fitted], list[tuple[str, str]]]:
    """The factors that training logs and reference runs determine, as scaled curves."""
    everything, models = list(runs.runs), dict(runs.models)
    skipped: list[tuple[str, str]] = []
    for log in logs:
        try:
            run, models[log.source] = run_of_log(log, base.name)
        except InputError as unreadable:
            skipped.append((log.source, f"median step {log.median_s:.4g} s, not fitted: {unreadable}"))
            continue
        everything.append(run)
    if not everything:
        return [], skipped
    predict, measured, reasons = run_predictor(everything, models, base)
    skipped += reasons
    if not measured.size:
        return [], skipped
    compute, network, error = fit_runs(predict, measured, base)
    names = ", ".join(run.id for run in everything[:3]) + (" ..." if len(everything) > 3 else "")
    data = f"{measured.size} whole runs: {names}"
    return [Fitted(*placed) for placed in scaled_entries(base, compute, network, error, data)], skipped


class _NotUsed(Exception):
    """A table that determines nothing in this profile."""


def _fit_gemm(table: GemmTable, tables: Sequence[Table], base: HardwareProfile) -> list[Fitted]:
    if table.layout != "forward":
        raise _NotUsed("backward layouts only give the factors of the forward table")
    device = base.device
    if table.dtype not in device.peak_flop_per_s:
        raise _NotUsed(f"{device.name} has no {table.dtype} peak")
    known = device.gemm.get(table.dtype, device.gemm["bf16"])
    curve, error = fit_gemm(table, device, known.large_tile)
    curve = dataclasses.replace(curve, dgrad_frac=known.dgrad_frac, wgrad_frac=known.wgrad_frac)
    peak, bandwidth = device.peak_flop_per_s[table.dtype], device.hbm_bandwidth_bytes_per_s
    for other in _backward(GemmTable, table, tables):
        factor = layout_factor(gemm_s(curve, other, peak, bandwidth, device.compute_units), other)
        curve = _with_factor(curve, other.layout, factor)
    return [Fitted(("gemm", table.dtype), entry(curve, error, table.source), error)]


def _fit_grouped(table: Any, tables: Sequence[Table], base: HardwareProfile) -> list[Fitted]:
    if isinstance(table, GroupedGemmTable) and table.layout != "forward":
        raise _NotUsed("backward layouts only give the factors of the forward table")
    device = base.device
    if table.dtype not in device.peak_flop_per_s:
        raise _NotUsed(f"{device.name} has no {table.dtype} peak")
    known = device.grouped_gemm.get(table.dtype, device.grouped_gemm["bf16"])
    limit = device.gemm[table.dtype].efficiency_max_frac
    curve, error = fit_grouped_gemm(table, device, limit)
    curve = dataclasses.replace(curve, dgrad_frac=known.dgrad_frac, wgrad_frac=known.wgrad_frac)
    for other in _backward(GroupedGemmTable, table, tables):
        peak = device.peak_flop_per_s[table.dtype]
        factor = layout_factor(grouped_gemm_s(curve, other, peak, device.hbm_bandwidth_bytes_per_s), other)
        curve = _with_factor(curve, other.layout, factor)
    return [Fitted(("grouped_gemm", table.dtype), entry(curve, error, table.source), error)]


def _with_factor(curve: Any, layout: str, factor: float) -> Any:
    return dataclasses.replace(curve, **{f"{layout}_frac": factor})


def _backward(kind: type, table: Any, tables: Sequence[Table]) -> list[Any]:
    """Tables of the same kind and dtype in a backward layout."""
    same: list[Any] = [other for other in tables if isinstance(other, kind)]
    return [other for other in same if other.dtype == table.dtype and other.layout != "forward"]


def _fit_attention(table: AttentionTable, tables: Sequence[Table], base: HardwareProfile) -> list[Fitted]:
    """Forward and, where measured, backward. Unmeasured, backward keeps the base profile's ratio to forward."""
    if table.backward:
        raise _NotUsed("backward rows are fitted with the forward table of their kernel")
    fields, error = fit_attention(table, base.device)
    known = base.device.attention.get(table.kernel)
    ratio = known.backward_efficiency_frac / known.forward_efficiency_frac if known else 0.8
    fields["backward_efficiency_frac"] = fields["forward_efficiency_frac"] * ratio
    for other in tables:
        if isinstance(other, AttentionTable) and other.backward and other.kernel == table.kernel:
            back, _ = fit_attention(other, base.device)
            fields["backward_efficiency_frac"] = back["backward_efficiency_frac"]
            fields["backward_seq_half"], fields["backward_tile_half"] = back["seq_half"], back["tile_half"]
    return [Fitted(("attention", table.kernel), entry(fields, error, table.source), error)]


def _fit_intra_node(table: CollectiveTable, tables: Sequence[Table], base: HardwareProfile) -> list[Fitted]:
    tier, ranks = base.tiers[0], int(table.ranks.max())
    if table.nodes > 1 and ranks > tier.cards:
        return []
    if ranks > tier.cards:
        raise _NotUsed(f"{ranks} ranks in one node, but tier {tier.name} holds {tier.cards} cards")
    return _fit_inside(table, tier)


def _fit_inter_node(table: CollectiveTable, tables: Sequence[Table], base: HardwareProfile) -> list[Fitted]:
    """The tables over several nodes, all of one operation together; the first of them does the work."""
    ranks = int(table.ranks.max())
    if table.nodes == 1 or ranks <= base.tiers[0].cards:
        return []
    if table.op == "all_to_all":
        raise _NotUsed("an all-to-all over nodes splits over tiers and is not fitted; its ring operations are")
    tier = next((tier for tier in base.tiers if tier.cards >= ranks), base.tiers[-1])
    inner = base.tiers[base.tiers.index(tier) - 1]
    together = [
        other for other in tables
        if isinstance(other, CollectiveTable) and other.op == table.op and other.nodes > 1
        and base.tiers[0].cards < other.ranks.max() <= tier.cards
    ]  # fmt: skip
    if table is not together[0]:
        return []
    curve, error = fit_inter(together, tier, inner, inner.curves[table.op])
    data = "; ".join(other.source for other in together)
    return [Fitted(("collectives", tier.name, table.op), entry(curve, error, data), error)]


def _fit_inside(table: CollectiveTable, tier: Tier) -> list[Fitted]:
    curve, error = fit_intra(table, tier)
    fitted = [Fitted(("collectives", tier.name, table.op), entry(curve, error, table.source), error)]
    pairs = np.flatnonzero(table.ranks == 2)
    if table.op == "all_to_all" and pairs.size >= MIN_ROWS:
        sent = take(table, pairs)
        sent = dataclasses.replace(sent, op="p2p", message_bytes=sent.message_bytes / 2)  # half goes to the peer
        pair_tier = dataclasses.replace(tier, full_mesh=False)
        if tier.full_mesh:
            pair_tier = dataclasses.replace(
                pair_tier, bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s / (tier.cards - 1)
            )
        curve, error = fit_intra(sent, pair_tier)
        data = f"{table.source}, all-to-all of 2 ranks: each sends half"
        fitted.append(Fitted(("collectives", tier.name, "p2p"), entry(curve, error, data), error))
    return fitted


_STAGES: tuple[tuple[type, Callable[..., list[Fitted]]], ...] = (
    (GemmTable, _fit_gemm),
    (GroupedGemmTable, _fit_grouped),
    (MoeTable, _fit_grouped),
    (AttentionTable, _fit_attention),
    (CollectiveTable, _fit_intra_node),
    (CollectiveTable, _fit_inter_node),
)

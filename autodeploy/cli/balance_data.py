"""``autodeploy balance data``: the order of samples for every data-parallel rank."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from autodeploy.balance.data import BatchShape, DataPlan, SampleCost, fit_sample_cost, gradient_effect, read_lengths
from autodeploy.balance.data import rearrange as rearrange_samples
from autodeploy.balance.data.cost import read_timings
from autodeploy.balance.data.gradient import GradientEffect
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.balance.data.report import DOCUMENT_COLUMNS, document_table, notes, plan_to_dict
from autodeploy.cli import options as opt
from autodeploy.cli.output import check_format, check_report, check_writable, emit, write_report
from autodeploy.errors import InputError


def data(
    lengths: Annotated[Path, typer.Argument(help="Lengths in tokens: text, CSV, npy, npz or a Megatron .idx file.")],
    seq_length: Annotated[int, typer.Option("--seq-length", help="Tokens of a training sequence.")],
    dp: Annotated[int, typer.Option("--dp", help="Data-parallel ranks.")],
    ep_ranks: Annotated[int, typer.Option(help="Data-parallel ranks that one expert-parallel group spans.")] = 1,
    micro_batches: Annotated[int, typer.Option(help="Micro-batches a step; 0: one step holds the input.")] = 0,
    micro_batch: Annotated[int, typer.Option(help="Samples a micro-batch.")] = 1,
    free_counts: Annotated[
        bool,
        typer.Option("--free-counts/--padded", help="Short samples may share a micro-batch; or all are padded alike."),
    ] = True,
    cp_split: Annotated[int, typer.Option(help="Ranks that a long sample may be split over (context parallel).")] = 1,
    ring: Annotated[float, typer.Option(help="Seconds a token of a split sample: keys and values passed on.")] = 0.0,
    max_delay: Annotated[int, typer.Option(help="Batches that an outlier may wait for others; the bias is said.")] = 0,
    packing: Annotated[str, typer.Option(help="none or ffd (first-fit decreasing).")] = "none",
    overlong: Annotated[str, typer.Option(help="What to do with longer documents: error or split.")] = "error",
    timings: Annotated[Path | None, typer.Option(help="CSV of timed samples: tokens, seconds, [sum_len2].")] = None,
    alpha: Annotated[float, typer.Option(help="Seconds a token.")] = 0.0,
    beta: Annotated[float, typer.Option(help="Seconds a squared token of a document (attention).")] = 0.0,
    gamma: Annotated[float, typer.Option(help="Seconds a sample.")] = 0.0,
    loss_normalisation: Annotated[str, typer.Option(help="global_token, sequence or micro_batch.")] = "global_token",
    aux_loss: Annotated[str, typer.Option(help="none, global, sequence, micro_batch or ep_group.")] = "none",
    capacity: Annotated[str, typer.Option(help="dropless, global or micro_batch.")] = "dropless",
    input_format: Annotated[str, typer.Option(help="text, csv, npy, npz or idx; default by suffix.")] = "",
    column: Annotated[str, typer.Option(help="CSV column or npz array.")] = "",
    output_format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    report: opt.Report = None,
    output: Annotated[Path | None, typer.Option(help="Write the result here instead of to stdout.")] = None,
) -> None:
    """Order the samples of each global batch so that ranks, and expert groups at each micro-batch, carry like cost."""
    check_format(output_format)
    check_writable("--output", output)
    check_report(report)
    effect = gradient_effect(loss_normalisation, aux_loss, capacity)
    cost = replace(_cost(timings, alpha, beta, gamma), ring_s_per_token=ring)
    documents = read_lengths(lengths, input_format, column)
    if overlong not in ("error", "split"):
        raise InputError("--overlong", overlong, "error or split")
    if overlong == "split" and seq_length > 0:
        documents, _ = split_overlong(documents, seq_length)
    shape = BatchShape(
        ranks=dp,
        ep_ranks=ep_ranks,
        micro_batches=micro_batches,
        micro_batch=micro_batch,
        free_counts=free_counts,
        most_parts=cp_split,
        most_delay=max_delay,
    )
    plan = rearrange_samples(documents, seq_length, shape, cost, packing)
    if plan.delay is not None and plan.delay.delayed:
        effect = GradientEffect(unchanged=False, changes=(*effect.changes, plan.delay.bias()))
    if report is not None:
        write_report(report, plan_to_dict(plan, cost, effect))
    emit(_render(plan, cost, effect, output_format), output)


def _cost(timings: Path | None, alpha: float, beta: float, gamma: float) -> SampleCost:
    if timings is None:
        return SampleCost(alpha_s_per_token=alpha, beta_s_per_token2=beta, gamma_s=gamma)
    if alpha or beta or gamma:
        raise InputError("--timings", str(timings), "given without --alpha, --beta, --gamma")
    return fit_sample_cost(*read_timings(timings))


def _render(plan: DataPlan, cost: SampleCost, effect: GradientEffect, output_format: str) -> str:
    if output_format == "json":
        return json.dumps(plan_to_dict(plan, cost, effect), allow_nan=False)  # one line: a place a sample is too many
    text = io.StringIO()
    if output_format == "csv":
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(DOCUMENT_COLUMNS)
        writer.writerows(document_table(plan).tolist())
        return text.getvalue()
    console = Console(file=text, width=100)
    console.print(_table(plan))
    if effect.unchanged:
        console.print("The gradient is unchanged (but for the order of floating-point sums).")
    for change in effect.changes:
        console.print(f"The gradient changes: {change}.")
    for note in notes(plan):
        console.print(f"Note: {note}.")
    return text.getvalue()


def _table(plan: DataPlan) -> Table:
    title = f"{plan.samples.tokens.size} samples, {len(plan.order)} global batches of {plan.order[0].size} places"
    table = Table(title=title)
    for name in ("", "before", "after"):
        table.add_column(name, justify="left" if not name else "right")
    before, after = plan.before, plan.after
    table.add_row("slowest rank / mean", f"{before.rank_sum_over_mean:.4f}", f"{after.rank_sum_over_mean:.4f}")
    table.add_row("step with expert groups / mean", f"{before.coupled_over_mean:.4f}", f"{after.coupled_over_mean:.4f}")
    table.add_row(
        "step / max(mean, costliest sample)", f"{before.coupled_over_bound:.4f}", f"{after.coupled_over_bound:.4f}"
    )
    table.add_row("step seconds, all batches", f"{before.coupled_s:.6g}", f"{after.coupled_s:.6g}")
    return table

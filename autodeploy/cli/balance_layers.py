"""``autodeploy balance layers``: layers, embedding, MTP modules and head to virtual stages."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from autodeploy.balance.layers import BalanceOptions, LayerItems, LayerPlan, balance_layers, move_mtp_embedding
from autodeploy.balance.layers import parse_layout as parse
from autodeploy.balance.layers.costs import read_items
from autodeploy.balance.layers.mindspeed import mindspeed_layers
from autodeploy.balance.layers.report import STAGE_COLUMNS, plan_to_dict, stage_rows
from autodeploy.cli import options as opt
from autodeploy.cli.balance_finals import finals_document, finals_text
from autodeploy.cli.case import CaseOptions, OneStrategy
from autodeploy.cli.output import check_format, check_report, check_writable, emit, render, write_report
from autodeploy.errors import InputError

GIB = 2**30
Asked = tuple[CaseOptions, OneStrategy]


def layers(
    model: Annotated[str | None, typer.Argument(help="Model to price; with STRATEGY, instead of --costs.")] = None,
    strategy: Annotated[str | None, typer.Argument(help="Such as TP8/PP16/VPP2/EP32: gives PP, VPP, G.")] = None,
    hardware: Annotated[str | None, typer.Option("--hardware", help="Profile name or YAML file.")] = None,
    devices: Annotated[str | None, typer.Option("--devices", help="Cards.")] = None,
    seq_length: opt.SeqLength = None,
    global_batch: opt.GlobalBatch = None,
    precision: opt.Precision = None,
    backend: opt.Backend = None,
    imbalance: opt.Imbalance = None,
    stack: opt.Stack = None,
    set: opt.Set = None,
    costs: Annotated[Path | None, typer.Option(help="Item costs: YAML, JSON or CSV.")] = None,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline ranks. [by STRATEGY]")] = 1,
    vpp: Annotated[int, typer.Option("--vpp", help="Virtual stages of each rank.")] = 1,
    micro_batches: Annotated[int, typer.Option(help="Micro-batches a step; 0: 2 x PP.")] = 0,
    group: Annotated[int, typer.Option(help="Micro-batch group of the interleaved schedule; 0: PP.")] = 0,
    memory_cap: Annotated[
        float, typer.Option(help="GiB of a card for what the items need; 0: by MODEL or none.")
    ] = 0.0,
    mtp_apart: Annotated[bool, typer.Option(help="MTP modules may sit apart from the head.")] = True,
    mtp_embedding_first: Annotated[bool, typer.Option(help="Prescribe the MTP embedding on the first stage.")] = False,
    before: Annotated[str, typer.Option(help="The layout now, Megatron notation; default equal slots.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds for the integer program.")] = 10.0,
    output_format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    report: opt.Report = None,
    output: Annotated[Path | None, typer.Option(help="Write the result here instead of to stdout.")] = None,
) -> None:
    """Balance pipeline stages: the least (largest rank sum, then largest chunk) that fits every rank's memory.

    Item costs come from --costs, or the twin prices them: MODEL STRATEGY --hardware H --devices N.
    """
    check_format(output_format)
    check_writable("--output", output)
    check_report(report)
    options = BalanceOptions(
        micro_batches=micro_batches,
        micro_batch_group=group,
        mtp_apart=mtp_apart,
        time_limit_s=timeout,
        memory_cap_bytes=memory_cap * GIB if memory_cap else float("inf"),
        before=parse(before) if before else (),
    )
    asked: Asked | None = None
    if costs is None or model is not None:
        if costs is not None or pp != 1 or vpp != 1:
            raise InputError("MODEL", model, "given without --costs, --pp and --vpp", "STRATEGY says PP and VPP")
        for name, value in (("model", model), ("hardware", hardware)):
            if value is None:
                raise InputError(name, None, "a --costs file, or MODEL STRATEGY --hardware H --devices N")
        case = CaseOptions(
            model=str(model), hardware=str(hardware), seq_length=seq_length, global_batch=global_batch,
            precision=precision, backend=backend, imbalance=imbalance, memory_cap=None, tokens=None, price=None,
            stack=stack, set=set,
        )  # fmt: skip
        asked = (case, OneStrategy(strategy=strategy, devices=devices))
    if asked is None:
        assert costs is not None
        items = read_items(costs)
        document, text, feasible = run_layers(items, pp, vpp, options, mtp_embedding_first, output_format)
    elif mtp_embedding_first:
        items, pp, vpp, options = _priced(asked, options)
        document, text, feasible = run_layers(items, pp, vpp, options, True, output_format)
    else:
        document, text, feasible = _simulated(asked, options, output_format)
    write_report(report, document)
    emit(text, output)
    if not feasible:
        raise typer.Exit(3)


def _simulated(asked: Asked, options: BalanceOptions, output_format: str) -> tuple[dict[str, Any], str, bool]:
    """(document, rendered result, whether it fits) of MODEL STRATEGY: finalists scored by the simulator."""
    from autodeploy.replay.finalists import find_finals, variants_of

    loaded, batch, options = _loaded(asked, options)
    variants = variants_of(loaded.case, batch, _maker(loaded, batch))
    finals = find_finals(loaded.case, variants, options, loaded.backend)
    document = finals_document(finals)
    text = render(
        output_format,
        document,
        lambda: _as_table(finals.plan) + finals_text(finals),
        lambda: _as_csv(finals.plan),
    )
    return document, text, finals.chosen.fits


def _maker(loaded: Any, batch: Any) -> Any:
    """The strategy with other recompute and swap, None where its back end does not run that."""
    from autodeploy.one_strategy import price_one
    from autodeploy.strategy.convert import batch_to_strategy

    devices = int(batch.tp[0] * batch.pp[0] * batch.cp[0] * batch.dp[0])
    given = batch_to_strategy(batch, 0)

    def make(recompute: tuple[str, ...], swap: float) -> Any:
        try:
            changed = replace(given, recompute=recompute, recompute_layers=0, swap_frac=swap)
            return price_one(str(changed), loaded.case, devices, loaded.backend)[0]
        except InputError:
            return None

    return make


def _priced(asked: Asked, options: BalanceOptions) -> tuple[LayerItems, int, int, BalanceOptions]:
    """Items, PP, VPP and options of MODEL STRATEGY."""
    from autodeploy.replay.items import price_items

    loaded, batch, options = _loaded(asked, options)
    layout = batch.layouts[0]
    return price_items(loaded.case, batch), layout.pp, layout.vpp, options


def _loaded(asked: Asked, options: BalanceOptions) -> tuple[Any, Any, BalanceOptions]:
    """(case, strategy of one, options): the layout now is the strategy's, the cap what the card leaves."""
    from autodeploy.cli.estimate import load_and_price
    from autodeploy.replay.balanced import options_for, stages_of

    loaded, batch, cost = load_and_price(*asked, "balance layers")
    found = options_for(cost, loaded.case, batch, options.time_limit_s)
    layout = batch.layouts[0]
    kept = {name: getattr(options, name) for name in ("mtp_apart", "before")}
    if options.memory_cap_bytes != float("inf"):
        kept["memory_cap_bytes"] = options.memory_cap_bytes
    kept["before"] = kept["before"] or stages_of(layout)
    return loaded, batch, replace(found, **kept)


def run_layers(
    items: LayerItems, pp: int, vpp: int, options: BalanceOptions, mtp_embedding_first: bool, output_format: str
) -> tuple[dict[str, Any], str, bool]:
    """(document, rendered result, whether it fits)."""
    plan = balance_layers(move_mtp_embedding(items) if mtp_embedding_first else items, pp, vpp, options)
    document = plan_to_dict(plan)
    return document, _render(plan, document, output_format), plan.feasible


def _render(plan: LayerPlan, document: dict[str, Any], output_format: str) -> str:
    return render(output_format, document, lambda: _as_table(plan), lambda: _as_csv(plan))


def _as_csv(plan: LayerPlan) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, STAGE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(stage_rows(plan))
    return text.getvalue()


def _as_table(plan: LayerPlan) -> str:
    text = io.StringIO()
    console = Console(file=text, width=120)
    console.print(_summary(plan))
    console.print(_stages(plan))
    console.print("\n".join(_closing_lines(plan)), soft_wrap=True, highlight=False, markup=False)
    return text.getvalue()


def _summary(plan: LayerPlan) -> Table:
    table = Table(title=f"PP{plan.problem.pp} VPP{plan.problem.vpp}, {plan.method}")
    for name in ("", "before", "after"):
        table.add_column(name, justify="left" if not name else "right")
    before, after = plan.before, plan.after
    table.add_row("largest rank sum, s", f"{before.largest_rank_s:.6g}", f"{after.largest_rank_s:.6g}")
    table.add_row("over the mean", f"{before.rank_imbalance:.4f}", f"{after.rank_imbalance:.4f}")
    table.add_row("largest chunk, s", f"{before.largest_chunk_s:.6g}", f"{after.largest_chunk_s:.6g}")
    table.add_row("over the mean", f"{before.chunk_imbalance:.4f}", f"{after.chunk_imbalance:.4f}")
    table.add_row("largest rank, GiB", f"{before.rank_bytes.max() / GIB:.2f}", f"{after.rank_bytes.max() / GIB:.2f}")
    return table


def _stages(plan: LayerPlan) -> Table:
    table = Table(title="Stages after")
    for name in ("stage", "rank", "chunk", "holds", "recompute", "chunk s", "rank s", "rank GiB"):
        table.add_column(name, justify="left" if name in ("holds", "recompute") else "right")
    for row in stage_rows(plan):
        table.add_row(
            str(row["stage"]),
            str(row["rank"]),
            str(row["chunk"]),
            row["holds"],
            row["recompute"],
            f"{row['chunk_s']:.5g}",
            f"{row['rank_s']:.5g}",
            f"{row['rank_bytes'] / GIB:.2f}",
        )
    return table


def _closing_lines(plan: LayerPlan) -> list[str]:
    if not plan.feasible:
        return [f"Nothing fits: {plan.not_launchable_because}; raise --memory-cap or give a recompute option."]
    proven = (
        "No placement is better."
        if plan.exact
        else (
            f"Not proven best: at most {plan.rank_gap_frac:.2%} (rank sum) and {plan.chunk_gap_frac:.2%} (chunk) above it."
        )
    )
    if not plan.launchable:
        return [proven, f"Not launchable: {plan.not_launchable_because}.", f"Layout: {plan.after.layout}"]
    mindspeed = mindspeed_layers(plan)
    written = " ".join(f"{name} {value}" for name, value in mindspeed.arguments.items()) or mindspeed.reason
    return [proven, f"Megatron: --pipeline-model-parallel-layout '{plan.after.layout}'", f"MindSpeed: {written}"]

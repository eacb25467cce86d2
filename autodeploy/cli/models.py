"""``autodeploy models``: list the models that ship, or show one with its parameter counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli.case import say
from autodeploy.cli.output import check_format, check_writable, emit, render
from autodeploy.report.csv_text import entries_csv

BILLION = 1e9


def models(
    model: Annotated[
        str | None,
        typer.Argument(help="Zoo name, config.json, our YAML or a file of Megatron arguments; all if left out."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the counts with transformers on the meta device (extra hf).")
    ] = False,
    assume: Annotated[
        str | None, typer.Option(help="What a layer word that we do not know is taken for: full, linear, dense, ...")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    output: Annotated[Path | None, typer.Option("--output", help="Write the result here instead of to stdout.")] = None,
) -> None:
    """Lists the models that ship, or shows one: parameters in total, per token, and by how they are sharded."""
    from autodeploy.models.show import list_document, model_document

    check_format(format)
    check_writable("--output", output)
    if model is None:
        document = list_document()
        rows = document["models"]
        emit(render(format, document, lambda: _list_table(rows), lambda: entries_csv(rows, {})), output)
        return
    document = model_document(model, assume or "")
    if check:
        from autodeploy.models.check import check_document
        from autodeploy.models.load import config_document, load_model

        document["check"] = check_document(config_document(model), load_model(model, assume or ""))
    shown = document["model"]
    for note in shown["notes"]:
        say(f"{shown['name']}: {note}")
    checked = document.get("check")
    table = _model_table(shown) + (_check_table(checked) if checked else "")
    emit(render(format, document, lambda: table, lambda: entries_csv(shown["parts"], {})), output)
    if checked and not checked["passed"]:
        raise typer.Exit(1)


def _check_table(checked: Mapping[str, Any]) -> str:
    verdict = "agrees" if checked["passed"] else "DIFFERS"
    lines = ["", "", f"transformers {checked['transformers']} on the meta device: {checked['parameters']:,} parameters, "
             f"{verdict} ({checked['error_frac']:+.3%})"]  # fmt: skip
    lines += [f"  {checked['reason']}"] if checked["reason"] else []
    lines.append(f"{'ours':>18} {'transformers':>18}  part")
    lines += [f"{row['ours']:>18,} {row['transformers']:>18,}  {row['part']}" for row in checked["parts"]]
    return "\n".join(lines)


def _list_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = f"{'name':<24} {'total B':>8} {'active B':>8} {'layers':>6} {'hidden':>6} {'experts':>10}  attention"
    lines = [head]
    for row in rows:
        experts = f"{row['top_k']} of {row['experts']}" if row["experts"] else "-"
        lines.append(
            f"{row['name']:<24} {row['parameters'] / BILLION:>8.2f} {row['active_parameters'] / BILLION:>8.2f} "
            f"{row['layers']:>6} {row['hidden']:>6} {experts:>10}  {row['attention']}"
        )
    return "\n".join([*lines, "", "autodeploy models NAME shows one. B: 1e9 parameters, both embeddings in, MTP out."])


def _model_table(shown: Mapping[str, Any]) -> str:
    buckets = shown["buckets"]
    tied = "tied" if shown["tied_embeddings"] else "untied"
    longest = f", {shown['max_seq_length']} tokens" if shown["max_seq_length"] else ""
    lines = [
        f"{shown['name']}: {shown['parameters'] / BILLION:.2f} B parameters, "
        f"{shown['active_parameters'] / BILLION:.2f} B active per token",
        f"  {shown['layers']} layers, hidden {shown['hidden']}, vocabulary {shown['vocab']} ({tied}){longest}",
        f"  sharded over TP {buckets['tp_sharded']:,}; replicated {buckets['replicated']:,}; "
        f"routed experts {buckets['routed_experts']:,}",
        f"  source: {shown['source']}",
        "",
        f"{'count':>5} {'parameters':>15} {'TP-sharded':>14} {'replicated':>12} {'routed':>14}  part",
    ]
    for part in shown["parts"]:
        lines.append(
            f"{part['count']:>5} {part['parameters']:>15,} {part['tp_sharded']:>14,} {part['replicated']:>12,} "
            f"{part['routed_experts']:>14,}  {part['part']}"
        )
    return "\n".join(lines)

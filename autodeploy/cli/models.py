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
    document = model_document(model)
    shown = document["model"]
    for note in shown["notes"]:
        say(f"{shown['name']}: {note}")
    emit(render(format, document, lambda: _model_table(shown), lambda: entries_csv(shown["parts"], {})), output)


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

"""``autodeploy stacks``: list the software stacks that ship, or show one with its sources."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from autodeploy.cli.output import check_format, check_writable, emit, render
from autodeploy.report.csv_text import entries_csv

WIDTH = 100


def stacks(
    stack: Annotated[str | None, typer.Argument(help="Stack name or YAML file; all if left out.")] = None,
    format: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    output: Annotated[Path | None, typer.Option("--output", help="Write the result here instead of to stdout.")] = None,
) -> None:
    """Lists the software stacks, or shows one: what the program does, field by field, with sources.

    --stack NAME and --set field=value on search, estimate, simulate and balance layers choose and change one.
    """
    from autodeploy.stacks.show import list_document, stack_document

    check_format(format)
    check_writable("--output", output)
    if stack is None:
        document = list_document()
        rows = [{**row, "backends": " ".join(row["backends"])} for row in document["stacks"]]
        emit(render(format, document, lambda: _list_table(document["stacks"]), lambda: entries_csv(rows, {})), output)
        return
    document = stack_document(stack)
    emit(render(format, document, lambda: _stack_text(document), lambda: entries_csv(document["fields"], {})), output)


def _list_table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{'name':<29} {'default of':<15}  program and releases"]
    for row in rows:
        text = f"{row['framework']}, {row['releases']}"
        first, *rest = textwrap.wrap(text, WIDTH - 47) or [""]
        lines.append(f"{row['name']:<29} {row['default_of'] or '':<15}  {first}")
        lines += [f"{'':<47}{line}" for line in rest]
    return "\n".join([*lines, "", "autodeploy stacks NAME shows one, every field with its source."])


def _stack_text(document: Mapping[str, Any]) -> str:
    lines = [
        f"{document['name']}: {document['title']}",
        f"  {document['framework']}, {document['releases']}; back ends {', '.join(document['backends'])}",
        "",
        "stated",
    ]
    for field in document["fields"]:
        if field["stated"]:
            lines += _entry(field["field"], field["value"], field["source"])
    for rule in document["rules"]:
        if rule["when"]:
            when = " and ".join(f"{key} {' or '.join(words)}" for key, words in rule["when"].items())
            lines += _entry(rule["field"], rule["value"], f"where {when}: {rule['source']}")
    lines += ["", "not stated: the machine's own fact, or this"]
    for field in document["fields"]:
        if not field["stated"]:
            lines += _entry(field["field"], field["value"], field["meaning"])
    return "\n".join(lines)


def _entry(name: str, value: Any, text: str) -> list[str]:
    from autodeploy.stacks.apply import shown

    first, *rest = textwrap.wrap(text, WIDTH - 42) or [""]
    return [f"  {name:<24} {shown(value):<14} {first}", *(f"{'':<42}{line}" for line in rest)]

"""``autodeploy balance experts --place``: a placement for given loads, without history, horizon or prices."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from autodeploy.balance.experts import Placement, place_expected
from autodeploy.balance.experts.placement import F64
from autodeploy.balance.experts.report_place import PlaceRequest, place_document
from autodeploy.balance.experts.shares import SHARES
from autodeploy.errors import InputError

SLOT_COLUMNS = ("layer", "card", "slot", "expert")
MOST_ROWS = 12  # layers printed one by one; more are summed up


def check_shares(shares: str) -> None:
    if shares not in SHARES:
        raise InputError("--shares", shares, f"one of {', '.join(SHARES)}")


def placed(history: F64, now: Placement, request: PlaceRequest) -> dict[str, Any]:
    """The JSON document of ``--place``."""
    after = place_expected(history, request.topology, now.slots, request.groups, relaxed=request.relaxed)
    return place_document(history, now, after, request)


def render_place(document: dict[str, Any], output_format: str) -> str:
    if output_format == "json":
        return json.dumps(document, allow_nan=False)
    text = io.StringIO()
    if output_format == "csv":
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SLOT_COLUMNS)
        for layer, cards in enumerate(document["after"]["placement"]):
            for card, slots in enumerate(cards):
                writer.writerows((layer, card, slot, expert) for slot, expert in enumerate(slots))
        return text.getvalue()
    console = Console(file=text, width=80)
    console.print(_table(document))
    for line in _lines(document):
        console.print(line, soft_wrap=True, highlight=False)
    return text.getvalue()


def _table(document: dict[str, Any]) -> Table:
    after, before = document["after"], document["before"]
    optimum = after.get("node_optimum_max_over_mean")
    table = Table(title=f"{document['experts']} experts in {document['slots']} slots on {document['cards']} cards")
    table.add_column("max / mean card load", justify="left")
    for name in ("before", "after", *(["node optimum"] if optimum else [])):
        table.add_column(name, justify="right")

    def row(name: str, key: str, layer: int | None) -> None:
        values = [_pick(state[key], layer) for state in (before, after)] + ([_pick(optimum, layer)] if optimum else [])
        table.add_row(name, *(f"{value:.4f}" for value in values))

    if document["layers"] <= MOST_ROWS:
        for layer in range(document["layers"]):
            row(f"layer {layer}", "max_over_mean", layer)
    row("mean of the layers", "max_over_mean", None)
    if document["steps"] > 1:
        row(f"mean over {document['steps']} steps", "observed_max_over_mean", None)
    return table


def _pick(values: list[float], layer: int | None) -> float:
    return values[layer] if layer is not None else sum(values) / len(values)


def _lines(document: dict[str, Any]) -> list[str]:
    plan, after = document["plan"], document["after"]
    lines = [f"Mode: {plan['mode']}; shares of copies: {plan['shares']}; made small: {plan['objective']}."]
    if plan["mode"] == "relaxed":
        frac = sum(after["foreign_tokens_frac"]) / document["layers"]
        line = f"{frac:.1%} of the routed tokens go to a copy outside their group's node"
        if "foreign_s_per_step" in after:
            line += f": {after['foreign_bytes_per_step'] / 1e9:.3g} GB and {after['foreign_s_per_step']:.3g} s a step"
        elif "foreign_bytes_per_step" in after:
            line += f": {after['foreign_bytes_per_step'] / 1e9:.3g} GB a step"
        else:
            line += "; --token-bytes and --inter-bandwidth (or --hardware) price them"
        lines.append(line + ".")
    if document["layers"] > MOST_ROWS:
        lines.append(f"The {document['layers']} layers one by one, and the placement: --format json or csv.")
    return lines

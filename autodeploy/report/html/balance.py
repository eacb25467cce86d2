"""The pages of ``balance experts``, ``data`` and ``layers``: before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodeploy.report.html.figures import grouped_bars
from autodeploy.report.html.page import Page, Part, Section
from autodeploy.report.html.parts import Column, lead, line, note, table, tiles

Document = Mapping[str, Any]
GIB = 2**30
STAGES = (
    Column("Stage", "stage", "d"),
    Column("Rank", "rank", "d"),
    Column("Chunk", "chunk", "d"),
    Column("Holds", "holds", "wide"),
    Column("Recompute", "recompute", "wide"),
    Column("Chunk s", "chunk_s", ".5f"),
    Column("Rank s", "rank_s", ".5f"),
    Column("Rank GiB", "gib", ".2f"),
)
FINALISTS = (
    Column("Finalist", "name"),
    Column("Layout", "layout", "wide"),
    Column("Step s", "step_s", ".4f"),
    Column("Fits", "fits"),
    Column("Launchable", "launchable"),
)
MOVES = (
    Column("Layer", "layer", "d"),
    Column("Expert", "expert", "d"),
    Column("From card", "from_card", "d"),
    Column("To card", "to_card", "d"),
    Column("Slot", "slot", "d"),
    Column("Link", "level"),
    Column("ms", "ms", ".3f"),
    Column("Wave", "wave", "d"),
)
MOST_MOVES = 2000


def balance_page(document: Document) -> Page:
    """What ``balance experts|data|layers --format json`` prints, as a page."""
    if document.get("balancer") == "experts":
        return _experts(document)
    return {"data": _data, "layers": _layers}[document["kind"]](document)


def _experts(document: Document) -> Page:
    before, after, plan = document["before"], document["after"], document["plan"]
    layers = [f"{i}" for i in range(document["layers"])]
    parts: list[Part] = [lead(f"{plan['reason'].rstrip('.').capitalize()}.")]
    shown = [
        ("largest card / mean, before", f"{before['max_over_mean_mean']:.3f}"),
        ("after", f"{after['max_over_mean_mean']:.3f}"),
    ]
    if "net_saving_s" in plan:
        shown += [
            ("saved less moved, horizon", f"{plan['net_saving_s']:.4g} s"),
            ("to move", f"{plan['moved_bytes'] / 1e9:.2f} GB in {plan['migration_s']:.4g} s"),
            ("exposed a step, before", f"{before['exposed_s_per_step']:.4g} s"),
            ("after", f"{after['exposed_s_per_step']:.4g} s"),
        ]
    loads = {"before": before["max_over_mean"], "after": after["max_over_mean"]}
    caption = "Expected load of the fullest card over the mean card, by layer; 1 is level."
    sections = [
        Section("Answer", [*parts, tiles(shown)]),
        Section("By layer", [grouped_bars(layers, loads, "largest / mean card load", caption)]),
        Section(
            "By node", [grouped_bars(layers, _nodes(before, after), "largest / mean node load", "The same by node.")]
        ),
    ]
    if plan.get("moves"):
        moves = [{**move, "ms": move["seconds"] * 1e3} for move in plan["moves"][:MOST_MOVES]]
        told = note(f"{len(moves)} of {len(plan['moves'])} moves; all of them: --format csv.")
        sections.append(Section("Moves", [table(MOVES, moves), told]))
    size = f"{document['experts']} experts in {document['slots']} slots on {document['cards']} cards"
    return Page("Experts balanced", f"{size}, {document['layers']} layers", sections)


def _nodes(before: Document, after: Document) -> dict[str, list[float]]:
    return {"before": before["node_max_over_mean"], "after": after["node_max_over_mean"]}


def _data(document: Document) -> Page:
    before, after, plan = document["before"], document["after"], document["plan"]
    keys = {
        "rank_sum_over_mean": "slowest rank",
        "coupled_over_mean": "with expert groups",
        "coupled_over_bound": "over bound",
    }
    bars = {name: [state[key] for key in keys] for name, state in (("before", before), ("after", after))}
    changes = plan["gradient_changes"]
    told = (
        "The gradient is unchanged." if plan["gradient_unchanged"] else f"The gradient changes: {'; '.join(changes)}."
    )
    shown = [
        ("step seconds, before", f"{before['coupled_s']:.5g}"),
        ("after", f"{after['coupled_s']:.5g}"),
        ("costliest sample alone", f"{before['costliest_sample_s']:.5g} s"),
        ("samples, batches", f"{plan['samples']:,}, {plan['batches']:,}"),
    ]
    caption = (
        "Time over the mean of the ranks; the last pair over what the mean and the costliest sample allow. 1 is level."
    )
    return Page(
        "Samples balanced",
        f"{plan['ranks']} data-parallel ranks, expert groups over {plan['ep_ranks']}, {plan['micro_batches']} micro-batches",
        [
            Section("Answer", [lead(told, bad=not plan["gradient_unchanged"]), tiles(shown)]),
            Section("Before and after", [grouped_bars(list(keys.values()), bars, "time / mean", caption)]),
            *(
                [Section("Notes", [line(f"{text[:1].upper()}{text[1:]}.") for text in plan["notes"]])]
                if plan["notes"]
                else []
            ),
        ],
    )


def _layers(document: Document) -> Page:
    before, after, plan = document["before"], document["after"], document["plan"]
    ranks = [f"rank {i}" for i in range(plan["pp"])]
    stages = [f"{i}" for i in range(plan["pp"] * plan["vpp"])]
    parts: list[Part] = []
    if not plan["feasible"]:
        parts.append(lead(f"Nothing fits: {plan['not_launchable_because']}", bad=True))
    elif not plan["launchable"]:
        parts.append(lead(f"Not launchable: {plan['not_launchable_because']}", bad=True))
    parts += [
        line(f"Layout before: {before['layout']}"),
        line(f"Layout after: {after['layout']}"),
        _layer_tiles(before, after),
    ]
    both = (("before", before), ("after", after))
    gib = {name: [size / GIB for size in state["rank_bytes"]] for name, state in both}
    sections = [
        Section("Answer", parts),
        Section(
            "Before and after",
            [
                grouped_bars(ranks, {n: s["rank_s"] for n, s in both}, "seconds", "A micro-batch through a rank."),
                grouped_bars(stages, {n: s["chunk_s"] for n, s in both}, "seconds", "A micro-batch through a stage."),
                grouped_bars(ranks, gib, "GiB", "Memory of a rank for what was placed."),
            ],
        ),
        Section("Stages after", [table(STAGES, [{**s, "gib": s["rank_bytes"] / GIB} for s in plan["stages"]])]),
    ]
    if document.get("finalists"):
        yes = {True: "yes", False: "no"}
        rows = [{**f, "fits": yes[f["fits"]], "launchable": yes[f["launchable"]]} for f in document["finalists"]]
        sections.append(Section("Finalists, replayed", [table(FINALISTS, rows)]))
    return Page("Layers balanced", f"PP{plan['pp']} VPP{plan['vpp']}, {plan['method']}", sections)


def _layer_tiles(before: Document, after: Document) -> Part:
    shown = [
        ("largest rank, before", f"{before['largest_rank_s']:.5g} s"),
        ("after", f"{after['largest_rank_s']:.5g} s"),
        ("largest chunk, before", f"{before['largest_chunk_s']:.5g} s"),
        ("after", f"{after['largest_chunk_s']:.5g} s"),
    ]
    if before.get("step_s") and after.get("step_s"):
        shown += [("step, before", f"{before['step_s']:.4f} s"), ("after", f"{after['step_s']:.4f} s")]
    return tiles(shown)

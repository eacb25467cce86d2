"""The page of ``search``: the decision, the ranking, memory against throughput, causes, the plan, the assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodeploy.report.html.common import assumptions, by_cause, case_line
from autodeploy.report.html.figures import scatter, stacked_bars
from autodeploy.report.html.page import Page, Part, Section
from autodeploy.report.html.parts import Column, lead, line, note, table, tiles

Row = Mapping[str, Any]
MOST_BARS = 12
RANKING = (
    Column("#", "rank", "d"),
    Column("Strategy", "strategy", "wide"),
    Column("Machine", "machine"),
    Column("Step s", "step_time_s", ".3f"),
    Column("Low s", "expected_low_s", ".3f"),
    Column("High s", "expected_high_s", ".3f"),
    Column("Tokens/s/card", "tokens_per_s_per_device", ",.0f"),
    Column("MFU", "mfu", ".1%"),
    Column("Bubble", "bubble_frac", ".1%"),
    Column("Peak GiB", "peak_memory_gib", ".1f"),
    Column("P(fits)", "fit_probability", ".0%"),
    Column("P(best)", "best_probability", ".0%"),
    Column("Days", "days", ".1f"),
    Column("Card-hours", "device_hours", ",.0f"),
    Column("Price", "price", ",.0f"),
    Column("Binds", "binds", "wide"),
)
MISSES = (
    Column("Strategy", "strategy", "wide"),
    Column("Short by GiB", "short_by_gib", ".1f"),
    Column("What would help", "fix", "wide"),
)
OPTIONS = (
    Column("Machine", "machine"),
    Column("Strategy", "strategy", "wide"),
    Column("Days", "days", ".1f"),
    Column("Days at worst", "days_at_worst", ".1f"),
    Column("Card-hours", "device_hours", ",.0f"),
    Column("Price", "price", ",.0f"),
    Column("MWh", "energy_mwh", ",.1f"),
    Column("Goodput", "goodput_frac", ".2%"),
)


def search_page(document: Row) -> Page:
    """What ``search --format json`` prints, as a page."""
    rows = [_with_machine(row, document) for row in document["ranked"]]
    sections = [_decision(document, rows)]
    if rows:
        sections += [_ranking(rows), _memory_and_speed(rows), _causes(rows)]
    if document.get("nearest"):
        sections.append(Section("Nearest misses", [table(_used(MISSES, document["nearest"]), document["nearest"])]))
    if document.get("plan"):
        sections.append(_plan(document["plan"]))
    sections += [_space(document), assumptions(document, rows[0] if rows else None)]
    return Page("Strategies for " + document["model"]["name"], case_line(document), sections)


def front(rows: Sequence[Row]) -> list[Row]:
    """Rows that no other row beats in both memory and throughput, by memory."""
    kept: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["peak_memory_gib"], -row["tokens_per_s_per_device"])):
        if not kept or row["tokens_per_s_per_device"] > kept[-1]["tokens_per_s_per_device"]:
            kept.append(row)
    return kept


def _with_machine(row: Row, document: Row) -> Row:
    return {**row, "machine": f"{row['devices']} x {row.get('hardware', document['hardware'])}"}


def _used(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Columns that some row fills; the machine only where rows differ in it."""
    said = [column for column in columns if any(row.get(column.key) is not None for row in rows)]
    one = len({row.get("machine") for row in rows}) == 1
    return [column for column in said if not (one and column.key == "machine" and len(rows) > 1)]


def _decision(document: Row, rows: Sequence[Row]) -> Section:
    parts: list[Part] = []
    decision = document.get("decision")
    if decision:
        parts.append(lead(decision["advice"]))
    if not rows:
        parts.append(lead("Nothing fits. The nearest misses are below.", bad=True))
        return Section("Decision", parts)
    if document["interrupted"] or document["timed_out"]:
        parts.append(lead("The search was cut short: this is the ranking of what it had found.", bad=True))
    first = rows[0]
    parts += [
        line(f"First row: {first['strategy']}"),
        tiles(
            (
                ("step, predicted", f"{first['step_time_s']:.3f} s"),
                ("tokens/s a card", f"{first['tokens_per_s_per_device']:,.0f}"),
                ("MFU", f"{first['mfu']:.1%}"),
                (f"peak memory, {first['machine']}", f"{first['peak_memory_gib']:.1f} GiB"),
                ("binds", first["binds"]),
            )
        ),
    ]
    if document.get("own"):
        parts.append(line(_own(document["own"])))
    return Section("Decision", parts)


def _own(own: Row) -> str:
    """The user's setting of today beside the rows."""
    if own["refused"]:
        return f"Your own setting, {own['strategy']}, is refused: {own['refused']}"
    told = f"Your own setting, {own['strategy']}: {own['step_time_s']:.3f} s, {own['peak_memory_gib']:.1f} GiB"
    if own["place"] is None:
        return told + ", does not fit." if not own["fits"] else told + "."
    return f"{told}, place {own['place']} of {own['rows']}; the first row is {own['first_faster_frac']:.1%} faster."


def _ranking(rows: Sequence[Row]) -> Section:
    tied = frozenset(i for i, row in enumerate(rows) if row.get("tie"))
    parts: list[Part] = [table(_used(RANKING, rows), rows, tied)]
    said = "A click on a column's name sorts."
    if tied:
        said += (
            " Rows with a coloured edge cannot be told apart by this model; low and high bound the expected step time."
        )
    return Section("Ranking", [*parts, note(said)])


def _memory_and_speed(rows: Sequence[Row]) -> Section:
    best = front(rows)
    rest = [row for row in rows if row not in best]
    groups = {"Pareto front": [_point(row) for row in best], "other rows": [_point(row) for row in rest]}
    caption = "Up and left is better: no row of the front is beaten in both. Only ranked rows are drawn (more: --top)."
    axes = ("peak memory, GiB a card", "tokens/s a card")
    return Section("Memory and throughput", [scatter({k: v for k, v in groups.items() if v}, axes, caption)])


def _point(row: Row) -> tuple[float, float, str]:
    told = f"{row['rank']}. {row['strategy']}: {row['step_time_s']:.3f} s, {row['peak_memory_gib']:.1f} GiB, {row['machine']}"
    return round(row["peak_memory_gib"], 3), round(row["tokens_per_s_per_device"], 2), told


def _causes(rows: Sequence[Row]) -> Section:
    shown = rows[:MOST_BARS]
    names = [f"{row['rank']}. {row['label']}" for row in shown]
    return Section(
        "Where time and memory go",
        [
            stacked_bars(names, by_cause(shown, "time_s"), "seconds a step", "Time of a step by cause, exposed only."),
            stacked_bars(names, by_cause(shown, "memory_gib"), "GiB", "Peak memory of the fullest rank by cause."),
        ],
    )


def _plan(plan: Row) -> Section:
    cost = "price" if plan["cost_by"] == "price" else "device_hours"
    parts: list[Part] = []
    options = [{**option, "machine": f"{option['devices']} x {option['hardware']}"} for option in plan["front"]]
    for name in ("smallest", "cheapest", "fastest", "nearest"):
        if plan.get(name):
            option = plan[name]
            told = f"{option['devices']} x {option['hardware']}, {option['days']:.1f} days, {cost.replace('_', ' ')}"
            parts.append(line(f"{name.capitalize()}: {told} {option[cost]:,.0f} ({option['strategy']})"))
    if options:
        points = [(round(o["days"], 3), round(o[cost], 2), f"{o['machine']}: {o['strategy']}") for o in options]
        parts.append(scatter({"options front": points}, ("days", cost.replace("_", " ")), "Days against cost."))
        parts.append(table(_used(OPTIONS, options), options))
    return Section("The whole job", parts)


def _space(document: Row) -> Section:
    space = document["space"]
    told = f"{space['valid']:,} valid strategies, {space['feasible']:,} of them fit; {space['refined']:,} refined."
    rejected = [{"rule": rule, "count": count} for rule, count in document.get("rejected", {}).items()]
    parts: list[Part] = [line(f"{told} Method {document['method']}, objective {document['objective']}.")]
    if rejected:
        parts.append(table([Column("Rule", "rule"), Column("Left out", "count", ",d")], rejected))
    return Section("What was searched", parts)

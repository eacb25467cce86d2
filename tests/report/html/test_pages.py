"""Pages from documents: no text becomes markup, what sorts is a number, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autodeploy.errors import InputError
from autodeploy.report.html import figures, page_of, report_html
from autodeploy.report.html.accuracy import ratios
from autodeploy.report.html.page import Figure, Page, Section, render_page, script_json
from autodeploy.report.html.parts import Column, facts, lead, line, note, table, tiles
from autodeploy.report.html.search import front

NASTY = "</script><script>alert('x & y')</script><img src=x onerror=alert(1)>\u2028"
TABLES = Path(__file__).parents[2] / "data" / "tables"


class Tags(HTMLParser):
    """Counts elements and keeps the text outside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_no_text_becomes_markup() -> None:
    parts = [
        *(make(NASTY) for make in (line, note, lead)),
        tiles([(NASTY, NASTY)]),
        facts([(NASTY, NASTY)]),
        table([Column(NASTY, "a", "wide"), Column("b", "b")], [{"a": NASTY, "b": NASTY}]),
        Figure([{"name": NASTY}], {"title": NASTY}, 100, NASTY),
    ]
    html = render_page(Page(NASTY, NASTY, [Section(NASTY, parts)]), plotly_js="let Plotly;")
    tags = parsed(html)
    assert tags.counts["script"] == 3  # sorting, the library, the figures
    assert "img" not in tags.counts
    assert "".join(tags.text).count("alert('x & y')") == 15  # as often as it was given


def test_data_inside_a_script_cannot_close_it() -> None:
    text = script_json({"a": NASTY})
    assert "<" not in text and "\u2028" not in text
    assert json.loads(text) == {"a": NASTY}


def test_a_figure_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json([float("nan")])


def test_a_table_sorts_by_the_number_not_by_what_is_shown() -> None:
    html = table(
        [Column("Step", "s", ".1f"), Column("Days", "d", ",.0f")], [{"s": 1.2345, "d": 12345.6}, {"s": 10.0}]
    ).html
    assert re.findall(r'data-v="([^"]*)">([^<]*)<', html) == [
        ("1.2345", "1.2"), ("12345.6", "12,346"), ("10.0", "10.0"), ("", ""),
    ]  # fmt: skip
    assert html.count("<button") == 2


def test_tied_rows_are_marked() -> None:
    html = table([Column("a", "a", "d")], [{"a": 1}, {"a": 2}, {"a": 3}], tied=frozenset({0, 2})).html
    assert [("tie" in row) for row in html.split("<tr")[2:]] == [True, False, True]


def test_the_front_is_what_nothing_beats_in_both() -> None:
    points = [(40.0, 100.0), (50.0, 90.0), (50.0, 120.0), (60.0, 120.0), (70.0, 130.0)]
    rows = [{"peak_memory_gib": gib, "tokens_per_s_per_device": rate} for gib, rate in points]
    assert [rows.index(row) for row in front(rows)] == [0, 2, 4]


def test_bars_leave_out_causes_that_take_nothing_and_keep_the_sum() -> None:
    figure = figures.stacked_bars(["a", "b"], {"x": [1.0, 2.0], "none": [0.0, 0.0], "dust": [-1e-17, 0.0]}, "s")
    assert [trace["name"] for trace in figure.data] == ["x"]
    assert figure.data[0]["x"] == [1.0, 2.0]


def test_a_strip_has_one_colour_a_source() -> None:
    groups = {"a/bf16": [(1.1, "r")], "a/fp8": [(0.9, "r")], "b/bf16": [(1.0, "r")]}
    colours = [trace["marker"]["color"] for trace in figures.ratio_strip(groups, "t").data]
    assert colours[0] == colours[1] != colours[2]


def test_ratios_are_of_complete_measured_runs() -> None:
    run = {"group": "g", "id": "i", "complete": True, "suspect": None}
    timed = run | {"measured_step_time_s": 2.0, "predicted_step_time_s": 3.0}
    others = [timed | {"complete": False}, timed | {"suspect": "why"}, timed | {"measured_step_time_s": None}]
    assert ratios({"runs": [timed, *others]}, "time") == {"g": [(1.5, "i")]}


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.json")), ids=lambda path: path.stem)
def test_the_page_of_a_search(path: Path) -> None:
    document = json.loads(path.read_text())
    document["model"]["name"] = NASTY
    tags = parsed(render_page(page_of(document), "let Plotly;"))
    text = "".join(tags.text)
    assert "img" not in tags.counts and NASTY in text.replace("\n", "")
    shown = text.replace("\u200b", "")
    for row in document["ranked"]:
        assert row["strategy"] in shown
    if not document["ranked"]:
        assert "Nothing fits" in text
        assert all(miss["fix"] in text for miss in document["nearest"])


def test_without_plotly_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(InputError, match=r"--report.*plots"):
        figures.plotly_js()


@pytest.mark.extra("plotly")
def test_the_figures_are_plotly_s() -> None:
    objects = pytest.importorskip("plotly.graph_objects")
    made = [
        figures.stacked_bars(["a"], {"x": [1.0]}, "s"),
        figures.grouped_bars(["a"], {"before": [1.0], "after": [2.0]}, "s"),
        figures.scatter({"Pareto front": [(1.0, 2.0, "t")], "others": [(1.0, 1.0, "t")]}, ("x", "y")),
        figures.ratio_strip({"a/b": [(1.0, "r")]}, "t"),
    ]
    for figure in made:
        objects.Figure(data=figure.data, layout=figure.layout)  # raises on a word that Plotly does not know


@pytest.mark.extra("plotly")
def test_a_page_carries_the_library_once_and_loads_nothing() -> None:
    pytest.importorskip("plotly")
    html = report_html(json.loads((TABLES / "search-llama-3.1-8b-16.json").read_text()))
    assert html.count("* plotly.js v") == 1
    own = html.replace(figures.plotly_js(), "")
    assert not re.search(r"""(src|href)\s*=|https?://|@import|url\(""", own)

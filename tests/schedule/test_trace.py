"""Traces and pictures: slices on a thread do not overlap, flows match, durations add up to the step on each rank."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from autodeploy.schedule import SCHEDULES, ScheduleError, SimulationRequest, SimulationResult, StepTail, simulate
from autodeploy.schedule.picture import html_page, svg
from autodeploy.schedule.terminal import terminal_timeline
from autodeploy.schedule.timeline import PARTS
from autodeploy.schedule.trace import STEP_THREAD, trace_events, trace_json
from tests.schedule.cases import equal, moe_layers, uneven


def step(name: str) -> SimulationResult:
    tail = StepTail(gradient_reduction_s=0.3, optimizer_s=0.2, parameter_gather_s=0.1)
    return simulate(uneven(name, 4, 8, keep_events=True, tail=tail))


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_trace_is_valid(name: str) -> None:
    result = step(name)
    events = json.loads(trace_json(result))["traceEvents"]
    threads: dict[tuple[int, int], list] = {}
    for e in events:
        if e["ph"] == "X":
            assert e["dur"] > 0
            threads.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in threads.values():
        spans.sort()
        assert all(b[0] >= a[1] - 1e-6 for a, b in zip(spans, spans[1:], strict=False))
    for rank in range(4):
        total = sum(end - start for start, end in threads[rank, STEP_THREAD])
        assert total == pytest.approx(1e6 * result.step_s[0], rel=1e-9)
        compute = sum(end - start for start, end in threads[rank, 0])
        assert compute == pytest.approx(1e6 * result.busy_s[0, rank, 0], rel=1e-9)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    stages = 4 if name in ("gpipe", "1f1b", "zb-h1", "zb-1p", "zb-2p", "dualpipe") else 8
    at_the_fold = name.startswith("zb-v") or name == "dualpipev"
    assert len(starts) == len(ends) == 2 * 8 * (stages - 1 - at_the_fold)
    for number, start in starts.items():
        end = ends[number]
        assert start["pid"] != end["pid"] and end["ts"] > start["ts"]
        assert any(a <= start["ts"] <= b for a, b in threads[start["pid"], start["tid"]])
        assert any(abs(a - end["ts"]) < 1e-6 for a, _ in threads[end["pid"], end["tid"]])
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert (3, "inter-node") in names and (0, "compute") in names


def test_trace_has_every_segment_of_three_lanes() -> None:
    costs = moe_layers(1, 8)
    result = simulate(
        SimulationRequest(schedule="adaptive-pipe", pp=4, vpp=2, micro_batches=8, costs=costs, keep_events=True)
    )
    lanes = {e["tid"] for e in trace_events(result) if e["ph"] == "X"}
    assert lanes == {0, 1, 2, STEP_THREAD}


def test_slices_say_their_part_and_p2p() -> None:
    events = json.loads(trace_json(step("1f1b")))["traceEvents"]
    told = [e["args"]["part"] for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert {part: told.count(part) for part in told} == dict.fromkeys(PARTS[:3], 4 * 8)
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e for e in events if e["ph"] == "e"}
    assert len(begins) == 2 * 3 * 8 and begins.keys() == ends.keys()
    hop_us = 1e6 * float(uneven("1f1b", 4, 8).p2p_s[0])  # type: ignore[index]
    for number, begin in begins.items():
        assert begin["cat"] == begin["args"]["part"] == "P2P"
        assert ends[number]["ts"] - begin["ts"] == pytest.approx(hop_us)


@pytest.mark.parametrize("how", ["p2p_exposed", "p2p_on_lane"])
def test_sends_on_a_lane_are_slices(how: str) -> None:
    events = trace_events(simulate(uneven("1f1b", 4, 8, keep_events=True, **{how: True})))
    sends = [e for e in events if e["ph"] == "X" and e["args"].get("part") == "P2P"]
    assert len(sends) == 2 * 3 * 8 and not [e for e in events if e["ph"] == "b"]
    assert {e["tid"] for e in sends} == {2}


def test_recomputed_slices_say_so() -> None:
    costs = moe_layers(1, 8)
    request = SimulationRequest(schedule="adaptive-pipe", pp=4, vpp=2, micro_batches=8, costs=costs, keep_events=True)
    told = {e["args"]["part"] for e in trace_events(simulate(request)) if e["ph"] == "X" and e["cat"] != "step"}
    assert told == set(PARTS[:4])


def test_trace_without_events_says_what_to_do() -> None:
    with pytest.raises(ScheduleError, match="keep_events"):
        trace_events(simulate(equal("1f1b", 2, 4)))


def test_svg_shows_the_window_it_states() -> None:
    result = step("1f1b")
    whole, part = svg(result), svg(result, window_s=(1.0, 3.0))
    assert "window 1000.00 to 3000.00 ms of a step of" in part
    count = {text: len(ElementTree.fromstring(text).findall(".//{*}rect/{*}title")) for text in (whole, part)}
    assert count[whole] == 4 * 8 * 3 and 0 < count[part] < count[whole]
    assert all(float(x) >= 70 for x in re.findall(r'<rect x="([\d.]+)"', part))


def test_html_page_is_self_contained() -> None:
    page = html_page(step("zb-v"))

    class Links(HTMLParser):
        found: list[str] = []

        def handle_starttag(self, tag: str, attrs: list) -> None:
            self.found += [value for key, value in attrs if key in ("src", "href")]

    parser = Links()
    parser.feed(page)
    assert not parser.found and "http" not in page.replace("http-equiv", "")
    data = json.loads(re.search(r"const d=(\{.*?\}),c=", page, re.S).group(1))  # type: ignore[union-attr]
    assert sum(row[1] == 0 for row in data["rows"]) == 8 * 8 * 3 and data["ranks"] == 4
    assert data["lanes"] == ["compute", "P2P"] and sum(row[1] for row in data["rows"]) == 2 * 8 * 6  # not at the fold


def test_terminal_timeline() -> None:
    text = terminal_timeline(simulate(equal("1f1b", 2, 4, keep_events=True)), columns=30).plain.splitlines()
    assert len(text) == 3 and text[1].startswith("rank   0 00")
    assert set("0123") <= set(text[1][9:]) and set("abcd") <= set(text[1][9:])  # F, and B without colour
    assert text[2][9:11] == "  "  # rank 1 waits for the first forward

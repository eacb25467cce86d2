"""The SVG of a timeline: busy time is kept, wide slots are drawn and numbered, the file is bound by pixels."""

from __future__ import annotations

import re
from collections import defaultdict
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.schedule import SimulationRequest, SimulationResult, simulate
from autodeploy.schedule.picture import LANE_HEIGHT, LEFT, LOOK_OF, RANK_GAP, TOP, WIDTH, shown, svg, used_lanes
from autodeploy.schedule.pixels import WIDE_PX, Scale, bars_of, pieces_of, ticks
from autodeploy.schedule.timeline import Slice
from tests.schedule.cases import equal, moe_layers, uneven

SPAN_PX = WIDTH - LEFT - 10
PIECE = re.compile(r"M([\d.]+) (\d+)h([\d.]+)v8")


@st.composite
def lanes(draw: st.DrawFn) -> list[Slice]:
    """Up to 800 slices, wide and narrow, with and without gaps, over 100 s."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    count = draw(st.integers(1, 800))
    lengths = rng.lognormal(0, draw(st.floats(0.1, 2.5)), count)
    gaps = rng.exponential(draw(st.sampled_from([0.0, 0.3, 3.0])), count) * (rng.random(count) < 0.5)
    ends = np.cumsum(lengths + gaps)
    scale = 100 / ends[-1]
    segments = rng.choice([0, 3, 14, 17, 18], count)
    return [
        Slice(0, 0, float((e - n) * scale), float(e * scale), int(k), 0, i // 5, 0, int(s), False)
        for i, (e, n, k, s) in enumerate(zip(ends, lengths, rng.integers(0, 3, count), segments, strict=True))
    ]


@settings(deadline=None, max_examples=40)
@given(lane=lanes(), pixels=st.sampled_from([50.0, 400.0, 1120.0]))
def test_busy_time_is_kept_and_wide_slices_stand_alone(lane: list[Slice], pixels: float) -> None:
    scale = Scale(0.0, 100.0, 70.0, pixels)
    bars = bars_of(lane, scale, [LOOK_OF[piece.segment] for piece in lane])
    wide, narrow = ([b for b in bars if (b.width >= WIDE_PX) is side] for side in (True, False))
    pieces = pieces_of(narrow)
    busy = sum(scale.x(piece.end_s) - scale.x(piece.start_s) for piece in lane)
    assert abs(sum(b.width for b in wide) + sum(p.width for p in pieces) - busy) < 1
    assert len(pieces) <= pixels + 1 and len(wide) <= pixels / WIDE_PX
    for piece in lane:
        left, right = scale.x(piece.start_s), scale.x(piece.end_s)
        if right - left >= WIDE_PX + 1e-9:
            assert any(b.left <= left + 1e-6 and b.right >= right - 1e-6 for b in wide)
    # every look shows as long as it lasts, but for what is still owed at the end
    for look in {b.look for b in narrow}:
        drawn, lasts = (sum(x.width for x in some if x.look == look) for some in (pieces, narrow))
        assert abs(drawn - lasts) < 3
    # nothing is drawn where the lane does nothing for more than a pixel
    for p in pieces:
        assert any(b.left - 1.2 <= p.left and p.left <= b.right + 1 for b in narrow)


def drawn_px(text: str, rank_height: int) -> dict[tuple[int, int], float]:
    """Pixels in rectangles and paths by rank and row of lanes."""
    found: dict[tuple[int, int], float] = defaultdict(float)

    def add(y: int, width: float) -> None:
        rank, inside = divmod(y - TOP, rank_height)
        found[rank, inside // LANE_HEIGHT] += width

    root = ElementTree.fromstring(text)
    for rect in root.findall(".//{*}rect"):
        if rect.find("{*}title") is not None:
            add(int(rect.get("y", "")), float(rect.get("width", "")))
    for path in root.findall(".//{*}path"):
        for _, y, width in PIECE.findall(path.get("d", "")):
            add(int(y), float(width))
    return found


def moe(micro_batches: int) -> SimulationResult:
    costs = moe_layers(1, 8)
    return simulate(
        SimulationRequest(
            schedule="adaptive-pipe", pp=4, vpp=2, micro_batches=micro_batches, costs=costs, keep_events=True
        )
    )


@pytest.mark.parametrize("window_s", [None, (20.0, 60.0)])
@pytest.mark.parametrize("name", ["moe", "1f1b"])
def test_a_picture_shows_the_busy_time_of_every_lane(name: str, window_s: tuple[float, float] | None) -> None:
    result = moe(16) if name == "moe" else simulate(uneven("1f1b", 4, 40, keep_events=True))
    start, end = window_s or (0.0, float(result.pipeline_s[0]))
    pieces = shown(result, 0, (start, end))
    used = used_lanes(pieces)
    busy: dict[tuple[int, int], float] = defaultdict(float)
    until: dict[tuple[int, int], float] = defaultdict(float)
    for piece in pieces:  # transfers of both directions may run at once: the union counts
        key = piece.rank, used.index(piece.lane)
        left = max(piece.start_s, start, until[key])
        until[key] = max(until[key], min(piece.end_s, end))
        busy[key] += max(0.0, min(piece.end_s, end) - left) * SPAN_PX / (end - start)
    drawn = drawn_px(svg(result, 0, window_s), LANE_HEIGHT * len(used) + RANK_GAP)
    assert drawn.keys() == busy.keys()
    for key, pixels in busy.items():
        assert drawn[key] == pytest.approx(pixels, abs=1)


def test_the_file_is_bound_by_pixels() -> None:
    few, many = svg(moe(64)), svg(moe(256))
    bound = 4 * 3 * 33_000  # ranks, lanes; see docs/simulate.md
    assert len(many) < 1.4 * len(few) and max(len(few), len(many)) < bound


def test_slots_with_room_carry_their_micro_batch() -> None:
    text = svg(simulate(equal("1f1b", 2, 4, keep_events=True)))
    for kind in "FB":
        for micro_batch in range(4):
            assert len(re.findall(rf">{kind}{micro_batch}</text>", text)) == 2
    crowded = svg(simulate(equal("1f1b", 2, 400, keep_events=True)))
    assert not re.findall(r">[FB]?\d+</text>", crowded.split('<g font-size="7">')[1])


def test_axis_and_legend_say_what_is_shown() -> None:
    text = svg(moe(8))
    for word in ("forward", "input gradient", "weight gradient", "recompute", "expert communication between nodes"):
        assert f">{word}</text>" in text
    assert ">P2P</text>" not in text
    assert ">P2P</text>" in svg(simulate(uneven("1f1b", 4, 8, keep_events=True)))
    part = svg(simulate(equal("1f1b", 2, 4, keep_events=True)), window_s=(1.0, 3.0))
    assert part.count(">1000</text>") == 2 == part.count(">3000</text>") and ">500</text>" not in part


@settings(deadline=None, max_examples=60)
@given(start=st.floats(0, 1e3), length=st.floats(1e-4, 1e4))
def test_ticks_are_round_few_and_inside(start: float, length: float) -> None:
    found = ticks(start, start + length)
    assert 3 <= len(found) <= 13
    assert all(start - 1e-9 * length <= at <= (start + length) * (1 + 1e-9) + 1e-6 * length for at in found)
    gap = f"{found[1] - found[0]:.3e}"
    assert gap[0] in "1259"

"""The timeline of one scenario as SVG, and as a self-contained HTML page with zoom and hover. A window is always stated."""

from __future__ import annotations

import json
from html import escape
from itertools import groupby

from autodeploy.schedule.operations import KIND_NAMES
from autodeploy.schedule.pixels import WIDE_PX, Bar, Piece, Scale, bars_of, pieces_of, ticks
from autodeploy.schedule.request import SimulationResult
from autodeploy.schedule.segments import COMPUTE, INTRA, LANE_NAMES, LANE_OF, SENDS
from autodeploy.schedule.timeline import PART_OF, PARTS, Slice, events_of, in_window, slices, transfers

LEFT, TOP, LANE_HEIGHT, RANK_GAP, WIDTH = 70, 66, 9, 5, 1200
LANES = (*LANE_NAMES, "P2P")
LOOKS = (*PARTS, "expert communication in a node", "expert communication between nodes")
COLOURS = ("#4c78a8", "#e4874a", "#72a86b", "#b9a4d0", "#d1495b", "#8fc7c2", "#c9b458")  # as LOOKS
DIGIT_PX = 4.2  # of the numbers, 7 px high
LEGEND_PX = 4.7  # a letter of the legend


def look_of(segment: int) -> int:
    """Index into LOOKS: communication by where it runs (also where it holds the compute lane), computing by its part."""
    if segment in SENDS or LANE_OF[segment] == COMPUTE:
        return PARTS.index(PART_OF[segment])
    return len(PARTS) + (LANE_OF[segment] != INTRA)


LOOK_OF = tuple(look_of(segment) for segment in range(len(PART_OF)))


def window_or_all(result: SimulationResult, scenario: int, window_s: tuple[float, float] | None) -> tuple[float, float]:
    return window_s or (0.0, float(result.pipeline_s[scenario]))


def shown(result: SimulationResult, scenario: int, window: tuple[float, float]) -> list[Slice]:
    """What the window touches, by rank, lane and start; transfers that hold no lane come on a lane of their own."""
    everything = slices(result, scenario)
    pieces = in_window(everything + transfers(result, everything, scenario), *window)
    return sorted(pieces, key=lambda piece: (piece.rank, piece.lane, piece.start_s, piece.end_s))


def used_lanes(pieces: list[Slice]) -> list[int]:
    return sorted({piece.lane for piece in pieces} | {0})


def svg(result: SimulationResult, scenario: int = 0, window_s: tuple[float, float] | None = None) -> str:
    """Ranks from top to bottom, their lanes under each other; size bound by pixels (see `pixels`)."""
    start, end = window_or_all(result, scenario, window_s)
    pieces = shown(result, scenario, (start, end))
    lanes = used_lanes(pieces)
    ranks = events_of(result).schedule.pp
    rank_height = LANE_HEIGHT * len(lanes) + RANK_GAP
    bottom = TOP + ranks * rank_height
    scale = Scale(start, end, LEFT, WIDTH - LEFT - 10)
    marks: list[str] = []
    numbers: list[str] = []
    for (rank, lane), group in groupby(pieces, key=lambda piece: (piece.rank, piece.lane)):
        y = TOP + rank * rank_height + lanes.index(lane) * LANE_HEIGHT
        on_lane = list(group)
        bars = bars_of(on_lane, scale, [LOOK_OF[piece.segment] for piece in on_lane])
        marks += [_rectangle(bar, y) for bar in bars if bar.width >= WIDE_PX]
        marks += _paths(pieces_of(bar for bar in bars if bar.width < WIDE_PX), y)
        if lane == COMPUTE:
            numbers += _numbers(bars, y + 7)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" width="{WIDTH}" '
        f'height="{bottom + 24}" font-family="sans-serif" font-size="9">',
        f'<rect width="{WIDTH}" height="{bottom + 24}" fill="white"/>',
        f'<text x="{LEFT}" y="14" font-size="12">{escape(title(result, scenario, start, end))}</text>',
        *_legend({LOOK_OF[piece.segment] for piece in pieces}),
        f'<text x="{LEFT}" y="44">Lanes of a rank, top to bottom: {", ".join(LANES[lane] for lane in lanes)}. '
        f"Numbers: micro-batches. What is narrower than {WIDE_PX:g} pixels is merged: --window shows it.</text>",
        *_axis(scale, bottom),
    ]
    rows += [f'<text x="6" y="{TOP + r * rank_height + 8}">rank {r}</text>' for r in range(ranks)]
    return "\n".join([*rows, *marks, '<g font-size="7">', *numbers, "</g>", "</svg>"])


def _rectangle(bar: Bar, y: int) -> str:
    many = "" if bar.first is bar.last else f" to layer {bar.last.layer}"
    told = f"{bar.first.name}{many} ({bar.first.part}): {bar.first.start_s * 1e3:.3f} to {bar.last.end_s * 1e3:.3f} ms"
    left, right = round(bar.left, 2), round(bar.right, 2)
    return (
        f'<rect x="{left:g}" y="{y}" width="{right - left:.2f}" height="{LANE_HEIGHT - 1}" fill="{COLOURS[bar.look]}">'
        f"<title>{escape(told)}</title></rect>"
    )


def _paths(pieces: list[Piece], y: int) -> list[str]:
    """One path a look for the merged pieces of a lane."""
    paths: dict[int, list[str]] = {}
    for piece in pieces:
        step = f"{piece.width:.1f}".removesuffix(".0")
        paths.setdefault(piece.look, []).append(f"M{piece.left:.1f} {y}h{step}v{LANE_HEIGHT - 1}h-{step}z")
    return [f'<path fill="{COLOURS[look]}" d="{"".join(parts)}"/>' for look, parts in sorted(paths.items())]


def _numbers(bars: list[Bar], y: int) -> list[str]:
    """The micro-batch of each slot that has the room, with its kind where that fits too."""
    rows = []
    for left, right, bar in _slots(bars):
        digits = str(bar.first.micro_batch)
        longer = KIND_NAMES[bar.first.kind] + digits
        text = longer if right - left >= DIGIT_PX * len(longer) + 3 else digits
        if right - left >= DIGIT_PX * len(text) + 2:
            white = ' fill="white"' if bar.look == 0 and bar.width >= WIDE_PX else ""
            rows.append(f'<text x="{left + 1.5:.1f}" y="{y}"{white}>{text}</text>')
    return rows


def _slots(bars: list[Bar]) -> list[tuple[float, float, Bar]]:
    """Runs of one operation with gaps below a pixel: left, right, first bar."""
    found: list[tuple[float, float, Bar]] = []
    for bar in bars:
        if found and found[-1][2].first.operation == bar.first.operation and bar.left - found[-1][1] < 1:
            found[-1] = (found[-1][0], bar.right, found[-1][2])
        else:
            found.append((bar.left, bar.right, bar))
    return found


def _legend(used: set[int]) -> list[str]:
    rows, x = [], float(LEFT)
    for look in sorted(used):
        rows.append(f'<rect x="{x:.0f}" y="22" width="10" height="8" fill="{COLOURS[look]}"/>')
        rows.append(f'<text x="{x + 14:.0f}" y="30">{LOOKS[look]}</text>')
        x += 30 + LEGEND_PX * len(LOOKS[look])
    return rows


def _axis(scale: Scale, bottom: int) -> list[str]:
    """Ticks above and below, lines between them. Milliseconds up to ten seconds."""
    unit, name = (1e3, "ms") if scale.end_s < 10 else (1.0, "s")
    rows = [f'<text x="{LEFT - 26}" y="{y}" text-anchor="end">{name}</text>' for y in (TOP - 6, bottom + 14)]
    for at_s in ticks(scale.start_s, scale.end_s):
        x = scale.x(at_s)
        rows.append(f'<path d="M{x:.1f} {TOP - 4}V{bottom + 4}" stroke="#cccccc"/>')
        rows += [
            f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{at_s * unit:.10g}</text>' for y in (TOP - 6, bottom + 14)
        ]
    return rows


def title(result: SimulationResult, scenario: int, start_s: float, end_s: float) -> str:
    schedule = events_of(result).schedule
    return (
        f"{schedule.name}: pp {schedule.pp}, {schedule.stages} stages, {schedule.micro_batches} micro-batches; "
        f"window {start_s * 1e3:.2f} to {end_s * 1e3:.2f} ms of a step of {float(result.step_s[scenario]) * 1e3:.2f} ms"
    )


def html_page(result: SimulationResult, scenario: int = 0, window_s: tuple[float, float] | None = None) -> str:
    """One file, no outside assets: wheel zooms, drag moves, the pointer names what is under it."""
    start, end = window_or_all(result, scenario, window_s)
    pieces = shown(result, scenario, (start, end))
    lanes = used_lanes(pieces)
    data = {
        "start": start * 1e3,
        "end": end * 1e3,
        "ranks": events_of(result).schedule.pp,
        "lanes": [LANES[lane] for lane in lanes],
        "rows": [
            [p.rank, lanes.index(p.lane), round(p.start_s * 1e3, 6), round(p.end_s * 1e3, 6), colour, p.name]
            for p in pieces
            for colour in (COLOURS[LOOK_OF[p.segment]],)
        ],
    }
    text = json.dumps(data).replace("</", "<\\/")
    legend = " ".join(
        f'<span style="border-left:12px solid {COLOURS[look]};padding-left:4px;margin-right:10px">{LOOKS[look]}</span>'
        for look in sorted({LOOK_OF[piece.segment] for piece in pieces})
    )
    return (
        PAGE.replace("@LEGEND@", legend)
        .replace("@TITLE@", escape(title(result, scenario, start, end)))
        .replace("@DATA@", text)
    )


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>body{font:13px sans-serif;margin:12px}#tip{position:fixed;background:#222;color:#fff;padding:3px 6px;display:none}
canvas{border:1px solid #ccc;width:100%}</style></head>
<body><h1 style="font-size:15px">@TITLE@</h1>
<p id="legend">@LEGEND@ Wheel: zoom. Drag: move. Double click: whole window.</p>
<canvas id="c"></canvas><div id="tip"></div>
<script>
const d=@DATA@,c=document.getElementById('c'),tip=document.getElementById('tip'),L=60,H=9,G=6;
let a=d.start,b=d.end,drag=null;
const rh=H*d.lanes.length+G;
function size(){c.width=c.clientWidth||1200;c.height=20+d.ranks*rh;draw();}
function x(t){return L+(t-a)/(b-a)*(c.width-L);}
function draw(){const g=c.getContext('2d');g.clearRect(0,0,c.width,c.height);g.font='9px sans-serif';
 for(const r of d.rows){const u=Math.max(L,x(r[2])),v=Math.min(c.width,x(r[3]));if(v<=L||u>=c.width)continue;
  g.fillStyle=r[4];g.fillRect(u,16+r[0]*rh+r[1]*H,Math.max(v-u,0.3),H-1);
  if(r[1]===0&&v-u>24){g.fillStyle='#000';g.fillText(r[5].split(' ')[0],u+2,16+r[0]*rh+7);}}
 g.fillStyle='#fff';g.fillRect(0,0,L,c.height);g.fillStyle='#000';
 for(let r=0;r<d.ranks;r++)g.fillText('rank '+r,4,16+r*rh+8);
 g.fillText(a.toFixed(3)+' ms',L,10);g.fillText(b.toFixed(3)+' ms',c.width-70,10);}
c.onwheel=e=>{e.preventDefault();const t=a+(e.offsetX-L)/(c.width-L)*(b-a),k=e.deltaY>0?1.25:0.8;a=t-(t-a)*k;b=t+(b-t)*k;draw();};
c.onmousedown=e=>{drag=[e.offsetX,a,b];};window.onmouseup=()=>{drag=null;};
c.ondblclick=()=>{a=d.start;b=d.end;draw();};
c.onmousemove=e=>{if(drag){const s=(drag[0]-e.offsetX)/(c.width-L)*(drag[2]-drag[1]);a=drag[1]+s;b=drag[2]+s;draw();return;}
 const t=a+(e.offsetX-L)/(c.width-L)*(b-a),q=Math.floor((e.offsetY-16)/rh),l=Math.floor((e.offsetY-16-q*rh)/H);
 const h=d.rows.find(r=>r[0]===q&&r[1]===l&&r[2]<=t&&t<=r[3]);
 tip.style.display=h?'block':'none';if(h){tip.style.left=(e.clientX+12)+'px';tip.style.top=(e.clientY+12)+'px';
 tip.textContent=h[5]+' ('+d.lanes[h[1]]+'): '+h[2].toFixed(3)+' to '+h[3].toFixed(3)+' ms';}};
window.onresize=size;size();
</script></body></html>
"""

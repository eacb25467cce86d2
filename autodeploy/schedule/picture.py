"""The timeline of one scenario as SVG, and as a self-contained HTML page with zoom and hover. A window is always stated."""

from __future__ import annotations

import json
from html import escape

from autodeploy.schedule.operations import KIND_NAMES
from autodeploy.schedule.request import SimulationResult
from autodeploy.schedule.segments import LANE_NAMES
from autodeploy.schedule.timeline import Slice, events_of, in_window, slices

LEFT, TOP, LANE_HEIGHT, RANK_GAP, WIDTH = 70, 40, 9, 5, 1200
COLOURS = ("#4c78a8", "#e4874a", "#e4874a", "#72a86b")  # F, B, I, W
RECOMPUTE_COLOUR, LANE_COLOURS = "#b9a4d0", ("", "#8fc7c2", "#c9b458")


def window_or_all(result: SimulationResult, scenario: int, window_s: tuple[float, float] | None) -> tuple[float, float]:
    return window_s or (0.0, float(result.pipeline_s[scenario]))


def colour(piece: Slice) -> str:
    """By direction on the compute lane, by lane otherwise."""
    if piece.lane:
        return LANE_COLOURS[piece.lane]
    return RECOMPUTE_COLOUR if 6 <= piece.segment < 12 else COLOURS[piece.kind]


def used_lanes(pieces: list[Slice]) -> list[int]:
    return sorted({piece.lane for piece in pieces} | {0})


def svg(result: SimulationResult, scenario: int = 0, window_s: tuple[float, float] | None = None) -> str:
    """Ranks from top to bottom, their lanes under each other."""
    start, end = window_or_all(result, scenario, window_s)
    pieces = in_window(slices(result, scenario), start, end)
    lanes = used_lanes(pieces)
    ranks = events_of(result).schedule.pp
    rank_height = LANE_HEIGHT * len(lanes) + RANK_GAP
    height = TOP + ranks * rank_height + 30
    scale = (WIDTH - LEFT - 10) / (end - start)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="9">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="14" font-size="12">{escape(title(result, scenario, start, end))}</text>',
        f'<text x="{LEFT}" y="28">lanes of a rank, top to bottom: {", ".join(LANE_NAMES[lane] for lane in lanes)}</text>',
    ]
    rows += [f'<text x="6" y="{TOP + r * rank_height + 9}">rank {r}</text>' for r in range(ranks)]
    for piece in pieces:
        x = LEFT + (max(piece.start_s, start) - start) * scale
        width = (min(piece.end_s, end) - max(piece.start_s, start)) * scale
        y = TOP + piece.rank * rank_height + lanes.index(piece.lane) * LANE_HEIGHT
        rows.append(
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE_HEIGHT - 1}" fill="{colour(piece)}">'
            f"<title>{escape(piece.name)}: {piece.start_s * 1e3:.3f} to {piece.end_s * 1e3:.3f} ms</title></rect>"
        )
        if piece.lane == 0 and width > 16:
            rows.append(
                f'<text x="{x + 2:.1f}" y="{y + 7}" font-size="7">{KIND_NAMES[piece.kind]}{piece.micro_batch}</text>'
            )
    return "\n".join([*rows, "</svg>"])


def title(result: SimulationResult, scenario: int, start_s: float, end_s: float) -> str:
    schedule = events_of(result).schedule
    return (
        f"{schedule.name}: pp {schedule.pp}, {schedule.stages} stages, {schedule.micro_batches} micro-batches; "
        f"window {start_s * 1e3:.2f} to {end_s * 1e3:.2f} ms of a step of {float(result.step_s[scenario]) * 1e3:.2f} ms"
    )


def html_page(result: SimulationResult, scenario: int = 0, window_s: tuple[float, float] | None = None) -> str:
    """One file, no outside assets: wheel zooms, drag moves, the pointer names what is under it."""
    start, end = window_or_all(result, scenario, window_s)
    pieces = in_window(slices(result, scenario), start, end)
    lanes = used_lanes(pieces)
    data = {
        "start": start * 1e3,
        "end": end * 1e3,
        "ranks": events_of(result).schedule.pp,
        "lanes": [LANE_NAMES[lane] for lane in lanes],
        "rows": [
            [p.rank, lanes.index(p.lane), round(p.start_s * 1e3, 6), round(p.end_s * 1e3, 6), colour(p), p.name]
            for p in pieces
        ],
    }
    text = json.dumps(data).replace("</", "<\\/")
    return PAGE.replace("@TITLE@", escape(title(result, scenario, start, end))).replace("@DATA@", text)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<style>body{font:13px sans-serif;margin:12px}#tip{position:fixed;background:#222;color:#fff;padding:3px 6px;display:none}
canvas{border:1px solid #ccc;width:100%}</style></head>
<body><h1 style="font-size:15px">@TITLE@</h1>
<p id="legend">Wheel: zoom. Drag: move. Double click: whole window.
Blue forward, orange backward, green weights, violet recompute.</p>
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

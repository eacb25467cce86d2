"""Style sheet and the two short scripts of a report page."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5b6570;--line:#d8dee4;--soft:#f3f5f7;--mark:#0b62b8;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ec;--dim:#9aa4ae;--line:#343b43;--soft:#1e2329;--mark:#6db3f8;
--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:20px 24px 60px}
h1{font-size:24px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:18px;margin:34px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
.sub,figcaption,.note{color:var(--dim)}.sub{margin:4px 0 0}figcaption,.note{font-size:13px;margin:6px 0}
.lead{background:var(--soft);border-left:4px solid var(--mark);padding:10px 14px;margin:10px 0}.lead.bad{border-color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px}
.tile{background:var(--soft);border-radius:6px;padding:10px 12px}
.tile b{display:block;font-size:20px;font-variant-numeric:tabular-nums}.tile span{color:var(--dim);font-size:13px}
.scroll{width:fit-content;max-width:100%;overflow-x:auto;
max-height:640px;overflow-y:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{padding:5px 8px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);vertical-align:top}
th.t,td.t{text-align:left}td.w{white-space:normal;min-width:215px;overflow-wrap:break-word}
thead th{position:sticky;top:0;background:var(--soft);z-index:1;padding:0}
th button{all:unset;cursor:pointer;padding:6px 8px;display:block;box-sizing:border-box;width:100%;font-weight:600}
th button:focus-visible{outline:2px solid var(--mark)}
th[aria-sort=ascending] button::after{content:" \\25B2"}th[aria-sort=descending] button::after{content:" \\25BC"}
tbody tr:last-child td{border-bottom:0}tr.tie td:first-child{box-shadow:inset 4px 0 var(--mark)}
dl{display:grid;grid-template-columns:minmax(110px,max-content) 1fr;gap:4px 18px;margin:0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
p{overflow-wrap:anywhere}
figure{margin:12px 0}.plot{width:100%}.svg{overflow-x:auto;background:#fff;border:1px solid var(--line);border-radius:6px}
.svg svg{display:block;max-width:none;min-width:700px;width:100%;height:auto}
@media (max-width:640px){main{padding:14px 12px 40px}h1{font-size:20px}dl{grid-template-columns:1fr}dd{margin-bottom:6px}}
@media print{:root{color-scheme:light;--bg:#fff;--fg:#000;--dim:#444;--line:#bbb;--soft:#f4f4f4}main{max-width:none;padding:0}
.scroll{overflow:visible;max-height:none;border:0}table{font-size:8.5pt}th,td{padding:2px 4px;white-space:normal}
thead{display:table-row-group}thead th{position:static}td.w{min-width:0}tr,.tile,figure{break-inside:avoid}h2{break-after:avoid}}
"""

SORT_JS = """
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const th = button.closest('th'), table = th.closest('table'), column = th.cellIndex;
  const up = th.getAttribute('aria-sort') !== 'ascending';
  for (const other of table.querySelectorAll('th')) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const x = key(a), y = key(b);
    if (x === '' || y === '') return (x === '') - (y === '');  // unknown comes last either way
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return up ? order : -order;
  });
  table.tBodies[0].append(...rows);
});
"""

DRAW_JS = """
const dark = matchMedia('(prefers-color-scheme: dark)'), paper = matchMedia('print');
function draw() {
  const night = dark.matches && !paper.matches, fg = night ? '#e6e9ec' : '#1b1f24', line = night ? '#343b43' : '#d8dee4';
  FIGURES.forEach((figure, i) => {
    const place = document.getElementById('plot' + i), narrow = place.clientWidth < 560;
    place.dataset.height ??= place.clientHeight;  // a narrow legend takes a line a name
    const lines = narrow && figure.layout.legend ? figure.data.length : 0;
    place.style.height = +place.dataset.height + 24 * lines + 'px';
    const layout = {...figure.layout, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true};
    layout.font = {color: fg, size: narrow ? 11 : 12.5, family: 'system-ui, sans-serif'};
    for (const name of Object.keys(layout).filter(name => /^[xy]axis/.test(name)))
      layout[name] = {...layout[name], gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true};
    if (layout.shapes) layout.shapes = layout.shapes.map(shape => ({...shape, line: {...shape.line, color: fg}}));
    layout.hoverlabel = {bgcolor: night ? '#1e2329' : '#fff', font: {color: fg}, align: 'left'};
    Plotly.react(place, figure.data, layout, {responsive: true, displaylogo: false, displayModeBar: false});
  });
}
draw();
for (const query of [dark, paper]) query.addEventListener('change', draw);
"""

"""The page in a real browser: figures are drawn, a click sorts, nothing sticks out of a phone."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from autodeploy.report.html import report_html

SEARCH = Path(__file__).parents[2] / "data" / "tables" / "search-llama-3.1-8b-16.json"
PROBE = """
<script>addEventListener('load', () => {
  const steps = () => [...document.querySelector('tbody').rows].map(row => +row.cells[2].dataset.v);
  document.querySelectorAll('th button')[2].click();
  const up = steps();
  document.querySelectorAll('th button')[2].click();
  const told = {up, down: steps(), drawn: document.querySelectorAll('.plot .main-svg').length,
                wide: document.documentElement.scrollWidth, window: document.documentElement.clientWidth};
  document.body.dataset.told = JSON.stringify(told);
})</script></body>"""


@pytest.mark.extra("chromium")
@pytest.mark.extra("plotly")
def test_a_browser_draws_and_sorts(tmp_path: Path) -> None:
    document = json.loads(SEARCH.read_text())
    page = tmp_path / "page.html"
    page.write_text(report_html(document).replace("</body>", PROBE))
    command = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=500,900", "--dump-dom")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    ran = subprocess.run([*command, profile, page.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search(r'data-told="([^"]*)"', ran.stdout)
    assert found, ran.stderr[-500:]
    told = json.loads(found[1].replace("&quot;", '"'))
    steps = sorted(row["step_time_s"] for row in document["ranked"])
    assert told["up"] == steps and told["down"] == steps[::-1]
    assert told["drawn"] >= 3
    assert told["wide"] <= told["window"]

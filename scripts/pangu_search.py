#!/usr/bin/env python3
"""Where the published Pangu Ultra MoE strategy stands in the ranking, and what moves the optimum.

    python scripts/pangu_search.py

Runs `autodeploy search` with expert communication serial (the published search came before the masking was added) and
masked, at four batches, with each peak and bandwidth of the profile 10% down and up by itself, and with the options that
could move the optimum. Prints Markdown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PUBLISHED = "TP8/PP16/VPP2/EP32"
CASE = ("pangu-ultra-moe-718b", "--devices", "6144", "--seq-length", "8192", "--method", "exhaustive", "--top", "400")
BATCHES = (3072, 4608, 6144, 9216)
TERMS = ("attention", "gemm", "experts", "memory_bound", "head", "tp_comm", "ep_comm", "recompute", "bubble")
SCALED_PROFILE = """\
name: atlas-800t-a2-{percent}
extends: atlas-800t-a2
device:
  peak_tflop_per_s: {{bf16: {bf16}, fp16: {fp16}, fp32: {fp32}}}
  hbm_bandwidth_gb_per_s: {{value: {hbm}, source: scaled}}
tiers:
  hccs: {{cards: 8, full_mesh: true, link_gb_per_s: {hccs}}}
  roce: {{cards: 131072, link_gb_per_s: {roce}}}
"""


def ranked(hardware: str, batch: int, *options: str) -> list[dict[str, Any]]:
    """The ranked groups, the fastest first."""
    arguments = (*CASE, "--hardware", hardware, "--global-batch", str(batch), *options, "--format", "json")
    done = subprocess.run([sys.executable, "-m", "autodeploy", "search", *arguments], capture_output=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["ranked"]
    return rows


def row(title: str, rows: list[dict[str, Any]]) -> str:
    place = next((i for i, one in enumerate(rows) if one["label"] == PUBLISHED and one["cp"] == 1), None)
    best = rows[0]
    head = f"| {title} | `{best['label']}` | {best['step_time_s']:.2f} | {best['mfu']:.1%} |"
    if place is None:
        return f"{head} - | - | - | - |"
    own = rows[place]
    gap = own["step_time_s"] / best["step_time_s"] - 1
    return f"{head} {place + 1} | {own['step_time_s']:.2f} | {own['mfu']:.1%} | {gap:+.1%} |"


def terms(rows: list[dict[str, Any]]) -> None:
    """The leaders and the published group, second by second."""
    shown = [*rows[:4], *(one for one in rows[4:] if one["label"] == PUBLISHED and one["cp"] == 1)]
    print(f"\n| strategy | step s | GiB | {' | '.join(TERMS)} |\n|{'---|' * (len(TERMS) + 3)}")
    for one in shown:
        seconds = " | ".join(f"{one['time_s'].get(term, 0.0):.2f}" for term in TERMS)
        print(f"| `{one['strategy']}` | {one['step_time_s']:.2f} | {one['peak_memory_gib']:.1f} | {seconds} |")


def scaled_rows(overlap: str) -> None:
    """Each figure of the machine by itself: scaling all of them at once cannot change a ratio."""
    figures = {"bf16": 294.9, "fp16": 313, "fp32": 83, "hbm": 1600, "hccs": 196, "roce": 25}
    for keys, title in (
        (("bf16", "fp16", "fp32"), "peak"),
        (("hbm",), "HBM"),
        (("hccs",), "HCCS"),
        (("roce",), "RoCE"),
    ):
        for factor in (0.9, 1.1):
            scaled = {key: round(value * (factor if key in keys else 1), 3) for key, value in figures.items()}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "scaled.yaml"
                path.write_text(SCALED_PROFILE.format(percent=round(100 * factor), **scaled))
                print(row(f"batch 4608, {title} x {factor}", ranked(str(path), 4608, overlap)), flush=True)


def main() -> int:
    head = "| case | first | step s | MFU | place of the published group | its step s | MFU | behind the first |"
    for overlap, title in (("--no-ep-overlap", "Expert communication serial"), ("--ep-overlap", "masked")):
        print(f"\n## {title}\n\n{head}\n|{'---|' * 8}", flush=True)
        for batch in BATCHES:
            print(row(f"batch {batch}", ranked("atlas-800t-a2", batch, overlap)), flush=True)
        scaled_rows(overlap)
        for options in (("--swap", "0"), ("--memory-cap", "58"), ("--micro-batch", "2"), ("--imbalance", "1")):
            print(row(f"batch 4608, {' '.join(options)}", ranked("atlas-800t-a2", 4608, overlap, *options)), flush=True)
        terms(ranked("atlas-800t-a2", 4608, overlap))
    return 0


if __name__ == "__main__":
    sys.exit(main())

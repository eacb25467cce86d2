"""The three ways to spread a sweep, each on a small matrix: the same records as one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = """\
models: [llama-3.2-1b, qwen2.5-1.5b]
hardware: h100-sxm
devices: [8, 16]
global_batch: 64
options: {method: exhaustive, top: 1, tp: 1, pp: 1, recompute: none, swap: 0, offload: 0, micro-batch: 1}
"""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    (tmp_path / "sweep.yaml").write_text(FILE)
    launcher = tmp_path / "autodeploy"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m autodeploy "$@"\n')
    launcher.chmod(0o755)
    return tmp_path, {**os.environ, "AUTODEPLOY": str(launcher), "PYTHONPATH": str(ROOT)}


def records(*files: Path) -> dict[str, object]:
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len({line["fingerprint"] for line in lines}) == len(lines) == 4
    return {line["fingerprint"]: line["ranked"][0]["step_time_s"] for line in lines}


def test_every_way_gives_the_same(place: tuple[Path, dict[str, str]]):
    folder, env = place

    def run(*words: str, **more: str) -> None:
        subprocess.run(words, cwd=folder, env={**env, **more}, check=True, capture_output=True, timeout=300)

    run("bash", str(ROOT / "scripts/sweep_loop.sh"), "sweep.yaml", "loop.jsonl", "2")
    run("bash", str(ROOT / "scripts/sweep_parallel.sh"), "sweep.yaml", "parallel", "2")
    for index in "12":
        run(
            "bash", str(ROOT / "scripts/sweep_slurm.sh"), "sweep.yaml", "slurm",
            SLURM_ARRAY_TASK_ID=index, SLURM_ARRAY_TASK_MAX="2",
        )  # fmt: skip
    loop = records(folder / "loop.jsonl")
    assert records(folder / "parallel" / "all.jsonl") == loop
    assert records(*sorted((folder / "slurm").glob("*.jsonl"))) == loop

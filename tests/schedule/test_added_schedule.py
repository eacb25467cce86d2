"""CONTRIBUTING's row for a schedule, done: a V-shaped one added to a copy of the packages, two new files and a table line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cost_models

ROOT = Path(cost_models.__file__).resolve().parent.parent
RECORD = '''"""V-Plain: the fold of ZB-V with 1F1B's whole backwards."""

from cost_models.schedules.facts import Chunks, Schedule, steady_limit


def v_plain_s(c):
    """No rank does less than its work, after the way down to it."""
    work = c.forward_s + c.input_s + c.weight_s
    return c.micro_batches * (work[: c.pp] + work[::-1][: c.pp]).max(0) + c.forward_s[: c.pp].sum(0)


V_PLAIN = Schedule(
    name="v-plain", closed_form=v_plain_s, in_flight=steady_limit(lambda p: 2 * p), limit_only=True, order="v_plain:v_plain",
    chunks=Chunks(2, 2), placement="v", searched_by=("any",),
)
'''
ORDER = '''"""V-Plain: forwards of one micro-batch down and up the V, its backwards back, one after the other."""

from autodeploy.schedule.operations import B, F, one_direction, require_two_chunks, v_placement


def v_plain(shape):
    require_two_chunks("v-plain", shape)
    last = 2 * shape.pp - 1
    orders = [
        [((kind, stage, i),) for i in range(shape.micro_batches)
         for kind, stage in ((F, r), (F, last - r), (B, last - r), (B, r))]
        for r in range(shape.pp)
    ]
    return one_direction("v-plain", shape, v_placement(shape.pp), orders)
'''
TABLE = "cost_models/schedules/table.py"


def test_two_files_and_a_table_line_add_a_v_shaped_schedule(tmp_path: Path) -> None:
    for package in ("autodeploy", "cost_models", "hardware_profiles"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    (tmp_path / "cost_models/schedules/v_plain.py").write_text(RECORD)
    (tmp_path / "autodeploy/schedule/v_plain.py").write_text(ORDER)
    table = (tmp_path / TABLE).read_text()
    assert table.count("NONE, ONE_F_ONE_B,") == 1
    table = table.replace("NONE, ONE_F_ONE_B,", "NONE, V_PLAIN, ONE_F_ONE_B,")
    table = table.replace(
        "\nSCHEDULE_TABLE", "\nfrom cost_models.schedules.v_plain import V_PLAIN\n\nSCHEDULE_TABLE", 1
    )
    (tmp_path / TABLE).write_text(table)
    case = ["--hardware", "h100-sxm", "--devices", "32", "--global-batch", "64", "--backend", "any", "--format", "json"]
    own = ["--pp", "4", "--tp", "8", "--vpp", "2", "--schedule", "v-plain"]
    found = _run(tmp_path, "search", "llama-3-8b", *case, *own)["ranked"][0]
    assert found["schedule"] == "v-plain" and "v-plain" in found["strategy"]
    alone = _run(tmp_path, "simulate", "llama-3-8b", found["strategy"], *case)
    assert alone["estimate"]["schedule"] == "v-plain" and alone["estimate"]["simulated_step_time_s"] > 0
    priced = _run(tmp_path, "estimate", "llama-3-8b", found["strategy"], *case)["estimate"]
    assert priced["schedule"] == "v-plain"
    assert abs(priced["screened_step_time_s"] / found["screened_step_time_s"] - 1) < 1e-9


def _run(folder: Path, *arguments: str) -> dict:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "autodeploy", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    document: dict = json.loads(done.stdout)
    return document

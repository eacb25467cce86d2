"""scripts/measure.py writes what ``calibrate`` reads: with a stand-in for torch, and with torch where it is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autodeploy.calibrate.measurements import AttentionTable, CollectiveTable, GemmTable, GroupedGemmTable
from autodeploy.calibrate.read import read_measurements

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "measure.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure"] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_read_by_calibrate(script: ModuleType, tmp_path: Path) -> None:
    shapes = script.Shapes(64, 128, 4, 16, 128, (32, 64), experts=4, expert_ffn=96)
    gemm = [("bf16", layout, m, n, k, 2.0 * m * n * k / 1e6) for layout, m, n, k in script.gemm_shapes(shapes)]
    grouped = [("bf16", "forward", *shape, 5.0) for shape in script.grouped_shapes(shapes)]
    attention = [("flash2", direction, 16, 1, 128, 4, 7.0) for direction in ("forward", "backward")]
    collectives = [("alltoall", "half", ranks, size, size / 1e3) for ranks in (2, 4) for size in script.message_bytes()]
    for name, columns, rows in (
        ("gemm.csv", script.GEMM_COLUMNS, gemm), ("grouped.csv", script.GROUPED_COLUMNS, grouped),
        ("attention.csv", script.ATTENTION_COLUMNS, attention), ("coll.csv", script.COLLECTIVE_COLUMNS, collectives),
    ):  # fmt: skip
        assert script.write(tmp_path / name, columns, rows) == len(rows)
    tables = read_measurements(sorted(tmp_path.glob("*.csv")))
    kinds = {
        kind: [t for t in tables if isinstance(t, kind)]
        for kind in (GemmTable, GroupedGemmTable, AttentionTable, CollectiveTable)
    }
    assert {t.layout for t in kinds[GemmTable]} == {"forward", "dgrad", "wgrad"}
    assert sum(t.seconds.size for t in kinds[GemmTable]) == len(gemm)
    assert kinds[GroupedGemmTable][0].seconds.size == len(grouped)
    assert {t.backward for t in kinds[AttentionTable]} == {False, True}
    assert kinds[CollectiveTable][0].op == "all_to_all" and set(np.unique(kinds[CollectiveTable][0].ranks)) == {2, 4}


def test_without_torch_it_says_so_in_one_line() -> None:
    head = "import runpy, sys; sys.modules['torch'] = None; sys.argv = ['measure.py']; "
    code = head + f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1 and "needs torch" in ran.stderr and "Traceback" not in ran.stderr


@pytest.mark.extra
def test_it_runs_small_on_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sizes = [
        "--hidden",
        "64",
        "--ffn",
        "128",
        "--heads",
        "4",
        "--head-dim",
        "16",
        "--sequence",
        "64",
        "--tokens",
        "32,64",
    ]
    command = [sys.executable, str(SCRIPT), *sizes, "--experts", "2", "--seconds", "0.01", "--output", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    files = [path for path in sorted(tmp_path.glob("*.csv")) if path.name != "memory_bound.csv"]
    assert len(read_measurements(files)) >= 6 and (tmp_path / "memory_bound.csv").is_file()

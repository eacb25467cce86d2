"""Two processes over gloo train a toy with live balancing on and off, are killed and resumed. Needs torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

SCRIPT = Path(__file__).with_name("toy_trainer.py")
STEPS = 40


def launch(folder: Path, name: str, balance: bool, die_after: int = 0) -> tuple[list[int], list[dict[str, Any]]]:
    """(return codes, what each rank printed)."""
    folder.mkdir(exist_ok=True)
    numbers = (str(folder), str(STEPS), str(int(balance)), str(die_after))
    command = [[sys.executable, str(SCRIPT), str(rank), str(folder / name), *numbers] for rank in (0, 1)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen(c, stdout=subprocess.PIPE, env=environment, text=True) for c in command]
    printed = [process.communicate(timeout=120)[0] for process in ranks]
    return [process.returncode for process in ranks], [json.loads(text) for text in printed if text.strip()]


@pytest.mark.extra
def test_live_balancing_changes_nothing_but_the_load(tmp_path: Path) -> None:
    codes, off = launch(tmp_path / "off", "store", balance=False)
    assert codes == [0, 0]
    codes, on = launch(tmp_path / "on", "store", balance=True)
    assert codes == [0, 0]
    assert on[0]["placement"] == on[1]["placement"] and on[0]["moved_bytes"] > 0  # alike on both ranks, and it moved
    assert on[0]["tokens"] == off[0]["tokens"] and sum(on[0]["tokens"][-1]) == 2 * 64 * 2
    assert np.allclose(on[0]["loss"], off[0]["loss"], rtol=1e-6, atol=0)
    assert off[0]["loss"][-1] < 0.9 * off[0]["loss"][0]  # it learns
    assert np.mean(on[0]["peak"][20:]) < 1 + 0.5 * (np.mean(off[0]["peak"][20:]) - 1)

    codes, _ = launch(tmp_path / "killed", "store", balance=True, die_after=27)
    assert codes == [-9, -9]
    codes, resumed = launch(tmp_path / "killed", "store2", balance=True)
    assert codes == [0, 0]
    assert resumed[0]["placement"] == on[0]["placement"] == resumed[1]["placement"]
    assert resumed[0]["loss"] == on[0]["loss"] and resumed[0]["tokens"] == on[0]["tokens"]


@pytest.mark.extra
def test_torch_data_loader_takes_the_sampler() -> None:
    from torch.utils.data import DataLoader, Sampler

    from autodeploy.balance.live import torch_batch_sampler

    order = np.arange(24).reshape(2, 2, 3, 2)
    sampler = torch_batch_sampler(order, 1, 2)
    assert isinstance(sampler, Sampler)
    batches = [batch.tolist() for batch in DataLoader(list(range(24)), batch_sampler=sampler)]
    assert batches == order[:, 1].reshape(-1, 2).tolist() and len(sampler) == 6


@pytest.mark.extra
def test_a_dump_of_sglang_is_read(tmp_path: Path) -> None:
    from autodeploy.balance.live import read_record

    counts = torch.tensor([[[3, 1, 0]], [[2, 2, 2]], [[0, 0, 0]]])  # the last row of the buffer is unused
    torch.save({"rank": 0, "logical_count": counts}, tmp_path / "dump.pt")
    assert read_record(tmp_path / "dump.pt").tolist() == [[[3, 1, 0]], [[2, 2, 2]]]

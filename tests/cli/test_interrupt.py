"""Ctrl-C at any moment: no traceback, exit code 130, and the best so far once there is one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

# Hundreds of sizes: a search of one is over before the signal.
SEARCH = ["search", "pangu-ultra-moe-718b", "--hardware", "atlas-800t-a2", "--devices", "512..6144", "--seq-length",
          "8192", "--global-batch", "4608", "--top", "3"]  # fmt: skip


@pytest.mark.parametrize(("after_s", "workers"), [(0.3, "1"), (4.0, "1"), (4.0, "2")])
def test_an_interrupted_search_says_what_it_found(after_s: float, workers: str) -> None:
    code = "import sys; from autodeploy.cli.app import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *SEARCH, "--workers", workers], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in err, err
    if out:
        assert "Stopped by Ctrl-C" in out and process.returncode == 130

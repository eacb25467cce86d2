"""``--help`` and ``estimate`` answer at once: nothing heavy is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("optuna", "scipy", "pydantic", "rich", "sqlalchemy", "pandas", "hypothesis")
ESTIMATE = ["estimate", "llama-3.1-8b", "TP2/PP2", "--hardware", "h100-sxm", "--devices", "16", "--global-batch", "64"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["search", "--help"], ESTIMATE], ids=["help", "search-help", "estimate"]
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    code = (
        "import sys; from autodeploy.cli.app import main; assert main(sys.argv[1:]) == 0;"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "HEAVY []"


def test_as_a_module_and_in_a_pipe() -> None:
    command = f"{sys.executable} -m autodeploy {' '.join(ESTIMATE)} | head -n 1"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("llama-3.1-8b") and ran.stderr == ""

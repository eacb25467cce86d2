"""The commands that the README promises to a newcomer are run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SETUP = "python3 -m venv .venv && .venv/bin/pip install -q . && "  # what a user needs
DEVELOPERS = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && "
BLOCKS = re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_it_opens_with_a_search_and_the_tests() -> None:
    assert BLOCKS[0].startswith(SETUP + ".venv/bin/autodeploy search ") and BLOCKS[0].count("\n") == 1
    assert BLOCKS[1] == DEVELOPERS + ".venv/bin/pytest\n"


def test_its_table_names_every_command_once_with_advise_second() -> None:
    from autodeploy.cli.app import COMMANDS

    named = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(COMMANDS) and named[:2] == ["search", "advise"]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository to these commands; the first ones leave files for the later ones."""
    folder = tmp_path_factory.mktemp("newcomer")
    shutil.copytree(ROOT / "hardware_profiles", folder / "hardware_profiles")
    (folder / ".venv" / "bin").mkdir(parents=True)
    command = folder / ".venv" / "bin" / "autodeploy"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m autodeploy "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize("block", [BLOCKS[0].removeprefix(SETUP), *BLOCKS[2:]], ids=lambda block: block[:40])
def test_the_commands_run(block: str, newcomer: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(["bash", "-ec", block], cwd=newcomer, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout and "error" not in ran.stderr

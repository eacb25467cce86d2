"""The commands of docs/launch.md are those that its script runs, and run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from autodeploy.cli.app import main

ROOT = Path(__file__).parents[1]
COMMANDS = re.findall(r"^```\n(autodeploy .*)\n```$", (ROOT / "docs" / "launch.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out
    assert command.split()[1] in ("estimate", "explain", "compare", "export", "diagnose") and len(COMMANDS) == 5

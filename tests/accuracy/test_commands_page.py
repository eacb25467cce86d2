"""docs/commands.md: every command is typed into the real command line and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [block.replace("\\\n", " ") for block in re.findall(r"```\n(.*?)\n```", TEXT, flags=re.DOTALL)]
FIGURES = re.findall(r"Measured \*\*([\d.]+) s\*\*, printed \*\*([\d.]+) s\*\*: ([+-][\d.]+)%", TEXT)


def test_ten_commands_over_the_machines_and_precisions():
    assert len(COMMANDS) == len(FIGURES) == 10
    for word in ("h100", "gb200", "mi300x", "ascend", "fp8", "bf16"):
        assert any(word in command for command in COMMANDS)
    assert sum("--imbalance" in command or "EP" in command for command in COMMANDS) >= 3


@pytest.mark.parametrize(("command", "figures"), list(zip(COMMANDS, FIGURES, strict=True)))
def test_the_command_prints_what_the_page_says(command, figures, capsys):
    measured, printed, error = (float(figure) for figure in figures)
    found = run(capsys, *shlex.split(command)[1:], "--format", "json")
    assert found.code in (0, 3), found.err
    step_s = found.json["estimate"]["step_time_s"]
    assert step_s == pytest.approx(printed, rel=6e-4), "run scripts/commands_page.py"
    assert step_s / measured - 1 == pytest.approx(error / 100, abs=2e-3)
    assert abs(step_s / measured - 1) < 0.5

"""What needs more than the base installation is skipped where it is absent, counted, and named in one line.

``@pytest.mark.extra("torch")`` names a Python module or a program; ``@pytest.mark.shared`` needs ../shared.
AUTODEPLOY_NO_SKIP=1 (``.ci/run --all``) makes a skip fail the run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

# A loaded machine is no failure.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def _is_there(tool: str) -> bool:
    return shutil.which(tool) is not None or (tool.isidentifier() and importlib.util.find_spec(tool) is not None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("extra"):
            tool = str(marker.args[0]) if marker.args else "a tool"
            if marker.args and not _is_there(tool):
                item.add_marker(pytest.mark.skip(reason=f"extra {tool}"))
        if item.get_closest_marker("shared") and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason="shared data"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """../shared, the data that the repository does not carry."""
    if not SHARED.is_dir():
        pytest.skip("shared data")
    return SHARED


def _skips(reporter: pytest.TerminalReporter) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for report in reporter.stats.get("skipped", []):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    return reasons


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = _skips(terminalreporter)
    if reasons:
        named = ", ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
        terminalreporter.write_line(f"not run for want of a tool or data: {sum(reasons.values())}: {named}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    strict = os.environ.get("AUTODEPLOY_NO_SKIP", "") not in ("", "0")
    if strict and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

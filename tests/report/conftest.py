"""The published runs, read once."""

from __future__ import annotations

import pytest

from autodeploy.accuracy import RunSet, read_runs


@pytest.fixture(scope="session")
def run_set() -> RunSet:
    return read_runs()

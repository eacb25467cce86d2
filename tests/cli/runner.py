"""Runs a command line in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from autodeploy.cli.app import main

SMALL = ["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "16", "--seq-length", "4096", "--global-batch", "64"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


def search(capsys: pytest.CaptureFixture[str], *options: str, case: list[str] = SMALL) -> Ran:
    return run(capsys, "search", *case, *options)


def estimate(capsys: pytest.CaptureFixture[str], strategy: str, *options: str, case: list[str] = SMALL) -> Ran:
    return run(capsys, "estimate", case[0], strategy, *case[1:], *options)

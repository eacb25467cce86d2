"""``--report``: the page beside the result of every command that has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import run

LLAMA = ("llama-3.1-8b", "TP2/PP2", "--hardware", "h100-sxm", "--devices", "16", "--global-batch", "16")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _fake_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is no part of these tests: they run without it."""
    for module in ("autodeploy.report.html", "autodeploy.report.html.document"):
        monkeypatch.setattr(f"{module}.plotly_js", lambda: "let Plotly;")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_one_strategy(command: str, page: Path, capsys: Capture) -> None:
    ran = run(capsys, command, *LLAMA, "--report", str(page))
    assert ran.code == 0 and f"report: {page}" in ran.err
    text = page.read_text()
    assert "By pipeline rank" in text and "What this assumes" in text
    assert ("<svg" in text) == (command == "simulate")


def test_search(page: Path, capsys: Capture) -> None:
    words = ("search", LLAMA[0], *LLAMA[2:], "--tp", "2", "--pp", "1,2", "--top", "2", "--report", str(page))
    assert run(capsys, *words).code == 0
    assert "Ranking" in page.read_text() and "Memory and throughput" in page.read_text()


def test_accuracy(page: Path, capsys: Capture) -> None:
    assert run(capsys, "accuracy", "--group", "korthikanti", "--report", str(page)).code == 0
    text = page.read_text()
    assert "korthikanti/bf16" in text and "Not judged" in text


def test_balance_data(page: Path, tmp_path: Path, capsys: Capture) -> None:
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("\n".join(str(n) for n in (100, 900, 50, 400) * 8))
    shape = ("--seq-length", "1024", "--dp", "4", "--alpha", "1e-6")
    assert run(capsys, "balance", "data", str(lengths), *shape, "--report", str(page)).code == 0
    assert "Samples balanced" in page.read_text()


def test_balance_experts(page: Path, tmp_path: Path, capsys: Capture) -> None:
    loads = tmp_path / "loads.csv"
    rows = [f"{step},0,{expert},{100 * (expert + 1)}" for step in range(4) for expert in range(8)]
    loads.write_text("\n".join(["step,layer,expert,tokens", *rows]))
    cards = ("--input", str(loads), "--cards-per-node", "4", "--slots", "8")
    for more in (("--place",), ("--bytes-per-expert", "1e6", "--hardware", "h800")):
        ran = run(capsys, "balance", "experts", *cards, *more, "--report", str(page))
        assert ran.code == 0, ran.err
        assert "Experts balanced" in page.read_text()
        page.unlink()


def test_balance_layers(page: Path, capsys: Capture) -> None:
    assert run(capsys, "balance", "layers", *LLAMA, "--timeout", "2", "--report", str(page)).code == 0
    assert "Stages after" in page.read_text()


def test_what_cannot_be_written_is_said_before_the_work(tmp_path: Path, capsys: Capture) -> None:
    for path, why in ((tmp_path / "page.pdf", ".html"), (tmp_path / "no" / "page.html", "folder")):
        ran = run(capsys, "estimate", *LLAMA, "--report", str(path))
        assert ran.code == 2 and ran.out == ""
        assert "--report" in ran.err and why in ran.err
        assert not path.exists()


def test_the_result_is_the_same_with_a_report(page: Path, capsys: Capture) -> None:
    plain = run(capsys, "estimate", *LLAMA, "--format", "json")
    assert run(capsys, "estimate", *LLAMA, "--format", "json", "--report", str(page)).out == plain.out

"""Bad input: one line on standard error that names field, value and what is allowed; exit code 2; no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autodeploy.cli import app
from tests.cli.runner import Ran, estimate, run, search

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}
CASE = ["--hardware", "h100-sxm", "--devices", "16", "--global-batch", "64"]


def one_line(ran: Ran, *words: str) -> None:
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1 and "Traceback" not in ran.err, ran.err
    assert ran.out == ""
    for word in words:
        assert word in lines[0], (word, lines[0])


def config(tmp_path: Path, **changes: Any) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in {**CONFIG, **changes}.items() if value is not None}))
    return str(path)


def test_a_good_config_is_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert search(capsys, "--method", "exhaustive", case=[config(tmp_path), *CASE]).code == 0


def test_missing_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one_line(search(capsys, case=[config(tmp_path, hidden_size=None), *CASE]), "hidden_size")


def test_negative_size(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one_line(search(capsys, case=[config(tmp_path, num_hidden_layers=-8), *CASE]), "num_hidden_layers", "-8")


def test_truncated_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG)[:50])
    one_line(search(capsys, case=[str(path), *CASE]), str(path))


def test_binary_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("config.json", "model.yaml", "arguments.sh"):
        path = tmp_path / name
        path.write_bytes(bytes(range(256)) * 8)
        one_line(search(capsys, case=[str(path), *CASE]), name)


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"text"', "{}"])
def test_json_that_is_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    one_line(search(capsys, case=[str(path), *CASE]))


def test_a_folder_is_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one_line(search(capsys, case=[str(tmp_path), *CASE]), tmp_path.name)


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    one_line(search(capsys, case=["llama-3.1-8bb", *CASE]), "llama-3.1-8bb")
    one_line(search(capsys, case=["llama-3.1-8b", "--hardware", "h1000", *CASE[2:]]), "h1000")


def test_profile_with_an_unknown_field(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import hardware_profiles

    shipped = Path(hardware_profiles.__path__[0]) / "h100-sxm.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(shipped.read_text() + "\nwarp_drive: 9\n")
    one_line(search(capsys, case=["llama-3.1-8b", "--hardware", str(path), *CASE[2:]]), "warp_drive")


def test_tp_that_does_not_divide_the_heads(capsys: pytest.CaptureFixture[str]) -> None:
    one_line(
        estimate(capsys, "TP3", case=["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "48"]), "TP3", "heads"
    )


def test_a_batch_that_does_not_divide(capsys: pytest.CaptureFixture[str]) -> None:
    case = ["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "16", "--global-batch", "63"]
    one_line(estimate(capsys, "TP2", case=case), "63", "DP")


def test_more_ranks_than_cards(capsys: pytest.CaptureFixture[str]) -> None:
    case = ["llama-3.1-8b", "--hardware", "h100-sxm", "--devices", "8", "--global-batch", "64"]
    one_line(estimate(capsys, "TP8/PP2", case=case), "8", "16")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--devices", "8", "--tp", "8", "--pp", "2"], ["--tp 8", "--pp 2", "world"]),
        (["--devices", "48", "--tp", "3"], ["--tp 3", "heads"]),
        (
            ["--devices", "16", "--global-batch", "3", "--tp", "2", "--pp", "1", "--cp", "1"],
            ["--global-batch 3", "batch"],
        ),
    ],
)
def test_options_that_leave_nothing_valid(
    capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    one_line(search(capsys, *options, case=["llama-3.1-8b", "--hardware", "h100-sxm"]), *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--devices", "-4"], ["--devices", "-4"]),
        (["--devices", "64..8"], ["--devices", "64..8"]),
        (["--devices", "many"], ["--devices", "many"]),
        (["--seq-length", "0"], ["--seq-length", "0"]),
        (["--seq-length", "long"], ["--seq-length", "long"]),
        (["--global-batch", "-1"], ["--global-batch", "-1"]),
        (["--precision", "int4"], ["--precision", "int4", "bf16"]),
        (["--backend", "fairseq"], ["--backend", "fairseq", "megatron"]),
        (["--memory-cap", "-1"], ["--memory-cap", "-1"]),
        (["--memory-cap", "nan"], ["--memory-cap", "nan"]),
        (["--tokens", "few"], ["--tokens", "few"]),
        (["--price-per-device-hour", "2"], ["--price-per-device-hour", "--tokens"]),
        (["--tp", "0"], ["tp", "0"]),
        (["--tp", "8..2"], ["tp", "8..2"]),
        (["--recompute", "everything"], ["recompute", "everything"]),
        (["--schedule", "waltz"], ["schedule", "waltz", "1f1b"]),
        (["--zero", "7"], ["zero", "7"]),
        (["--objective", "beauty"], ["--objective", "beauty", "time"]),
        (["--method", "magic"], ["--method", "magic", "exhaustive"]),
        (["--top", "0"], ["--top", "0"]),
        (["--trials", "-1"], ["--trials", "-1"]),
        (["--workers", "0"], ["--workers", "0"]),
        (["--timeout", "-1"], ["--timeout", "-1"]),
        (["--format", "xml"], ["--format", "xml", "json"]),
        (["--output", "/no/such/folder/x"], ["--output", "/no/such/folder"]),
        (["--storage", "nonsense://x", "--study", "s"], ["--storage", "nonsense"]),
        (["--no-such-option"], ["--no-such-option"]),
    ],
)
def test_bad_options_of_search(capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]) -> None:
    one_line(search(capsys, *options), *words)


def test_bad_imbalance_of_a_moe(capsys: pytest.CaptureFixture[str]) -> None:
    one_line(search(capsys, "--imbalance", "0.5", case=["qwen3-30b-a3b", *CASE]), "--imbalance", "0.5")


@pytest.mark.parametrize(
    "strategy", ["", "TP", "TP8/TP4", "TP8//PP2", "XP8", "TP0", "TP2/selective()", "TP2/full(", "TP2/ZeRO9"]
)
def test_bad_notation(capsys: pytest.CaptureFixture[str], strategy: str) -> None:
    one_line(estimate(capsys, strategy))


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    one_line(run(capsys, "serch"), "serch", "search")
    one_line(run(capsys, "search"), "model")
    assert run(capsys, "--version").code == 0
    assert run(capsys, "search", "--help").code == 0


def test_a_fault_of_ours_is_one_line_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("the gears\nhave jammed")

    monkeypatch.setattr(app, "build_app", broken)
    ran = run(capsys, "search")
    assert ran.code == app.INTERNAL_ERROR and ran.err.count("\n") == 1 and "AUTODEPLOY_DEBUG" in ran.err
    monkeypatch.setenv("AUTODEPLOY_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run(capsys, "search")

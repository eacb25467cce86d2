"""``export``, ``search --export-dir``, and launch files as MODEL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import run

DATA = Path(__file__).parents[1] / "data" / "launch"
LLAMA = ("llama-3-8b", "TP4/PP2", "--devices", "16", "--global-batch", "64")


def test_what_is_exported_is_estimated_alike(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    assert run(capsys, "export", *LLAMA, "--to", "megatron", "--output", str(path)).code == 0
    shared = ("--hardware", "h100-sxm", "--format", "json")
    typed = run(capsys, "estimate", *LLAMA, *shared)
    read = run(capsys, "estimate", str(path), *shared)
    assert read.err == ""
    for key in ("strategy", "step_time_s", "peak_memory_gib", "stack"):
        assert read.json["estimate"].get(key) == typed.json["estimate"].get(key)


def test_the_command_wins_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(DATA / "megatron_arrays.sh")
    options = ("--hardware", "h100-sxm", "--seq-length", "8192", "--micro-batch", "2", "--devices", "64")
    ran = run(capsys, "estimate", file, *options, "--format", "json")
    assert ran.json["seq_length"] == 8192 and ran.json["global_batch"] == 256 and ran.json["devices"] == 64
    assert ran.json["estimate"]["micro_batch"] == 2 and ran.json["estimate"]["cp"] == 2
    for said in ("--seq-length 8192 wins over its 32768", "--devices 64 wins over its 128", "MBS2 wins"):
        assert said in ran.err
    ran = run(capsys, "estimate", file, "TP8/PP8", "--hardware", "h100-sxm", "--format", "json")
    assert "STRATEGY TP8/PP8 wins over its TP8/PP4/VPP4/EP1/CP2/selective(core_attn)" in ran.err


def test_a_launch_file_says_what_a_model_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "estimate", "llama-3-8b", "--hardware", "h100-sxm", "--devices", "8")
    assert ran.code == 2 and "STRATEGY" in ran.err and "launch script" in ran.err
    ran = run(capsys, "estimate", "llama-3-8b", "TP8", "--hardware", "h100-sxm")
    assert ran.code == 2 and "--devices" in ran.err
    ran = run(capsys, "estimate", "llama-3-8b", "TP8", "--hardware", "h100-sxm", "--devices", "8", "--vocab-size", "0")
    assert ran.code == 2 and "--vocab-size" in ran.err


def test_another_vocabulary_is_priced(capsys: pytest.CaptureFixture[str]) -> None:
    """Four times the rows of embedding and head: more memory, more time, more parameters by 2 x 3 x 128256 x 4096."""
    argv = ["estimate", "llama-3-8b", "TP8", "--hardware", "h100-sxm", "--devices", "8", "--format", "json"]
    plain, wide = (run(capsys, *argv, *more).json for more in ([], ["--vocab-size", str(4 * 128256)]))
    assert wide["model"]["parameters"] - plain["model"]["parameters"] == 2 * 3 * 128256 * 4096
    for key in ("step_time_s", "peak_memory_gib"):
        assert wide["estimate"][key] > plain["estimate"][key]


@pytest.mark.parametrize(
    ("strategy", "to", "said"),
    [
        ("TP4/PP2/offload0.5", "mindspeed", "offload-whole"),
        ("TP4/PP2/swap1", "torchtitan", "swap-backend"),
        ("TP1/PP2", "deepspeed", "PipelineModule"),
        ("TP4/PP2/zb-h1", "megatron", "schedule-backend"),
        ("TP4", "nemo", "--to"),
    ],
)
def test_what_a_target_cannot_express_is_refused(
    capsys: pytest.CaptureFixture[str], strategy: str, to: str, said: str
) -> None:
    ran = run(capsys, "export", "llama-3-8b", strategy, "--to", to, "--devices", "16", "--global-batch", "64")
    assert ran.code == 2 and said in ran.err and ran.out == ""


def test_a_field_that_the_target_has_no_setting_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "export", *LLAMA, "--to", "megatron", "--set", "host_cost_factor=2")
    assert ran.code == 2 and "host_cost_factor" in ran.err
    ran = run(capsys, "export", *LLAMA, "--to", "megatron", "--set", "overlap_grad_reduce=false")
    assert ran.code == 0 and "--overlap-grad-reduce" not in ran.out


def test_a_search_leaves_launch_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--hardware", "h100-sxm", "--devices", "8", "--global-batch", "32", "--tp", "4,8", "--pp", "1")
    where = ("--export-dir", str(tmp_path / "out"), "--export-top", "2")
    ran = run(capsys, "search", "llama-3-8b", *options, *where, "--format", "json")
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 2 and str(tmp_path / "out") in ran.err
    again = run(capsys, "estimate", str(files[0]), "--hardware", "h100-sxm", "--format", "json")
    row = ran.json["ranked"][0]
    assert again.json["estimate"]["strategy"] == row["strategy"]
    assert again.json["estimate"]["step_time_s"] == pytest.approx(row["step_time_s"])

"""Rows as a user would type them: the command runs, prices the same, and sets nothing that it must not."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

from autodeploy.accuracy import compare, read_runs
from autodeploy.accuracy.programs import FRAMEWORKS, release_of, stack_of
from autodeploy.stacks import stack_names
from tests.cli.runner import run

ALLOWED = {
    "--hardware", "--devices", "--seq-length", "--global-batch", "--precision", "--backend", "--stack", "--set",
    "--imbalance",
}  # fmt: skip


@pytest.fixture(scope="module")
def sample(run_set):
    """Real prices of one row of every source: its last timed one, which nobody chose."""
    last = {each.group: each for each in run_set.runs if each.step_time_s is not None and (each.pp or 0) <= 16}
    return compare(run_set, runs=list(last.values())).results


def test_commands_are_runnable_and_print_the_same(sample, capsys):
    assert len(sample) > 20
    for result in [each for each in sample if each.typed is not None][::4]:
        words = shlex.split(result.typed.command)
        assert words[:2] == ["autodeploy", "estimate"]
        found = run(capsys, *words[1:], "--format", "json")
        assert found.code in (0, 3), found.err
        entry = found.json["estimate"]
        assert entry["step_time_s"] == pytest.approx(result.typed.step_s, rel=1e-9), result.typed.command
        assert entry["peak_memory_gib"] * 2**30 == pytest.approx(result.typed.reserved_bytes, rel=1e-9)


def test_nothing_else_is_typed(fake_report):
    for result in fake_report.results:
        if result.typed is None:
            continue
        words = shlex.split(result.typed.command)
        assert {word for word in words if word.startswith("--")} <= ALLOWED
        sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        assert all(text.startswith("attention_kernel=") for text in sets) and len(sets) <= 1
        assert not sets or result.run.attention_kernel, "the kernel is typed where the row states it"
        if "--imbalance" in words:
            assert result.run.routing and result.run.kind == "moe"


def test_every_predicted_row_is_typed_or_says_why(fake_report):
    for result in fake_report.results:
        if result.skipped is None:
            assert (result.typed is None) == bool(result.untyped)
    gated = [r for r in fake_report.results if r.run.gated and r.skipped is None]
    assert sum(r.untyped is not None for r in gated) <= 0.01 * len(gated)


def test_the_stack_follows_from_framework_and_release_alone(run_set):
    """Whatever else a row says, rows of one source and release have one stack; every stack that is chosen ships."""
    found: dict[tuple, set[str]] = {}
    for each in run_set.runs:
        own = (each.extra.get("framework"), each.extra.get("software"), "mindformers" in each.source.lower())
        found.setdefault((each.group, own, release_of(each)), set()).add(stack_of(each))
        bare = replace(
            each, id="x", model="m", kind="dense", device="h100-sxm", precision="bf16", attention_kernel=None, tp=1,
            extra={key: each.extra[key] for key in ("framework", "software") if key in each.extra},
        )  # fmt: skip
        assert stack_of(bare) == stack_of(each)
    assert all(len(stacks) == 1 for stacks in found.values())
    assert {stack for stacks in found.values() for stack in stacks} <= set(stack_names())


def test_eras_are_in_order_and_ship():
    for framework in FRAMEWORKS:
        first = [since for since, _ in framework.eras]
        assert first == sorted(first) and first[0] == (0, 0)
        assert {stack for _, stack in framework.eras} | {framework.unknown} <= set(stack_names())
        re.compile(framework.words)


@pytest.mark.parametrize(
    ("family", "source", "release"),
    [
        ("dgxc/llama/h100/bf16/v24.11.1", "s", (24, 11)),
        ("megatron_bridge/x/gb200/fp8/26.02.01", "s", (26, 2)),
        ("torchtitan/llama3-8b/h200/fp8/2025-06", "s", (25, 6)),
        ("torchtitan/llama3-8b/h100/fp8", "benchmarks/llama3_h100_202412_torchtitan.md", (24, 12)),
        ("x/y/bf16", "NeMo container 25.09, Pre-Training", (25, 9)),
        ("x/y/bf16", "Table 3", None),
    ],
)
def test_releases(run_set, family, source, release):
    assert release_of(replace(run_set.runs[0], family=family, source=source)) == release


def test_models_of_other_folders_are_named_by_their_file(tmp_path, capsys):
    shipped = read_runs()
    (tmp_path / "models.yaml").write_text("tiny: {name: Tiny, num_layers: 4, hidden_size: 512, num_attention_heads: 8, "
                                          "ffn_hidden_size: 1024, vocab_size: 32000}\n")  # fmt: skip
    (tmp_path / "mine.csv").write_text(
        "id,group,family,source,model,kind,complete,seq_length,device,num_devices,tp,pp,micro_batch,global_batch,recompute,"
        "precision,step_time_s\nmine-1,mine,mine/tiny,my Megatron-LM log,tiny,dense,True,1024,h100-sxm,8,1,2,1,64,none,bf16,"
        "0.5\n"
    )
    result = compare(read_runs(tmp_path)).results[0]
    assert f"{tmp_path / 'models.yaml'}:tiny" in result.typed.command
    assert run(capsys, *shlex.split(result.typed.command)[1:], "--format", "json").code == 0
    assert np.isfinite(result.typed.step_s) and not shipped.model_files

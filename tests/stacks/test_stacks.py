"""Software stacks: every shipped file, every field, and what a bad name or value says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autodeploy.errors import InputError
from autodeploy.hardware import load_hardware
from autodeploy.models import load_model
from autodeploy.models.files import parse_yaml
from autodeploy.one_strategy import price_one
from autodeploy.stacks import Program, default_stack, load_stack, parse_sets, settle, stack_names
from autodeploy.stacks.apply import context_of
from autodeploy.stacks.fields import KERNEL_SETS, stack_fields
from autodeploy.stacks.load import DEFAULTS, FOLDER
from autodeploy.stacks.schema import validate
from autodeploy.stacks.show import list_document, stack_document
from autodeploy.stacks.stack import Context
from autodeploy.strategy.backends import BACKENDS
from cost_models.case import Case
from cost_models.inputs import SoftwareStack

KNOWN_BACKENDS = {*BACKENDS, "deepspeed"}


@pytest.mark.parametrize("name", stack_names())
def test_every_shipped_file_holds_its_schema_and_states_sources(name: str) -> None:
    document = validate(parse_yaml((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), name))
    stack = load_stack(name)
    assert document["name"] == name
    assert set(stack.backends) <= KNOWN_BACKENDS
    assert stack.base, "a stack that states nothing says nothing"
    for settings in (stack.base, *(rule.settings for rule in stack.rules)):
        assert all(len(setting.source) > 12 for setting in settings.values()), "a source is more than a word"


@pytest.mark.parametrize("backend", [*DEFAULTS, "any"])
def test_every_back_end_has_a_default(backend: str) -> None:
    for machine in ("megatron", "mindspeed"):
        stack = load_stack(default_stack(backend, machine))
        assert (machine if backend == "any" else backend) in stack.backends


def test_a_stack_on_a_machine_that_runs_it_settles() -> None:
    """Every stack prices on every machine of its vendor; one with another vendor's kernel says so."""
    model = load_model("llama-3-8b")
    for name in stack_names():
        program = Program(stack=load_stack(name))
        ascend = "mindspeed" in program.stack.backends
        hardware = load_hardware("atlas-800t-a2" if ascend else "h100-sxm")
        settled = settle(program, model, hardware, seq_length=4096, global_batch=64, precision="bf16")
        assert settled.workload.stack.attention_kernel != "auto"
    with pytest.raises(InputError, match="npu_flash"):
        settle(
            Program(stack=load_stack("mindspeed-llm-2")), model, load_hardware("h100-sxm"),
            seq_length=4096, global_batch=64, precision="bf16",
        )  # fmt: skip


def test_rules_look_at_the_case() -> None:
    stack = load_stack("megatron-lm-2021")
    assert stack.values(Context(precision="fp16"))["grad_dtype"] == "fp16"
    assert stack.values(Context(precision="bf16"))["grad_dtype"] == "fp32"
    assert "dropout" not in stack.values(Context())
    assert stack.values(Context(architecture="gpt"))["dropout"] is True
    hopper, blackwell = load_hardware("h100-sxm"), load_hardware("gb200-nvl72")
    bridge = load_stack("megatron-bridge-26")
    moe = load_model("qwen3-30b-a3b")
    assert bridge.values(context_of(moe, blackwell, "bf16"))["cuda_graphs"] is True
    assert "cuda_graphs" not in bridge.values(context_of(moe, hopper, "bf16"))


def test_a_child_wins_over_the_rules_of_what_it_extends(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ntitle: t\nframework: f\nreleases: r\nbackends: [megatron]\nextends: megatron-lm-2021\n"
        "sources: {log: my own log}\nfields: {grad_dtype: {value: bf16, source: 'log: line 3'}}\n"
    )
    mine = load_stack(str(file))
    setting = mine.settings(Context(precision="fp16"))["grad_dtype"]
    assert (setting.value, setting.source) == ("bf16", "my own log; line 3")
    assert mine.values(Context())["attention_kernel"] == "fused_softmax"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grad_dtpye=bf16", "did you mean grad_dtype"),
        ("grad_dtype=int8", "one of fp32, bf16, fp16"),
        ("overlap_tp", "field=value"),
        ("overlap_tp=maybe", "true or false"),
        ("hierarchical_chunks=0", "a whole number >= 1"),
        ("host_cost_factor=nan", "a number >= 0"),
        ("host_cost_factor=-1", "a number >= 0"),
    ],
)
def test_a_bad_set_says_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_sets([text])


def test_a_field_is_set_once_and_a_stack_has_a_known_name() -> None:
    with pytest.raises(InputError, match="set twice"):
        parse_sets(["overlap_tp=on", "overlap_tp=off"])
    with pytest.raises(InputError, match="did you mean megatron-core-2026"):
        load_stack("megatron-core-2027")


def test_documents_show_every_field() -> None:
    assert {row["name"] for row in list_document()["stacks"]} == set(stack_names())
    document = stack_document("nemo-25")
    assert {field["field"] for field in document["fields"]} == set(stack_fields())
    assert all(field["meaning"] for field in document["fields"]), "a field without a meaning is a riddle"
    stated = [field for field in document["fields"] if field["stated"]]
    assert all("default" not in field["source"] for field in stated)


def test_what_a_machine_says_stays_unless_the_stack_says_otherwise() -> None:
    machine = load_hardware("h100-sxm")
    machine = dataclasses.replace(machine, stack=dataclasses.replace(machine.stack, dropout=True))
    settled = settle(
        Program(stack=load_stack("megatron-core-2026")), load_model("llama-3-8b"), machine,
        seq_length=4096, global_batch=64, precision="bf16",
    )  # fmt: skip
    assert settled.workload.stack.dropout and settled.workload.stack.attention_kernel == "cudnn"


# ------------------------------------------------------------------------- nothing that can be set is without effect

# (model, strategy, hardware, cards, precision, base settings): together they reach every field.
CASES = (
    ("llama-3-8b", "TP2/PP2/VPP2/MBS1", "h100-sxm", 32, "fp8", {}),
    ("llama-3-8b", "TP4/PP2/noSP", "h100-sxm", 64, "bf16", {}),
    ("llama-3-8b", "TP2/ZeRO3", "h100-sxm", 16, "fp8", {"fsdp": True, "fused_norm": False, "fused_optimizer": False,
                                                         "transformer_engine": False, "fused_cross_entropy": False}),
    ("llama-3-8b", "TP8/noSP/ZeRO0", "h100-sxm", 16, "bf16", {}),
    ("qwen3-0.6b", "TP1", "h100-sxm", 256, "bf16", {"grad_dtype": "bf16"}),
    ("gpt3-175b", "TP8/PP8/noSP/MBS1", "a100-80g-sxm", 64, "bf16", {"attention_kernel": "flash2", "dropout": True,
                                                               "transformer_engine": False}),
    ("deepseek-v3", "TP2/PP4/EP16/hierarchical-dedup", "h100-sxm", 128, "bf16", {"overlap_grad_reduce": False}),
    ("qwen3-30b-a3b", "EP8", "b200", 8, "mxfp8", {"cuda_graphs": True}),
    ("llama-3-8b", "TP2/PP2/ZeRO3", "h100-sxm", 32, "bf16", {"fsdp": True}),
    ("llama-3-8b", "TP2/offload1/swap1", "h100-sxm", 16, "bf16", {}),
    ("deepseek-v3", "TP2/PP4/VPP4/EP16/ep-overlap", "h100-sxm", 128, "bf16", {}),
)  # fmt: skip
OTHERS = {
    "attention_kernel": ("unfused", "flash2", *KERNEL_SETS), "grad_reduce_dtype": ("bf16", "fp32"),
    "loss_bytes_per_logit": (30.0,), "bucket_elements": (5e8,), "moe_capacity_factor": (2.0,), "host_cost_factor": (9.0,),
    "hierarchical_chunks": (12,), "routing": ("forced-balance",),
}  # fmt: skip


def _price(case, chosen) -> tuple:
    model, text, hardware, devices, precision, base = case
    program = Program(stack=load_stack("megatron-core-2026"), chosen={**base, **chosen})
    settled = settle(
        program, load_model(model), load_hardware(hardware), seq_length=4096, global_batch=256, precision=precision
    )
    _, cost = price_one(
        text, Case(model=settled.model, hardware=settled.hardware, workload=settled.workload), devices, "any"
    )
    return float(cost.step_s[0]), float(cost.peak_reserved_bytes[0])


def _others(field) -> tuple:
    if field.name in OTHERS:
        return OTHERS[field.name]
    return field.words or ((True, False) if isinstance(field.default, bool) else (field.default + 1,))


@pytest.mark.parametrize("name", sorted(stack_fields()))
def test_every_field_moves_a_price(name: str) -> None:
    field = stack_fields()[name]
    if len(field.words) == 1:  # stands there to refuse all else
        with pytest.raises(InputError, match="not priced"):
            parse_sets([f"{name}=lora"])
        return
    for case in CASES:
        before = _price(case, {})
        if any(_price(case, {name: value}) != before for value in _others(field)):
            return
    pytest.fail(f"--set {name}=... changes neither a step time nor a peak in any of the cases")


def test_the_machinery_knows_every_field_of_the_program() -> None:
    hidden = {"forced_balance", "consecutive_routing", "fp8_tp_gather"}  # said by routing and fp8_gather
    assert {field.name for field in dataclasses.fields(SoftwareStack)} - hidden <= set(stack_fields())


def test_the_page_lists_what_ships() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "stacks.md").read_text(encoding="utf-8")
    for name in (*stack_names(), *stack_fields()):
        assert f"| `{name}` |" in page, "run scripts/stacks_page.py"


def test_back_end_and_stack_agree(capsys) -> None:
    from tests.cli.runner import SMALL, run

    model, *options = SMALL
    asked = ["estimate", model, "TP1/ZeRO3", *options, "--format", "json"]
    assert run(capsys, *asked, "--stack", "torchtitan-2025").json["backend"] == "torchtitan"
    refused = run(capsys, *asked, "--backend", "megatron", "--stack", "torchtitan-2025")
    assert refused.code == 2 and "a release of --backend megatron" in refused.err
    assert run(capsys, *asked, "--backend", "any", "--stack", "torchtitan-2025").code in (0, 3)

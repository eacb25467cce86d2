"""Launch files in the styles that people write: what is read, what is told, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodeploy.cli.launch_file import backend_of
from autodeploy.errors import InputError
from autodeploy.hardware import load_hardware
from autodeploy.launch import Launch, is_launch_file, read_launch
from autodeploy.launch.shell import arguments_of, command_words, expand, read_script
from autodeploy.models import load_model

DATA = Path(__file__).parents[1] / "data" / "launch"
# file: strategy, back end, devices, sequence, batch, precision
READ = {
    "mindspeed_dualpipev.sh": (
        "TP2/PP8/VPP2/EP32/full(8)/dualpipev/ep-overlap/offload1", "mindspeed", 512, 4096, 3840, "bf16"),
    "mindspeed_sentinels.sh": ("TP8/PP1/VPP1/EP32", "mindspeed", 32, 8192, 64, "bf16"),
    "megatron_arrays.sh": ("TP8/PP4/VPP4/EP1/CP2/selective(core_attn)", "megatron", 128, 32768, 256, "bf16"),
    "megatron_moe_flex.sh": (
        "TP1/PP4/VPP2/EP8/MBS2/selective(moe_act,layernorm)/hierarchical-dedup/ep-overlap/offload0.5/"
        "layout(Et*5|(t*6|)*6t*7L)", "megatron", 64, 4096, 512, "fp8_block"),
    "megatron_first_last.sh": (
        "TP2/PP4/VPP1/EP1/MBS4/ZeRO0/noSP", "megatron", 32, 2048, 16, "fp16"),
    "megatron_fsdp.sh": ("TP1/PP1/VPP1/EP1/ZeRO3/swap1", "megatron", 16, 8192, 16, "bf16"),
    "arguments.txt": ("TP4/PP1/VPP1/EP1/MBS2/ZeRO0", "megatron", 32, 4096, 128, "bf16"),
    "training.log": ("TP4/PP4/VPP5/EP1", "megatron", 64, 8192, 256, "bf16"),
    "nemo.yaml": ("TP4/PP4/VPP5/EP1/full(2)", "megatron-bridge", 64, 8192, 256, "bf16"),
    "torchtitan.toml": ("TP8/PP2/VPP2/EP1/ZeRO2/full", "torchtitan", 128, 8192, 64, "bf16"),
    "zero3.sh": ("TP1/PP1/VPP1/EP1/MBS2/ZeRO3/full/offload1", "any", 16, 4096, 128, "bf16"),
}  # fmt: skip


def read(name: str) -> Launch:
    return read_launch(str(DATA / name))


@pytest.mark.parametrize("name", READ)
def test_a_launch_file_is_read(name: str) -> None:
    assert is_launch_file(str(DATA / name))
    launch = read(name)
    found = (
        str(launch.strategy),
        launch.backend,
        launch.devices,
        launch.seq_length,
        launch.global_batch,
        launch.precision,
    )
    assert found == READ[name]


def test_models_are_those_that_ship() -> None:
    assert read("mindspeed_dualpipev.sh").model.layers == load_model("deepseek-v3").layers
    for name in ("megatron_arrays.sh", "training.log", "nemo.yaml"):
        model = read(name).model
        assert (model.layers, model.vocab, model.tied_embeddings) == (load_model("llama-3-70b").layers, 128256, False)
    assert read("megatron_moe_flex.sh").model.layers == load_model("qwen3-30b-a3b").layers


def test_a_launch_file_is_a_model_wherever_one_is_named() -> None:
    model = load_model(str(DATA / "mindspeed_sentinels.sh"))
    assert model.num_layers == 24 and any("vocabulary" in note for note in model.notes)


def test_minus_one_means_that_every_layer_has_experts() -> None:
    model = read("mindspeed_sentinels.sh").model
    assert all(half.is_moe for kind in model.kinds for half in kind.feed_forwards) and model.num_layers == 24


def test_what_is_taken_because_nothing_is_said_is_told() -> None:
    told = " ".join(read("mindspeed_sentinels.sh").defaults)
    assert "vocabulary 131072" in told and "--vocab-size" in told
    assert read_launch(str(DATA / "mindspeed_sentinels.sh"), vocab=102400).model.vocab == 102400
    assert "global batch 16: MBS x DP" in " ".join(read("megatron_first_last.sh").defaults)
    assert read("training.log").defaults == ()


def test_the_stack_is_read() -> None:
    stated = read("megatron_arrays.sh").stated
    assert stated["overlap_grad_reduce"] and stated["overlap_param_gather"] and not stated["dropout"]
    assert read("megatron_first_last.sh").stated["dropout"]  # Megatron's default is 0.1
    assert read("megatron_fsdp.sh").stated["grad_dtype"] == "bf16"
    assert read("megatron_moe_flex.sh").stated["grouped_gemm"]
    assert read("torchtitan.toml").stated == {"compiled": True, "overlap_tp": True, "fused_optimizer": True}
    assert "overlap_grad_reduce" not in read("mindspeed_dualpipev.sh").stated  # fb-overlap takes none


def test_a_program_that_does_not_run_on_the_machine_gives_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert backend_of(read("mindspeed_dualpipev.sh"), load_hardware("atlas-800t-a2")) == "mindspeed"
    assert backend_of(read("mindspeed_dualpipev.sh"), load_hardware("h100-sxm")) == "megatron"
    assert "mindspeed does not run on h100-sxm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"), [("fsdp2.sh", "starts FSDP2 from a YAML"), ("ds_zero3.json", "says no model")]
)
def test_what_says_no_model_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(name)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_start_no_run_are_left_to_the_readers_of_models() -> None:
    zoo = Path(__file__).parents[2] / "autodeploy" / "models" / "zoo" / "llama-3-8b.yaml"
    assert not is_launch_file(str(zoo)) and not is_launch_file("llama-3-8b") and not is_launch_file("/nowhere.sh")


# ------------------------------------------------------------------------------------------------------- shell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=3; B=$A\nrun --x $B", ("3",)),
        ("A=(1 2)\nA+=(3)\nrun --x ${A[@]}", ("1", "2", "3")),
        ("run --x ${A:-7}", ("7",)),
        ("A=\nrun --x ${A:-7}", ("7",)),
        ("A=4\nrun --x $((A * 2 + 1))", ("9",)),
        ("if [[ -n \"$B\" ]]; then\n A=1\nelif [ x = x ]; then\n A=2\nelse\n A=3\nfi\nrun --x $A", ("2",)),
        ("B=1\nif [ -z \"$B\" ]; then\n if true; then\n  A=4\n fi\n A=1\nelse\n A=2\nfi\nrun --x $A", ("2",)),
        ("run --y 1 \\\n  --x 2 # --x 3", ("2",)),
        ("if true; then\n A=1\nelse\n A=2\nfi\nrun --x $A", ("1",)),
        ("A=\"--x 1 \\\n--y 2\"\nrun $A", ("1",)),
        ("run --x \"$(cat file)\"", ("$(cat file)",)),
        ("cat <<E > f\nA=9\nE\nA=1\nrun --x $A", ("1",)),
        ("run --x=5 | tee log --x 6", ("5",)),
        ("A=\"one \"two\" three\"\nrun --x $A", ("one", "two", "three")),
    ],
)  # fmt: skip
def test_shell(text: str, expected: tuple[str, ...]) -> None:
    assert arguments_of(command_words(read_script(text)))["x"] == expected


def test_variables_that_name_themselves_end() -> None:
    assert expand("$A", {"A": "$B", "B": "$A"}) in ("$A", "$B")
    assert len(expand("$A", {"A": "$A $A"})) < 1_000_000


def test_a_file_sourced_from_beside(tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_text("N=5\n")
    assert arguments_of(command_words(read_script("source ./env.sh\nrun --x $N", tmp_path)))["x"] == ("5",)
    assert read_script("source ./absent.sh", tmp_path).absent == ["./absent.sh"]

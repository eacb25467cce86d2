"""Users' files: inheritance, and one clear line for everything that can be wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodeploy.errors import InputError
from autodeploy.hardware import load_hardware
from autodeploy.hardware.build import in_si
from autodeploy.hardware.document import merge, plain

OWN = """
name: my-h100
extends: h100-sxm
device:
  usable_gib: 76.5
tiers:
  infiniband:
    link_gb_per_s: 25
overheads: {fragmentation_frac: {value: 0.05, source: own jobs}}
"""


def write(folder: Path, text: str | bytes, name: str = "own.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_an_own_file_changes_what_it_names_and_inherits_the_rest(tmp_path: Path) -> None:
    own, base = load_hardware(write(tmp_path, OWN)), load_hardware("h100-sxm")
    assert own.name == "my-h100" and own.usable_bytes == 76.5 * 2**30
    assert own.tiers[1].bandwidth_bytes_per_s == 25e9 and own.tiers[0] == base.tiers[0]
    assert own.overheads.fragmentation_frac == 0.05 and own.device.gemm == base.device.gemm


def test_a_chain_of_own_files(tmp_path: Path) -> None:
    write(tmp_path, OWN)
    second = write(tmp_path, "name: two\nextends: own.yaml\ncards_per_node: 4\n", "two.yaml")
    assert load_hardware(second).usable_bytes == 76.5 * 2**30 and load_hardware(str(second)).cards_per_node == 4


def test_null_removes_and_a_new_tier_takes_curves_from_another(tmp_path: Path) -> None:
    text = """
name: flat
extends: h100-sxm
tiers:
  infiniband: null
  rail: {cards: 256, link_gb_per_s: 50, curves_from: infiniband}
  spine: {cards: 8192, link_gb_per_s: 12.5, curves_from: infiniband}
"""
    profile = load_hardware(write(tmp_path, text))
    assert [tier.name for tier in profile.tiers] == ["nvlink", "rail", "spine"]
    assert profile.tiers[1].curves == load_hardware("h100").tiers[1].curves


def test_units() -> None:
    text = {"a": {"value": 3, "source": "x"}, "b": {"c": 1, "source": "y", "note": "z"}}
    assert plain(text) == {"a": 3, "b": {"c": 1}}
    assert merge({"curve": {"x": 1, "y": 2, "data": "old"}}, {"curve": {"x": 3, "data": "new"}}) == {
        "curve": {"x": 3, "data": "new"}
    }
    assert merge({"curve": {"x": 1, "y": 2, "data": "old"}}, {"curve": {"x": 3}})["curve"]["y"] == 2
    assert in_si({"ramp_sqrt_us": 4.0, "launch_us": 3.0, "usable_gib": 1.0, "link_gb_per_s": 2.0, "k_half": 5}) == {
        "ramp_sqrt_s": pytest.approx(4e-6 / 1e-6**0.5), "launch_s": pytest.approx(3e-6), "usable_bytes": 2.0**30,
        "link_bytes_per_s": 2e9, "k_half": 5,
    }  # fmt: skip


BAD = {
    "unknown field": ("name: x\nextends: h100-sxm\ndevice: {hbm_bandwith_gb_per_s: 1}\n", "device.hbm_bandwith_gb_per_s",
                      "did you mean hbm_bandwidth_gb_per_s?"),
    "unknown section": ("name: x\nextends: h100-sxm\ndevices: {}\n", "devices", "did you mean device?"),
    "negative": ("name: x\nextends: h100-sxm\ndevice: {usable_gib: -1}\n", "device.usable_gib", "greater than 0"),
    "not a number": ("name: x\nextends: h100-sxm\ntiers: {nvlink: {cards: many}}\n", "tiers.nvlink.cards", "valid integer"),
    "infinite": ("name: x\nextends: h100-sxm\ntiers: {nvlink: {link_gb_per_s: .inf}}\n", "tiers.nvlink.link_gb_per_s", "finite"),
    "missing": ("name: x\n", "device", "extends"),
    "missing inside": ("name: x\nextends: h100-sxm\ndevice: {usable_gib: null}\n", "device.usable_gib", "present"),
    "too much memory": ("name: x\nextends: h100-sxm\ndevice: {usable_gib: 200}\n", "device.usable_gib", "at most"),
    "unknown base": ("name: x\nextends: h101\n", "hardware", "did you mean"),
    "unknown stack fact": ("name: x\nextends: h100-sxm\nstack: {fused_nrom: true}\n", "stack.fused_nrom", "fused_norm"),
    "wrong kind of fact": ("name: x\nextends: h100-sxm\nstack: {fused_norm: 3}\n", "stack.fused_norm", "true or false"),
    "unknown kernel": ("name: x\nextends: h100-sxm\nstack: {attention_kernel: flash9}\n", "stack.attention_kernel", "flash3"),
    "backend": ("name: x\nextends: h100-sxm\nbackend: deepspeed\n", "backend", "megatron"),
    "same tier twice": ("name: x\nextends: h100-sxm\ntiers: {again: {cards: 8, link_gb_per_s: 1, curves_from: nvlink}}\n",
                        "tiers.*.cards", "different"),
    "tier without curves": ("name: x\nextends: h100-sxm\ntiers: {spine: {cards: 64, link_gb_per_s: 1}}\n",
                            "fits.collectives.spine", "curves_from"),
    "unknown curves": ("name: x\nextends: h100-sxm\ntiers: {spine: {cards: 64, link_gb_per_s: 1, curves_from: y}}\n",
                       "tiers.spine.curves_from", "nvlink"),
    "beside a value": ("name: x\nextends: h100-sxm\ndevice: {usable_gib: {value: 70, unit: GiB}}\n", "unit", "source"),
    "imbalance": ("name: x\nextends: h100-sxm\nexpert_imbalance: 0.5\n", "expert_imbalance", "greater than or equal to 1"),
    "list": ("- a\n- b\n", "hardware", "a mapping of sections"),
    "empty": ("", "hardware", "a hardware profile"),
    "truncated": ("name: x\ndevice: {vendor: nvidia, peak_tflop_per_s: {bf16: 9", "hardware", "line 3"),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\xff\xfe", "hardware", "binary"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_give_one_line_with_field_and_allowed(case: str, tmp_path: Path) -> None:
    text, field, said = BAD[case]
    with pytest.raises(InputError) as caught:
        load_hardware(write(tmp_path, text))
    assert caught.value.field == field and said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_extends_itself(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chain"):
        load_hardware(write(tmp_path, "name: x\nextends: own.yaml\n"))


@pytest.mark.parametrize("name", ["h101-sxm", "ascend-910d", "atlas800t-a2"])
def test_an_unknown_name_gets_a_suggestion(name: str) -> None:
    with pytest.raises(InputError, match="did you mean"):
        load_hardware(name)


def test_names_forgive_case_and_underscores() -> None:
    assert load_hardware("H100_SXM").name == load_hardware(" h100 ").name == "h100-sxm"


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readable"):
        load_hardware(tmp_path / "nothing.yaml")
    with pytest.raises(InputError, match="folder"):
        load_hardware(tmp_path)

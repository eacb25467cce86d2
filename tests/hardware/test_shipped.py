"""Every shipped profile: valid, sourced, quick to load, and reachable under the names that measured runs use."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from autodeploy.hardware import hardware_aliases, hardware_names, load_hardware
from autodeploy.hardware.document import plain, read_document
from autodeploy.hardware.library import find_profile
from autodeploy.hardware.schema import validate
from autodeploy.hardware.show import fits, list_document, profile_document, sources
from cost_models.inputs import COLLECTIVE_OPS

NAMES = hardware_names()
GPUS = [name for name in NAMES if load_hardware(name).device.vendor == "nvidia"]
REFERENCE_DEVICES = (
    "a100-80g", "a100-40g", "a800-80g", "h100-sxm", "h100-96g-hbm2e-500w", "gb200", "gb300", "b200", "b300", "h800", "h200",
    "mi300x", "mi325x", "mi355x", "ascend-910b-376t", "ascend-910b-313t", "ascend-910b", "ascend-910c-die",
    "ascend-undisclosed",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_passes_the_schema(name: str) -> None:
    document, _ = read_document(find_profile(name))
    assert validate(plain(document))["name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_complete(name: str) -> None:
    profile = load_hardware(name)
    device = profile.device
    assert set(device.peak_flop_per_s) - {"fp32"} <= set(device.gemm) and set(device.gemm) == set(device.grouped_gemm)
    assert {"flash1", "flash2", "flash3", "cudnn", "triton"} <= set(device.attention)
    assert profile.stack.attention_kernel in device.attention
    assert all(set(tier.curves) == set(COLLECTIVE_OPS) for tier in profile.tiers)
    assert [tier.cards for tier in profile.tiers] == sorted(tier.cards for tier in profile.tiers)
    assert device.usable_bytes <= device.hbm_bytes
    assert profile.backend == ("mindspeed" if device.vendor == "ascend" else "megatron")
    assert len(profile.sha256) == 64


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_has_a_source_and_every_curve_its_data(name: str) -> None:
    document, _ = read_document(find_profile(name))
    sourced = dict(sources({key: value for key, value in document.items() if key != "fits"}))
    facts = [f"{section}.{key}" for section in ("device", "overheads") for key in document[section] if key != "vendor"]
    facts += [f"tiers.{tier}.link_gb_per_s" for tier in document["tiers"]]
    assert [path for path in facts if path not in sourced] == []
    curves = list(fits(document["fits"]))
    assert len(curves) >= 2 + 5  # compute, and each operation of a tier
    assert [curve["curve"] for curve in curves if curve["median_ape_frac"] is None and not curve["derived"]] == []


def test_every_device_of_the_reference_runs_resolves() -> None:
    for device in REFERENCE_DEVICES:
        assert load_hardware(device).name in NAMES


def test_aliases_are_unique_and_no_profile_name() -> None:
    written = []
    for name in NAMES:
        document, _ = read_document(find_profile(name))
        written += document.get("aliases", [])
    assert len(written) == len(set(written)) and not set(written) & set(NAMES)
    assert set(written) == set(hardware_aliases())


@pytest.mark.parametrize(
    ("name", "tflop_per_s"),
    [("ascend-910b-313t", 294.9), ("ascend-910b-376t", 353.9), ("ascend-910b", 353.9), ("ascend-910b-280t", 245.8),
     ("ascend-910c-die", 353.9), ("a100-80g", 312), ("h100", 989.4), ("b200", 2250), ("gb200", 2500), ("mi300x", 1307.4)],
)  # fmt: skip
def test_peaks(name: str, tflop_per_s: float) -> None:
    assert load_hardware(name).device.peak_flop_per_s["bf16"] == pytest.approx(tflop_per_s * 1e12)


def test_the_ascend_card_has_the_memory_the_field_reports() -> None:
    device = load_hardware("atlas-800t-a2").device
    assert device.hbm_bytes == 64 * 2**30 and device.usable_bytes == pytest.approx(60.96 * 2**30)
    assert device.hbm_bandwidth_bytes_per_s == pytest.approx(1.6e12)


def test_a_variant_differs_only_where_it_says_so() -> None:
    h100, h800 = load_hardware("h100-sxm"), load_hardware("h800")
    assert h800.device.gemm == h100.device.gemm and h800.overheads == h100.overheads
    assert h800.tiers[0].bandwidth_bytes_per_s == 200e9 and h100.tiers[0].bandwidth_bytes_per_s == 450e9
    assert h800.sha256 != h100.sha256


def test_loading_is_quick_and_needs_no_pydantic() -> None:
    code = (
        "import sys, time; from autodeploy.hardware import load_hardware; start = time.perf_counter();"
        "load_hardware('h200'); print(time.perf_counter() - start, 'pydantic' in sys.modules, 'scipy' in sys.modules)"
    )
    seconds, pydantic, scipy = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert (pydantic, scipy) == ("False", "False")
    assert float(seconds) < 0.3  # some 5 ms; a busy machine is allowed more


def test_a_second_load_is_free() -> None:
    load_hardware("h100")
    start = time.perf_counter()
    assert load_hardware("h100") is load_hardware("h100-sxm")
    assert time.perf_counter() - start < 0.05


def test_the_documents_of_the_command() -> None:
    listed = list_document()
    assert listed["schema"] == "autodeploy.hardware/1" and [row["name"] for row in listed["hardware"]] == list(NAMES)
    shown = profile_document("gb200")
    assert shown["schema"] == "autodeploy.hardware/1" and shown["profile"]["name"] == "gb200-nvl72"
    assert shown["sources"]["device.usable_gib"].startswith("mle")
    assert any(fit["curve"] == "gemm.bf16" and fit["rows"] == 3600 for fit in shown["fits"])

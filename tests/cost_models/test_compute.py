"""Matrix products: bytes of an element by dtype, the curve of a recipe, experts of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.hardware import load_hardware
from cost_models.compute import matmul_dtype, price_gemm, price_grouped, sustained_frac
from cost_models.inputs import GroupedGemmCurve
from cost_models.operators import Gemm, GroupedGemm
from tests.cost_models.helpers import machine


def grouped(rows: float, groups: float, cols: float = 4096, depth: float = 7168) -> GroupedGemm:
    one = [np.array([value]) for value in (rows, groups, cols, depth)]
    return GroupedGemm(name="experts", rows=one[0], groups=one[1], cols=one[2], depth=one[3])


def test_narrower_operands_are_never_slower_where_memory_binds() -> None:
    """8 experts of 4096 x 7168, 64 rows each: 117 M weights of 2, 1 and half a byte."""
    device = load_hardware("b200").device
    times = {
        name: float(price_grouped(grouped(512, 8), device, name, 4.0, True).forward_s[0])
        for name in ("bf16", "fp8", "nvfp4")
    }
    assert times["nvfp4"] < times["fp8"] < times["bf16"]
    streamed = 8 * 4096 * 7168 * 0.5 / device.hbm_bandwidth_bytes_per_s
    assert streamed < times["nvfp4"]


@pytest.mark.parametrize("recipe", ["mxfp8", "nvfp4"])
def test_a_measured_recipe_is_priced_by_its_own_curve(recipe: str) -> None:
    """What `calibrate` writes for MXFP8 or NVFP4 counts; before that they run as their relatives do."""
    device = load_hardware("b200").device
    assert matmul_dtype(recipe, device) == recipe
    square = Gemm(name="x", rows=np.array([8192.0]), cols=np.array([8192.0]), depth=np.array([8192.0]))
    before = price_gemm(square, device, matmul_dtype(recipe, device), 4.0).forward_s
    slower = replace(device.gemm[recipe], efficiency_max_frac=device.gemm[recipe].efficiency_max_frac / 2)
    measured = replace(device, gemm={**device.gemm, recipe: slower})
    after = price_gemm(square, measured, matmul_dtype(recipe, measured), 4.0).forward_s
    assert after[0] > 1.5 * before[0]


def test_one_large_expert_is_a_plain_product() -> None:
    """A grouped curve at half the rate: one expert of 4096 x 4096 rows runs as the plain product does, at the peak."""
    device = machine().device
    half = GroupedGemmCurve(efficiency_max_frac=0.5, rows_half=0.0, launch_s=0.0, memory_efficiency_frac=1e6)
    device = replace(device, grouped_gemm={"bf16": half})
    price = price_grouped(grouped(4096, 1, 4096, 4096), device, "bf16", 4.0, True)
    assert price.forward_s[0] == pytest.approx(2 * 4096**3 / 100e12)


def test_the_sustained_rate_knows_its_precision() -> None:
    device = replace(machine().device, sustained_frac=0.8, fp8_frac=1.1, block_scaled_frac=0.9, fp4_frac=0.5)
    found = [sustained_frac(name, device) for name in ("bf16", "fp8", "mxfp8", "nvfp4")]
    assert found == pytest.approx([0.8, 0.88, 0.72, 0.4])

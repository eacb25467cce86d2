"""Fits recover the constants that made a table, and say how far they are off."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.calibrate.curves import attention_s, collective_s, gemm_s, grouped_gemm_s, moe_s, wire_factor
from autodeploy.calibrate.entries import entry, rounded
from autodeploy.calibrate.fit_compute import fit_attention, fit_gemm, fit_grouped_gemm, layout_factor
from autodeploy.calibrate.fit_network import fit_inter, fit_intra
from autodeploy.calibrate.fitting import Parameter, fit
from autodeploy.calibrate.measurements import (
    AttentionTable,
    CollectiveTable,
    GemmTable,
    GroupedGemmTable,
    MoeTable,
)
from autodeploy.hardware import load_hardware
from cost_models.inputs import AttentionCurve, CollectiveCurve, GemmCurve, GroupedGemmCurve

H100 = load_hardware("h100-sxm")
DEVICE = H100.device
PEAK, BANDWIDTH, UNITS = DEVICE.peak_flop_per_s["bf16"], DEVICE.hbm_bandwidth_bytes_per_s, DEVICE.compute_units


def gemm_table(rows: int = 600, seed: int = 0) -> GemmTable:
    random = np.random.default_rng(seed)
    m, n, k = (128.0 * random.integers(2, 128, rows) for _ in range(3))
    return GemmTable(dtype="bf16", m=m, n=n, k=k, seconds=np.ones(rows), source="made")


def test_gemm_constants_are_recovered() -> None:
    true = GemmCurve(efficiency_max_frac=0.78, k_half=220, launch_s=4e-6, wave_exponent=0.3, memory_efficiency_frac=0.7,
                     droop_frac=0.1, droop_half_flop=1e12)  # fmt: skip
    table = gemm_table()
    table = dataclasses.replace(table, seconds=gemm_s(true, table, PEAK, BANDWIDTH, UNITS))
    curve, error = fit_gemm(table, DEVICE, large_tile=False)
    assert error.median_ape_frac < 0.005 and error.held_out_median_ape_frac is not None
    assert curve.efficiency_max_frac == pytest.approx(0.78, rel=0.02)
    assert curve.k_half == pytest.approx(220, rel=0.1) and curve.wave_exponent == pytest.approx(0.3, abs=0.03)
    assert curve.droop_frac == pytest.approx(0.1, abs=0.02)


def test_noise_is_reported_as_error_and_outliers_do_not_carry_the_fit_away() -> None:
    table = gemm_table()
    random = np.random.default_rng(1)
    exact = gemm_s(DEVICE.gemm["bf16"], table, PEAK, BANDWIDTH, UNITS)
    noisy = exact * np.exp(random.normal(0, 0.05, exact.size))
    noisy[::50] *= 3
    curve, error = fit_gemm(dataclasses.replace(table, seconds=noisy), DEVICE, large_tile=False)
    assert 0.02 < error.median_ape_frac < 0.06
    assert np.median(np.abs(gemm_s(curve, table, PEAK, BANDWIDTH, UNITS) / exact - 1)) < 0.02


def test_few_gemms_give_the_limit_and_hold_the_rest() -> None:
    table = gemm_table(rows=6)
    true = dataclasses.replace(DEVICE.gemm["bf16"], efficiency_max_frac=0.6, droop_frac=0.0)
    table = dataclasses.replace(table, seconds=gemm_s(true, table, PEAK, BANDWIDTH, UNITS))
    curve, error = fit_gemm(table, DEVICE, large_tile=False)
    assert curve.efficiency_max_frac == pytest.approx(0.6, rel=0.02) and curve.k_half == true.k_half
    assert error.rows == 6 and error.held_out_median_ape_frac is None


def test_layout_factor() -> None:
    table = gemm_table(rows=50)
    forward = gemm_s(DEVICE.gemm["bf16"], table, PEAK, BANDWIDTH, UNITS)
    slower = dataclasses.replace(table, seconds=forward / 0.9, layout="wgrad")
    assert layout_factor(forward, slower) == pytest.approx(0.9)


def test_grouped_gemm_from_plain_and_from_whole_layers() -> None:
    true = GroupedGemmCurve(efficiency_max_frac=0.6, rows_half=120, launch_s=15e-6, memory_efficiency_frac=0.8)
    random = np.random.default_rng(2)
    groups, m = 2.0 ** random.integers(2, 7, 80), 2.0 ** random.integers(5, 12, 80)
    n, k = 512.0 * random.integers(2, 16, 80), 512.0 * random.integers(2, 16, 80)
    plain = GroupedGemmTable(dtype="bf16", groups=groups, m=m, n=n, k=k, seconds=np.ones(80), source="made")
    plain = dataclasses.replace(plain, seconds=grouped_gemm_s(true, plain, PEAK, BANDWIDTH))
    tokens = 2.0 ** random.integers(9, 15, 80)
    moe = MoeTable(dtype="bf16", tokens=tokens, hidden=k, width=n / 4, top_k=np.full(80, 8.0), experts=groups,
                   seconds=np.ones(80), source="made")  # fmt: skip
    moe = dataclasses.replace(moe, seconds=moe_s(true, moe, PEAK, BANDWIDTH, DEVICE.memory_bound_frac))
    for table in (plain, moe):
        curve, error = fit_grouped_gemm(table, DEVICE, limit_frac=0.85)
        assert error.median_ape_frac < 0.01
        assert curve.efficiency_max_frac == pytest.approx(0.6, rel=0.05) and curve.rows_half == pytest.approx(
            120, rel=0.15
        )


@pytest.mark.parametrize("backward", [False, True])
def test_attention_with_head_dims(backward: bool) -> None:
    true = AttentionCurve(forward_efficiency_frac=0.6, backward_efficiency_frac=0.5, seq_half=700, tile_half=90,
                          launch_s=8e-6, head_dim_frac={64: 0.8, 192: 1.1})  # fmt: skip
    random = np.random.default_rng(3)
    dim = random.choice([64.0, 128.0, 192.0], 200)
    table = AttentionTable(
        kernel="flash3", head_dim=dim, v_head_dim=dim, batch=2.0 ** random.integers(0, 4, 200),
        seq=2.0 ** random.integers(9, 16, 200), heads=2.0 ** random.integers(2, 7, 200), seconds=np.ones(200),
        source="made", backward=backward,
    )  # fmt: skip
    fields, error = fit_attention(dataclasses.replace(table, seconds=attention_s(true, table, PEAK)), DEVICE)
    assert error.median_ape_frac < 0.01
    name = "backward_efficiency_frac" if backward else "forward_efficiency_frac"
    assert fields[name] == pytest.approx(0.5 if backward else 0.6, rel=0.03)
    assert fields["seq_half"] == pytest.approx(700, rel=0.1)
    assert fields["head_dim_frac"][64] == pytest.approx(0.8, rel=0.03)


def collective_table(true: CollectiveCurve, op: str, bandwidth: float) -> CollectiveTable:
    message = np.tile(2.0 ** np.arange(10, 31), 3)
    ranks = np.repeat([2.0, 4.0, 8.0], 21)
    seconds = collective_s(true, ranks, wire_factor(op, ranks) * message, bandwidth)
    return CollectiveTable(op=op, ranks=ranks, nodes=1, message_bytes=message, seconds=seconds, source="made")


@settings(max_examples=15, deadline=None)
@given(
    latency_us=st.floats(2, 60), per_rank_us=st.floats(0.1, 5), efficiency=st.floats(0.3, 0.95), ramp=st.floats(0, 8e-3),
    op=st.sampled_from(["all_gather", "reduce_scatter", "all_to_all"]),
)  # fmt: skip
def test_collective_constants_are_recovered(
    latency_us: float, per_rank_us: float, efficiency: float, ramp: float, op: str
) -> None:
    true = CollectiveCurve(latency_s=latency_us * 1e-6, latency_per_rank_s=per_rank_us * 1e-6, efficiency_frac=efficiency,
                           ramp_sqrt_s=ramp)  # fmt: skip
    tier = H100.tiers[0]
    curve, error = fit_intra(collective_table(true, op, tier.bandwidth_bytes_per_s), tier)
    assert error.median_ape_frac < 0.01
    assert curve.efficiency_frac == pytest.approx(efficiency, rel=0.03)


def test_a_switch_that_reduces_is_seen() -> None:
    true = CollectiveCurve(latency_s=8e-6, efficiency_frac=0.8, in_network_ranks=8, in_network_efficiency_frac=1.1)
    tier = H100.tiers[0]
    curve, _ = fit_intra(collective_table(true, "all_reduce", tier.bandwidth_bytes_per_s), tier)
    assert curve.in_network_ranks == 8 and curve.in_network_efficiency_frac == pytest.approx(1.1, rel=0.02)
    assert curve.efficiency_frac == pytest.approx(0.8, rel=0.02)


def test_the_tier_between_nodes() -> None:
    inner, outer = H100.tiers
    message, ranks = 2.0 ** np.arange(20, 34), np.full(14, 32.0)
    inside = inner.curves["all_reduce"]
    ideal = wire_factor("all_reduce", ranks) * message / (8 * outer.bandwidth_bytes_per_s * 0.7)
    seconds = inside.latency_s + 7 * inside.latency_per_rank_s + 30e-6 + ideal
    table = CollectiveTable(
        op="all_reduce", ranks=ranks, nodes=4, message_bytes=message, seconds=seconds, source="made"
    )
    curve, error = fit_inter([table], outer, inner, inside)
    assert curve.efficiency_frac == pytest.approx(0.7, rel=0.01) and curve.latency_s == pytest.approx(30e-6, rel=0.1)
    assert error.median_ape_frac < 0.01


def test_parameters_on_their_bounds_are_named() -> None:
    x = np.linspace(1, 2, 10)
    values, error = fit(lambda v, rows: v[0] * x[rows], [Parameter(name="a", start=1, low=0.5, high=2)], 5 * x)
    assert values["a"] == pytest.approx(2, rel=1e-3) and error.at_bound == ("a",)


def test_entries_are_in_the_units_of_the_file() -> None:
    curve = CollectiveCurve(latency_s=12.3456e-6, efficiency_frac=0.81234567, ramp_sqrt_s=4.2e-3)
    assert entry(curve, None, "x") == {"latency_us": 12.35, "efficiency_frac": 0.8123, "ramp_sqrt_us": 4.2, "data": "x"}
    assert rounded({64: 0.123456}) == {64: 0.1235} and rounded(3) == 3 and rounded(1e-15) == 0.0

"""The host's part of an expert layer: what it issues bounds small layers, and a wait for token counts exposes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.case import Case
from cost_models.feedforward_layers import DISPATCH_HOST, EXPERTS_HOST, HYBRID_HOST, ROUTER_HOST
from cost_models.inputs import SoftwareStack
from cost_models.layer_price import DRAINED_FRAC, FAMILY_INDEX, price_layers
from tests.cost_models.helpers import core, machine, moe, workload

HOST = FAMILY_INDEX["host"]
KERNEL_S = 10e-6
MODEL = moe()


def waits(tokens: int, dispatcher: str = "alltoall", overlap: bool = False, **stack: bool) -> tuple[float, float]:
    """Seconds that the card waits in the forward and the backward of the expert layer (column 1)."""
    hardware = machine()
    hardware = replace(hardware, overheads=replace(hardware.overheads, host_kernel_s=KERNEL_S))
    load = workload(seq_length=tokens, stack=SoftwareStack(**stack))
    axes = core(MODEL, load, ep=8, dp=8, dispatcher=dispatcher, ep_overlap=overlap)
    prices = price_layers(Case(model=MODEL, hardware=hardware, workload=load), axes, (0,))
    return float(prices.forward_s[0, 1, HOST]), float(prices.backward_input_s[0, 1, HOST])


def test_a_layer_without_work_takes_what_the_host_needs() -> None:
    """620 kernels of router, dispatch and experts and those of the operators, 10 us each; backward 820, at 0.6."""
    forward, backward = waits(tokens=8)
    counted = ROUTER_HOST[0] + DISPATCH_HOST[0] + EXPERTS_HOST[0]
    assert counted == 620
    assert counted * KERNEL_S < forward < (counted + 80) * KERNEL_S
    assert 820 * 0.6 * KERNEL_S < backward < (820 + 120) * 0.6 * KERNEL_S


def test_a_wait_for_counts_exposes_dispatch_and_experts_beside_any_work() -> None:
    busy = 4_000_000
    drained = DRAINED_FRAC * (DISPATCH_HOST[0] + EXPERTS_HOST[0]) * KERNEL_S
    assert waits(busy) == (pytest.approx(drained), 0.0)
    for spared in ({"sync_free_moe": True}, {"moe_capacity_factor": 1.0}):
        assert waits(busy, **spared) == (0.0, 0.0)
    assert waits(busy, dispatcher="hierarchical-dedup") == (0.0, 0.0)


def test_graphs_spare_what_they_cover() -> None:
    assert waits(8, cuda_graphs=True) == (0.0, 0.0)
    forward, _ = waits(8, dispatcher="hierarchical-dedup", cuda_graphs=True, graphs_without_experts=True)
    assert forward == pytest.approx((HYBRID_HOST[0] + EXPERTS_HOST[0]) * KERNEL_S, rel=0.01)


def test_overlapped_communication_does_not_cover_the_host() -> None:
    """Communication that runs under another micro-batch leaves the issue to computing alone."""
    alone, overlapped = waits(4096, sync_free_moe=True), waits(4096, overlap=True, sync_free_moe=True)
    assert np.all(np.array(overlapped) > np.array(alone))

"""Gradient reduction, parameter gathering and the optimizer, by hand: 100 GB/s in a node of 8, 10 GB/s between nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.case import Case
from cost_models.inputs import HardwareProfile, SoftwareStack, Workload
from cost_models.step import evaluate
from cost_models.step.end import HOST_ADAM_BYTES, exposed_s, hiding, optimizer_s
from cost_models.step.group import PricedGroup, price_table, priced_groups
from tests.cost_models.helpers import gpt, machine, strategy, workload

MODEL = gpt()


def group(load: Workload | None = None, hardware: HardwareProfile | None = None, **axes: object) -> PricedGroup:
    case = Case(model=MODEL, hardware=hardware or machine(), workload=load or workload())
    batch = strategy(MODEL, **axes)
    return next(priced_groups(case, batch, price_table(case, batch), ()))


def exposed(wire: float, computing: float, buckets: float, priced: PricedGroup) -> float:
    wire_s, computing_s, count = (np.array([[value]]) for value in (wire, computing, buckets))
    return float(exposed_s(wire_s, computing_s, hiding(count, priced))[0, 0])


def test_the_last_bucket_is_exposed() -> None:
    """10 s over 5 buckets beside 20 s of computing: 2 s. Beside 4 s: 10 - 4 x 4/5 = 6.8 s."""
    plain = group(pp=2, dp=4)
    assert exposed(10, 20, 5, plain) == pytest.approx(2.0)
    assert exposed(10, 4, 5, plain) == pytest.approx(6.8)


def test_interleaved_chunks_hide_under_p_micro_batches() -> None:
    """Two chunks on four ranks, 10 s beside 4 s a micro-batch: the first chunk has 4 x 4 / 2 = 8 s; the last has 5 s of bytes
    in 2.5 buckets and 2 s of computing, of which 1 - 1 / 2.5 is before its last bucket: 5 - 1.2 = 3.8 s."""
    looped = group(pp=4, vpp=2, dp=2, schedule="interleaved")
    assert exposed(10, 4, 5, looped) == pytest.approx(3.8)
    assert exposed(10, 4, 5, looped) < exposed(10, 4, 5, group(pp=4, dp=2))


def test_a_gather_carries_the_weight_alone() -> None:
    """An fp8 recipe keeps 2 B more a weight on the card, and sends none of it; gathered in fp8 it sends one byte."""
    axes = {"pp": 1, "dp": 64}
    stack = SoftwareStack(overlap_param_gather=False, overlap_grad_reduce=False)

    def dp_s(**changes: float) -> float:
        case = Case(model=MODEL, hardware=machine(), workload=workload(stack=stack, **changes))
        return float(evaluate(case, strategy(MODEL, **axes)).time_s["dp_comm"][0])

    assert dp_s(cached_weight_bytes=2.0) == pytest.approx(dp_s())
    assert dp_s(gather_bytes=1.0) < dp_s()


def test_a_step_on_the_host_moves_thirty_bytes_a_parameter() -> None:
    """0.6 G parameters: 18 GB through 21 GB/s are 0.857 s, and 6 B each over the link, 50 GB/s, 0.072 s: 0.93 s, as measured
    for Qwen3-0.6B on one H100."""
    case = Case(model=MODEL, hardware=machine(), workload=workload())
    hardware = replace(case.hardware, overheads=replace(case.hardware.overheads, host_link_bytes_per_s=50e9))
    case = replace(case, hardware=hardware)
    batch = strategy(MODEL, offload_frac=1.0, zero_stage=0)
    count = np.array([[0.6e9]])
    zeroing = 0.6e9 * 4 / (1e12 * 0.6)
    seconds = float(optimizer_s(count, np.zeros((1, 1)), batch, case)[0, 0]) - zeroing
    assert seconds == pytest.approx(0.6e9 * HOST_ADAM_BYTES / 21e9 + 0.6e9 * 6 / 50e9)
    assert seconds == pytest.approx(0.93, rel=0.01)


def test_a_swapped_optimizer_travels_and_does_not_step_on_the_host() -> None:
    stack = SoftwareStack(host_adam=False)
    case = Case(model=MODEL, hardware=machine(), workload=workload(stack=stack))
    batch = strategy(MODEL, offload_frac=1.0, zero_stage=0)
    count = np.array([[1e9]])
    zeroing = 1e9 * 4 / (1e12 * 0.6)
    seconds = float(optimizer_s(count, np.zeros((1, 1)), batch, case)[0, 0]) - zeroing
    assert seconds == pytest.approx(12e9 / 25e9)


def test_cards_share_the_memory_of_their_host() -> None:
    """400 GB/s of a node's memory, crossed by 8 cards: 50 GB/s each one way, 25 both ways, whatever the link."""
    hardware = machine()
    wide = replace(hardware, overheads=replace(hardware.overheads, host_link_bytes_per_s=200e9))
    assert wide.host_copy_bytes_per_s == pytest.approx(50e9)
    assert wide.host_swap_bytes_per_s == pytest.approx(25e9)
    narrow = replace(hardware, overheads=replace(hardware.overheads, host_link_bytes_per_s=10e9))
    assert narrow.host_copy_bytes_per_s == narrow.host_swap_bytes_per_s == pytest.approx(10e9)

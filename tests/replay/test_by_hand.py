"""What the replay adds to the pipeline, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.replay import simulated_step_s
from autodeploy.replay.groups import groups_of
from autodeploy.replay.request import step_request
from cost_models.case import Case
from cost_models.inputs import HardwareProfile
from cost_models.strategies import StrategyBatch
from tests.cost_models.helpers import gpt, machine, moe, strategy, workload


def of(hardware: HardwareProfile, **axes: object) -> tuple[Case, StrategyBatch]:
    return Case(model=gpt(), hardware=hardware, workload=workload()), strategy(gpt(), **axes)


def slow(**overheads: float) -> HardwareProfile:
    hardware = machine()
    return replace(hardware, overheads=replace(hardware.overheads, **overheads))


def test_stragglers_and_overheads_are_those_of_the_closed_form() -> None:
    """64 cards are three doublings of a node; 16 micro-batches of 0.25 s and 2 s once."""
    quiet = simulated_step_s(*of(machine(), pp=4, dp=16, micro_batch=1))[0]
    noisy = simulated_step_s(*of(slow(straggler_frac_per_doubling=0.01), pp=4, dp=16))[0]
    assert noisy == pytest.approx(1.03 * quiet)
    later = simulated_step_s(*of(slow(step_s=2.0, micro_batch_s=0.25), pp=4, dp=16))[0]
    assert later == pytest.approx(quiet + 2.0 + 0.25 * 4)


def test_the_tail_follows_the_pipeline() -> None:
    """The optimizer ends the step on every rank; later ranks start later, which hides their gathers."""
    asked = step_request(next(groups_of(*of(machine(), pp=4, dp=16))))
    gather = asked.request.tail.parameter_gather_s
    assert isinstance(gather, np.ndarray) and gather[0, 0] > 0 and (np.diff(gather[0]) <= 0).all()
    assert (np.asarray(asked.request.tail.optimizer_s) > 0).all()
    assert asked.step_s(np.array([10.0]))[0] == pytest.approx(10.0 + asked.constant_s[0])


def test_lanes_only_where_the_schedule_pairs_and_parameters_stay() -> None:
    def lanes(**axes: object) -> bool:
        case = Case(model=moe(), hardware=machine(), workload=workload())
        return next(groups_of(case, strategy(case.model, dp=4, ep=4, ep_overlap=True, **axes))).lanes

    assert lanes(pp=2, vpp=2, schedule="interleaved")
    assert not lanes(pp=2)
    assert not lanes(pp=2, vpp=2, schedule="interleaved", zero_stage=3)


def test_sends_take_their_turn_beside_expert_communication() -> None:
    case = Case(model=moe(), hardware=machine(), workload=workload())
    for overlap in (False, True):
        batch = strategy(case.model, pp=2, vpp=2, dp=4, ep=4, ep_overlap=overlap, schedule="interleaved")
        assert step_request(next(groups_of(case, batch))).request.p2p_on_lane is overlap

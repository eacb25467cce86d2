"""More of a good thing never costs more; more of a load never costs less; causes sum to the whole and none is negative.

The closed form keeps the laws exactly, but for schedules that split the backward (`SPLIT`: what a stage waits for is
booked to one of the halves, and the other may shrink) or plan their order. In the replay lane orders are fixed lists from
a catalogue, so that a shorter part may fall into a worse place: it keeps the laws to `REPLAY`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.replay import simulated_step_s
from autodeploy.report.entry import times_to
from cost_models.case import Case
from cost_models.step import evaluate
from cost_models.strategies import F64, RECOMPUTE_BIT, StrategyBatch
from tests.laws.samples import CASES, case, strategies, together

CLOSED, SPLIT, REPLAY = 1e-9, 1e-3, 0.02
PLANNED = ("zb-1p", "zb-2p", "zb-v", "zb-v-half")  # their closed forms follow a planned or fixed order


def _hardware(given_case: Case, **changes: object) -> Case:
    return replace(given_case, hardware=replace(given_case.hardware, **changes))


def _device(given_case: Case, **changes: object) -> Case:
    return _hardware(given_case, device=replace(given_case.hardware.device, **changes))


def _links(given_case: Case, factor: float, only: int | None = None) -> Case:
    tiers = [
        replace(tier, bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s * (factor if only in (None, i) else 1.0))
        for i, tier in enumerate(given_case.hardware.tiers)
    ]
    return _hardware(given_case, tiers=tuple(tiers))


def _workload(given_case: Case, **changes: object) -> Case:
    return replace(given_case, workload=replace(given_case.workload, **changes))


def _deeper(given_case: Case) -> Case:
    """Two more layers of the last kind; strategies on one stage only, whose layout is counted anew."""
    model = given_case.model
    *first, (kind, count) = model.layers
    return replace(given_case, model=replace(model, layers=(*first, (kind, count + 2))))


def _recomputed(batch: StrategyBatch, mask: int) -> StrategyBatch:
    return replace(
        batch, recompute=np.full_like(batch.recompute, mask), recompute_layers=np.zeros_like(batch.recompute_layers)
    )


Change = Callable[[Case, StrategyBatch, float], tuple[Case, StrategyBatch]]
FASTER: dict[str, Change] = {
    "memory bandwidth": lambda c, b, f: (
        _device(c, hbm_bandwidth_bytes_per_s=c.hardware.device.hbm_bandwidth_bytes_per_s * f), b
    ),
    "peak": lambda c, b, f: (
        _device(c, peak_flop_per_s={k: v * f for k, v in c.hardware.device.peak_flop_per_s.items()}), b
    ),
    "links": lambda c, b, f: (_links(c, f), b),
    "links in the node": lambda c, b, f: (_links(c, f, 0), b),
    "links between nodes": lambda c, b, f: (_links(c, f, 1), b),
    "no recompute": lambda c, b, f: (c, _recomputed(b, 0)),
}  # fmt: skip
SLOWER: dict[str, Change] = {
    "imbalance": lambda c, b, f: (_workload(c, expert_imbalance=c.workload.expert_imbalance * f), b),
    "sequence": lambda c, b, f: (_workload(c, seq_length=c.workload.seq_length * 2), b),
    "full recompute": lambda c, b, f: (c, _recomputed(b, RECOMPUTE_BIT["full"])),
}


def _tolerance(text: str) -> float:
    if any(f"/{way}" in text for way in PLANNED):
        return REPLAY
    return SPLIT if any(f"/{way}" in text for way in ("dualpipe", "zb-h1")) else CLOSED


def _seconds(given_case: Case, batch: StrategyBatch, clock: str) -> F64:
    return evaluate(given_case, batch).step_s if clock == "closed" else simulated_step_s(given_case, batch)


def _assert_no_slower(better: F64, worse: F64, tolerance: F64 | float, texts: list[str]) -> None:
    late = np.where(np.isnan(better) | np.isnan(worse), 0.0, better / worse - 1.0) - tolerance
    assert (late <= 0).all(), (texts[int(late.argmax())], float(late.max()))


@pytest.mark.parametrize("law", [*FASTER, *SLOWER])
@settings(deadline=None, max_examples=3)
@given(name=st.sampled_from(sorted(CASES)), seed=st.integers(0, 1), factor=st.floats(1.05, 4.0))
def test_the_closed_form_is_monotone(law: str, name: str, seed: int, factor: float) -> None:
    found = strategies(name, 20, seed)
    texts, batch = [text for text, _ in found], together([batch for _, batch in found])
    tolerance = np.array([_tolerance(text) for text in texts])
    changed = (FASTER | SLOWER)[law](case(name), batch, factor)
    before, after = _seconds(case(name), batch, "closed"), _seconds(*changed, "closed")
    better, worse = (after, before) if law in FASTER else (before, after)
    _assert_no_slower(better, worse, tolerance, texts)


@pytest.mark.parametrize("law", ["peak", "links", "no recompute", "imbalance", "sequence"])
def test_the_replay_is_monotone(law: str) -> None:
    for name in ("deepseek-v2-lite", "gpt-oss-20b"):
        found = strategies(name, 20, 1)[:8]
        texts, batch = [text for text, _ in found], together([batch for _, batch in found])
        before = _seconds(case(name), batch, "replay")
        after = _seconds(*(FASTER | SLOWER)[law](case(name), batch, 1.5), "replay")
        better, worse = (after, before) if law in FASTER else (before, after)
        _assert_no_slower(better, worse, REPLAY, texts)


def test_gathers_are_not_outrun_by_what_overlap_hides() -> None:
    """Found broken once: hidden communication came off a stage after it had been lengthened to its gathers."""
    from autodeploy.strategy.convert import strategy_to_batch
    from autodeploy.strategy.notation import parse_strategy

    even = _workload(case("deepseek-v2-lite"), seq_length=32768, imbalance_by_ep=False)
    batch = strategy_to_batch(parse_strategy("TP2/EP4/CP8/ZeRO3/hierarchical-dedup/ep-overlap"), even.model, 64, "any")
    for clock in ("closed", "replay"):
        steps = [_seconds(_workload(even, expert_imbalance=x), batch, clock)[0] for x in (1.0, 1.5, 2.0)]
        steps.append(_seconds(even, _recomputed(batch, RECOMPUTE_BIT["full"]), clock)[0])
        assert all(steps[0] <= step * (1 + CLOSED) for step in steps)


@pytest.mark.parametrize("name", CASES)
def test_causes_sum_to_the_whole_and_none_is_negative(name: str) -> None:
    batch = together([batch for _, batch in strategies(name, 20, 0)])
    cost = evaluate(case(name), batch)
    assert np.allclose(sum(cost.time_s.values()), cost.step_s, rtol=1e-12)
    assert np.allclose(sum(cost.memory_bytes.values()), cost.peak_reserved_bytes, rtol=1e-12)
    for cause, seconds in cost.time_s.items():
        assert (seconds >= -1e-9 * cost.step_s).all(), cause


def test_what_the_replay_finds_less_is_hidden_communication() -> None:
    times = {"attention": 5.0, "ep_comm": 2.0, "dp_comm": 1.0, "bubble": 0.5}
    assert times_to(9.0, times) == pytest.approx({"attention": 5.0, "ep_comm": 2.0, "dp_comm": 1.0, "bubble": 1.0})
    assert times_to(7.0, times) == pytest.approx({"attention": 5.0, "ep_comm": 1.0, "dp_comm": 1.0, "bubble": 0.0})
    assert times_to(5.5, times) == pytest.approx({"attention": 5.0, "ep_comm": 0.0, "dp_comm": 0.5, "bubble": 0.0})


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b"])
def test_more_layers_cost_more_time_and_memory(name: str) -> None:
    from autodeploy.strategy.convert import strategy_to_batch
    from autodeploy.strategy.notation import parse_strategy

    short, deep = case(name), _deeper(case(name))
    for text in ("TP2/PP2", "TP4/PP2/ZeRO3/full"):
        costs = [
            evaluate(each, strategy_to_batch(parse_strategy(text), each.model, CASES[name][1], "any"))
            for each in (short, deep)
        ]
        assert costs[0].step_s < costs[1].step_s
        assert costs[0].peak_reserved_bytes < costs[1].peak_reserved_bytes


@pytest.mark.parametrize("name", CASES)
def test_a_larger_cap_never_loses_a_strategy(name: str) -> None:
    batch = together([batch for _, batch in strategies(name, 20, 0)])
    fits = [evaluate(_device(case(name), usable_bytes=gib * 2.0**30), batch).feasible for gib in (20, 30, 40, 60, 79)]
    for less, more in zip(fits, fits[1:], strict=False):
        assert (more | ~less).all()
    assert fits[0].sum() < fits[-1].sum()


@pytest.mark.parametrize("name", CASES)
def test_no_step_is_shorter_than_its_flops_at_peak(name: str) -> None:
    batch = together([batch for _, batch in strategies(name, 20, 0)])
    cost = evaluate(case(name), batch)
    peak = max(case(name).hardware.device.peak_flop_per_s.values())
    assert (cost.step_s >= cost.model_flop / (batch.devices * peak)).all()

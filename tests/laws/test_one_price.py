"""What a strategy costs never depends on what is priced beside it, in any command."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.replay import simulate_strategy, simulated_step_s
from autodeploy.search import SearchRequest, run_search
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.convert import batch_to_strategy
from autodeploy.strategy.notation import parse_strategy
from cost_models.case import Case
from cost_models.inputs import SoftwareStack
from cost_models.step import evaluate
from cost_models.strategies import StrategyBatch
from tests.laws.samples import CASES, apart, case, strategies, together

EXACT = 1e-12


@pytest.mark.parametrize("name", CASES)
def test_a_batch_costs_what_its_strategies_cost_alone(name: str) -> None:
    given_case, found = case(name), strategies(name, 20, 1)
    cost = evaluate(given_case, together([batch for _, batch in found]), per_rank=True)
    alone = [evaluate(given_case, batch, per_rank=True) for _, batch in found]
    for of in ("step_s", "bubble_s", "peak_reserved_bytes", "peak_allocated_bytes", "memory_rank", "critical_rank"):
        single = np.array([getattr(each, of)[0] for each in alone])
        assert (np.abs(getattr(cost, of) - single) <= EXACT * np.maximum(np.abs(single), 1.0)).all(), of
    for cause, seconds in cost.time_s.items():
        single = np.array([each.time_s[cause][0] for each in alone])
        assert np.allclose(seconds, single, rtol=EXACT, atol=EXACT * float(cost.step_s.max())), cause
    for cause, size in cost.memory_bytes.items():
        single = np.array([each.memory_bytes[cause][0] for each in alone])
        assert np.allclose(size, single, rtol=EXACT, atol=1.0), cause


@pytest.mark.parametrize("name", CASES)
def test_a_batch_takes_in_the_replay_what_its_strategies_take_alone(name: str) -> None:
    given_case, found = case(name), strategies(name, 20, 1)
    seconds = simulated_step_s(given_case, together([batch for _, batch in found]))
    alone = np.array([simulated_step_s(replace(given_case), batch)[0] for _, batch in found])  # remembers nothing
    worst = apart(seconds, alone)
    assert not np.isnan(seconds).all()
    assert worst.max() <= EXACT, found[int(worst.argmax())][0]


@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_order_and_company_change_nothing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    found = strategies(name, 20, 0)[:12]
    chosen = data.draw(st.lists(st.integers(0, len(found) - 1), min_size=1, max_size=6))
    batch = together([found[i][1] for i in chosen])
    seconds, memory = evaluate(case(name), batch).step_s, evaluate(case(name), batch).peak_reserved_bytes
    replayed = simulated_step_s(replace(case(name)), batch)
    for at, i in enumerate(chosen):
        alone = evaluate(case(name), found[i][1])
        assert seconds[at] == pytest.approx(alone.step_s[0], rel=EXACT)
        assert memory[at] == pytest.approx(alone.peak_reserved_bytes[0], rel=EXACT)
        assert apart(replayed[at : at + 1], simulated_step_s(replace(case(name)), found[i][1])) <= EXACT


def test_events_take_what_the_search_says() -> None:
    for name in ("mixtral-8x7b", "deepseek-v2-lite"):
        for text, batch in strategies(name, 20, 0)[3:7]:
            replayed = simulated_step_s(case(name), batch)[0]
            if not np.isnan(replayed):
                step = simulate_strategy(case(name), batch)
                assert step.step_s == pytest.approx(replayed, rel=EXACT), text


def _search(name: str, **axes: object) -> dict[str, tuple[float, float, float, float]]:
    """Screened and simulated seconds and bytes of every ranked strategy, by its text; with its place."""
    request = SearchRequest(
        case=case(name), devices=(CASES[name][1],), backend="any",
        axes=Axes.of({"cp": 1, "etp": 1, "micro_batch": 1} | axes), trials=0, top=60, all_variants=True,
    )  # fmt: skip
    result = run_search(request)
    assert result.ranking is not None
    batch, memory = result.ranking.candidates.batch, result.ranking.candidates.reserved_bytes
    return {
        str(batch_to_strategy(batch, i)): (
            result.ranking.screened_s[i], result.ranking.simulated_s[i], memory[i], result.cost.peak_reserved_bytes[i],
        )
        for i in range(len(batch))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wide"),
    [("mixtral-8x7b", {"tp": "1,2", "pp": "2,4"}), ("deepseek-v2-lite", {"tp": "1,2", "pp": "2,4", "ep": "4,8"})],
)
def test_a_narrower_search_tells_the_same(name: str, wide: dict[str, object]) -> None:
    """Narrowed to TP, PP, VPP and EP of the first row."""
    broad = _search(name, **wide)
    first = parse_strategy(next(iter(broad)))
    close = _search(name, tp=first.tp, pp=first.pp, vpp=first.vpp, ep=first.ep)
    common = [text for text in broad if text in close]
    assert common
    for text in common:
        assert apart(np.array(broad[text]), np.array(close[text])).max() <= EXACT, text
    assert common == [text for text in close if text in broad], "the same order"


def test_equals_are_ordered_by_what_they_are() -> None:
    from autodeploy.search.candidates import total_order

    found = [batch for _, batch in strategies("mixtral-8x7b", 20, 0)]
    batch = together(found)
    same = np.zeros(len(batch))
    texts = [str(batch_to_strategy(batch, i)) for i in total_order(batch, same)]
    turned: StrategyBatch = together(found[::-1])
    assert texts == [str(batch_to_strategy(turned, i)) for i in total_order(turned, same)]
    regrouped = replace(batch, micro_batch_group=np.where(batch.micro_batch_group == 0, batch.pp, 0))
    assert (total_order(regrouped, same) == total_order(batch, same)).all()


@pytest.mark.parametrize("flag", [f.name for f in fields(SoftwareStack) if isinstance(f.default, bool)])
def test_so_it_is_under_every_program(flag: str) -> None:
    """Each switch of the stack the other way round: strategies of unlike EP, TP and dispatch, alone and together."""
    plain = case("mixtral-8x7b")
    stack = plain.workload.stack
    turned = replace(plain.workload, stack=replace(stack, **{flag: not getattr(stack, flag)}))
    here = Case(model=plain.model, hardware=plain.hardware, workload=turned)
    found = [batch for _, batch in strategies("mixtral-8x7b", 20, 1)]
    assert len({int(batch.ep[0]) for batch in found}) > 1
    cost = evaluate(here, together(found))
    for i, batch in enumerate(found):
        alone = evaluate(Case(model=plain.model, hardware=plain.hardware, workload=turned), batch)
        assert cost.step_s[i] == pytest.approx(alone.step_s[0], rel=EXACT)
        assert cost.peak_reserved_bytes[i] == pytest.approx(alone.peak_reserved_bytes[0], rel=EXACT)

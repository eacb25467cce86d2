"""P: hand values, brute force on small cases, the published models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autodeploy.balance.layers import (
    BalanceOptions,
    LayerItems,
    balance_layers,
    check_layout,
    mindspeed_layers,
    move_mtp_embedding,
    parse_layout,
)
from autodeploy.balance.layers.bound import order_free_bound_s
from autodeploy.balance.layers.items import uniform_items
from autodeploy.balance.layers.local_search import search_locally
from autodeploy.balance.layers.problem import largest, price
from autodeploy.errors import InputError

from .brute_force import best_by_brute_force
from .flop_items import MODELS


def _items(seconds: np.ndarray, kinds: str, static: np.ndarray, activation: np.ndarray, apart: float) -> LayerItems:
    names = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "head"}
    return LayerItems(
        kinds=tuple(names[k] for k in kinds),
        labels=tuple(kinds),
        forward_s=seconds / 3,
        backward_s=seconds * 2 / 3,
        static_bytes=static,
        activation_bytes=activation,
        options=("none", "full")[: len(seconds)],
        mtp_apart_bytes=apart,
    )


@st.composite
def small_cases(draw, max_stages=6, max_options=2):
    pp, vpp = draw(
        st.sampled_from([c for c in [(2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (2, 3)] if c[0] * c[1] <= max_stages])
    )
    options = draw(st.integers(1, max_options if pp * vpp <= 4 else 1))
    layers = draw(st.integers(1, 6))
    kinds = "E" + "t" * layers + "m" * draw(st.integers(0, 2)) + "L"
    figure = st.one_of(st.integers(0, 6).map(float), st.floats(0.1, 5.0))
    base = np.array([draw(figure) + 0.01 for _ in kinds])
    if draw(st.booleans()):
        base[1 : 1 + layers] = base[1]  # equal layers: one run
    activation = np.array([draw(st.integers(0, 5)) for _ in kinds], dtype=float)
    seconds = np.stack([base, base * draw(st.floats(1.0, 1.4))])[:options]
    items = _items(
        seconds,
        kinds,
        np.array([draw(st.integers(0, 5)) for _ in kinds], dtype=float),
        np.stack([activation, activation // 2])[:options],
        draw(st.integers(0, 3)),
    )
    cap = draw(st.one_of(st.just(float("inf")), st.integers(10, 60).map(float)))
    return items, pp, vpp, BalanceOptions(micro_batches=4 * pp, memory_cap_bytes=cap, mtp_apart=draw(st.booleans()))


@given(small_cases())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_equal_to_brute_force(case):
    items, pp, vpp, options = case
    plan = balance_layers(items, pp, vpp, options)
    best = best_by_brute_force(plan.problem)
    if best is None:
        assert not plan.feasible and not plan.launchable
        return
    assert plan.feasible and plan.exact
    assert plan.after.largest_rank_s == pytest.approx(best[0], rel=4e-6)
    assert plan.after.largest_chunk_s == pytest.approx(best[1], rel=4e-6)
    check_layout(plan.after.stages, pp, items.num_layers, items.mtp_modules)


@given(small_cases())
@settings(max_examples=30, deadline=None)
def test_the_order_free_bound_is_a_bound(case):
    items, pp, vpp, options = case
    if vpp > 1:
        plan = balance_layers(items, pp, vpp, replace(options, memory_cap_bytes=float("inf")))
        assert order_free_bound_s(plan.problem, plan.after.largest_rank_s * 1.5) <= plan.after.largest_rank_s * (
            1 + 1e-6
        )


@pytest.mark.parametrize("pp,vpp,period,full,head", [(8, 2, 6, 1.6, 3.0), (4, 3, 4, 1.6, 2.0)])
def test_alternating_layers_are_near_their_bound(pp, vpp, period, full, head):
    """Sliding or linear attention with a full layer every few: proven within 3%, mostly by the bound."""
    layers = [("t", 1, full if i % period == 0 else 1.0) for i in range(48)]
    items = uniform_items(embedding_s=0.1, layers=layers, mtp_s=[], head_s=head)
    plan = balance_layers(items, pp, vpp, BalanceOptions(time_limit_s=2.0))
    assert plan.rank_gap_frac < 0.03 and plan.after.largest_rank_s <= plan.before.largest_rank_s


@given(small_cases())
@settings(max_examples=30, deadline=None)
def test_figures_add_up(case):
    items, pp, vpp, options = case
    plan = balance_layers(items, pp, vpp, options)
    after = plan.after
    assert after.rank_s == pytest.approx(after.chunk_s.reshape(vpp, pp).sum(axis=0))
    chosen = np.array(after.placement.options)
    least, most = items.seconds.min(axis=0).sum(), items.seconds.max(axis=0).sum()
    assert least * (1 - 1e-9) <= after.rank_s.sum() <= most * (1 + 1e-9)
    if len(items.options) == 1:
        assert (chosen == 0).all()
        if plan.feasible and plan.before.excess_bytes == 0 and options.mtp_apart:
            assert after.largest_rank_s <= plan.before.largest_rank_s * (1 + 1e-6)


def test_hand_value_vpp1():
    """1 + 8 layers of 2 + head 3 on 4 ranks: even 5 4 4 7; the head rank gives one layer away: 6."""
    items = uniform_items(embedding_s=1.0, layers=[("t", 8, 2.0)], mtp_s=[], head_s=3.0)
    plan = balance_layers(items, 4)
    assert plan.before.rank_s.tolist() == pytest.approx([5, 4, 4, 7])
    assert plan.after.largest_rank_s == pytest.approx(6.0)
    assert plan.after.placement.counts[-1] == 1


def test_hand_value_vpp2_the_rank_sum_comes_first():
    """4 layers of 1, head 2, PP2 VPP2: even E t|t|t|tL has sums 2, 4; best 3, 3 with chunks of at most 2."""
    items = uniform_items(embedding_s=0.0, layers=[("t", 4, 1.0)], mtp_s=[], head_s=2.0)
    plan = balance_layers(items, 2, 2)
    assert plan.before.rank_s.tolist() == pytest.approx([2, 4])
    assert plan.after.largest_rank_s == pytest.approx(3) and plan.after.largest_chunk_s == pytest.approx(2)
    assert plan.exact


def test_memory_moves_layers_or_recomputes():
    """Early ranks hold more micro-batches: a cap pushes layers back, or buys them with recompute."""
    kinds = "E" + "t" * 8 + "L"
    seconds = np.array([[0.01] + [1.0] * 8 + [0.01]])
    activation = np.array([[0.0] + [1.0] * 8 + [0.0]])
    zeros = np.zeros(10)
    options = BalanceOptions(micro_batches=8, memory_cap_bytes=6.5)
    plan = balance_layers(_items(seconds, kinds, zeros, activation, 0), 4, 1, options)
    assert plan.feasible and plan.after.placement.counts == (1, 2, 3, 2)  # in flight 4, 3, 2, 1
    two = np.concatenate([seconds, seconds * 4 / 3]), np.concatenate([activation, 0 * activation])
    both = _items(two[0], kinds, zeros, two[1], 0)
    plan = balance_layers(both, 4, 1, options)
    assert plan.after.largest_rank_s < 3 and "full" in plan.option_of_stage
    too_small = balance_layers(_items(seconds, kinds, zeros, activation, 0), 4, 1, BalanceOptions(memory_cap_bytes=3.0))
    assert not too_small.feasible and "memory" in too_small.not_launchable_because


CASES = {  # (model, PP, VPP): largest rank sum over mean, after, at 8K
    ("pangu-ultra-moe-718b", 16, 2): 1.15,
    ("deepseek-v3", 16, 1): 1.15,
    ("deepseek-v3", 16, 2): 1.09,
    ("deepseek-v3", 8, 4): 1.04,
    ("llama-3.1-405b", 16, 1): 1.012,
    ("llama-3.1-405b", 16, 8): 1.012,
    ("llama-3.1-405b", 8, 4): 1.012,
    ("qwen3-235b-a22b", 8, 4): 1.012,
    ("qwen3-235b-a22b", 16, 3): 1.03,
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-pp{c[1]}-vpp{c[2]}")
def test_published_models(case):
    name, pp, vpp = case
    items = MODELS[name].items()
    plan = balance_layers(items, pp, vpp)
    assert plan.exact and plan.launchable
    assert plan.after.largest_rank_s <= plan.before.largest_rank_s * (1 + 1e-9)
    assert plan.after.rank_imbalance <= CASES[case]
    assert parse_layout(plan.after.layout) == plan.after.stages
    assert sum(plan.after.placement.counts) == items.num_layers


def test_local_search_alone_is_close():
    """Without the integer program: within 1% of the proven rank sum on the published models."""
    for name, pp, vpp in CASES:
        if vpp > 1:
            plan = balance_layers(MODELS[name].items(), pp, vpp)
            assert largest(plan.problem, search_locally(plan.problem))[1] <= plan.after.largest_rank_s * 1.01


def test_out_of_time_reports_a_gap():
    rng = np.random.default_rng(0)
    layers = [("t", 1, float(s)) for s in rng.uniform(1, 2, 40)]
    items = uniform_items(embedding_s=0.1, layers=layers, mtp_s=[], head_s=1.3)
    plan = balance_layers(items, 4, 3, BalanceOptions(time_limit_s=0.0))
    assert plan.feasible and plan.rank_gap_frac >= 0 and plan.chunk_gap_frac >= 0
    assert plan.rank_bound_s <= plan.after.largest_rank_s
    assert not plan.exact or plan.rank_gap_frac < 1e-5


def test_mtp_embedding_first_is_a_prescription():
    items = MODELS["deepseek-v3"].items()
    moved = move_mtp_embedding(items)
    assert moved.seconds.sum() == pytest.approx(items.seconds.sum())
    plan = balance_layers(moved, 16, 2)
    assert plan.feasible and not plan.launchable and "no Megatron" in plan.not_launchable_because
    assert mindspeed_layers(plan).arguments == {} and mindspeed_layers(plan).reason
    with pytest.raises(InputError, match="mtp-embedding-first"):
        move_mtp_embedding(MODELS["llama-3.1-405b"].items())


def test_mindspeed_arguments():
    items = uniform_items(embedding_s=0.1, layers=[("dense", 1, 1.0), ("moe", 6, 1.0)], mtp_s=[], head_s=1.0)
    plan = balance_layers(items, 2, 1)
    said = mindspeed_layers(plan)
    assert sum(said.num_layer_list) == 7 and said.arguments["--num-layer-list"].count(",") == 1
    plan = balance_layers(items, 2, 2)
    said = mindspeed_layers(plan)
    slots = int(said.arguments["--num-layers"])
    assert slots == 4 * said.slots_per_stage and slots - len(said.noop_layers) == 7
    kept = [i for i in range(slots) if i not in said.noop_layers]
    assert tuple(np.bincount(np.array(kept) // said.slots_per_stage, minlength=4)) == plan.after.placement.counts
    assert int(said.arguments["--first-k-dense-replace"]) == kept[1]


def test_mindspeed_of_the_even_layout_is_the_published_one():
    """61 layers in 64 slots, no-ops 61 to 63, as MindSpeed-LLM's own DeepSeek-V3 scripts have them."""
    plan = balance_layers(MODELS["deepseek-v3"].items(), 16, 2)
    said = mindspeed_layers(replace(plan, after=plan.before))
    assert said.arguments["--noop-layers"] == "61,62,63" and said.arguments["--num-layers"] == "64"


def test_bad_input_is_named():
    items = uniform_items(embedding_s=0.1, layers=[("t", 4, 1.0)], mtp_s=[], head_s=1.0)
    with pytest.raises(InputError, match="pp"):
        balance_layers(items, 0)
    with pytest.raises(InputError, match="memory_cap_bytes"):
        balance_layers(items, 2, 1, BalanceOptions(memory_cap_bytes=(1.0, 2.0, 3.0)))
    with pytest.raises(InputError, match="forward_s"):
        uniform_items(embedding_s=float("nan"), layers=[("t", 4, 1.0)], mtp_s=[], head_s=1.0)
    with pytest.raises(InputError, match="layer_count"):
        balance_layers(items, 2, 1, BalanceOptions(before=("Ett", "tL")))
    with pytest.raises(InputError, match="kinds"):
        _items(np.ones((1, 3)), "tEL", np.ones(3), np.ones((1, 3)), 0)


def test_price_of_many_equals_price_of_one():
    plan = balance_layers(MODELS["deepseek-v3"].items(), 8, 4)
    counts = np.array([plan.before.placement.counts, plan.before.placement.counts[::-1]])
    both = price(plan.problem, counts, 31)
    for row in range(2):
        one = price(plan.problem, counts[row : row + 1], 31)
        assert np.allclose(both.chunk_s[row], one.chunk_s[0])

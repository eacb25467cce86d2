"""The parts of a step, worked out by hand on a made-up machine: 100 GB/s in a node of 8, 10 GB/s between nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models.case import Case
from cost_models.imbalance import rank_imbalance
from cost_models.inputs import HardwareProfile, ModelSpec, SoftwareStack, Workload
from cost_models.step import evaluate
from cost_models.step.effects import EFFECTS, with_effects, with_effects_on_computing
from cost_models.step.end import (
    RankLoad,
    beside_the_pipeline_s,
    link_share,
    slowed_by_reduction_s,
    step_end,
    straggler_frac,
)
from cost_models.step.expert_overlap import hidden_share, hide_expert_communication
from cost_models.step.fully_sharded import gather_parameters
from cost_models.step.group import PricedGroup, price_table, priced_groups, replay_groups
from cost_models.step.in_flight import held_on_stages, in_flight_by_chunk, in_flight_v
from cost_models.step.memory import communication_groups, overhead_bytes, static_bytes
from cost_models.step.pipeline import wait_for_sends
from cost_models.step.stages import StageCosts, boundary_s, full_share, stage_costs
from cost_models.step.swap import swap_activations
from cost_models.step.times import exposed_after_slack_s
from cost_models.strategies import RECOMPUTE_BIT
from tests.cost_models.helpers import gpt, machine, moe, strategy, workload


def slow(**overheads: float) -> HardwareProfile:
    hardware = machine()
    return replace(hardware, overheads=replace(hardware.overheads, **overheads))


def priced(
    model: ModelSpec | None = None,
    load: Workload | None = None,
    hardware: HardwareProfile | None = None,
    **axes: object,
) -> PricedGroup:
    case = Case(model=model or gpt(), hardware=hardware or machine(), workload=load or workload())
    batch = strategy(case.model, **axes)
    return next(priced_groups(case, batch, price_table(case, batch), ()))


def stages(count: int, **given: float | list[float]) -> StageCosts:
    """Forward 2, input 3, weight 1, nothing else, but for what is given (a number for every stage, or a list)."""
    values = {
        "forward_s": 2.0, "backward_input_s": 3.0, "backward_weight_s": 1.0, "forward_ep_s": 0.0, "backward_ep_s": 0.0,
        "saved_bytes": 0.0, "swapped_bytes": 0.0, "recompute_s": 0.0, "recompute_ep_s": 0.0, "full_share": 1.0,
    } | given  # fmt: skip
    arrays = {
        name: np.broadcast_to(np.asarray(v, float), (1, count)).copy() for name, v in values.items() if name != "p2p_s"
    }
    return StageCosts(**arrays, p2p_s=np.full(1, float(given.get("p2p_s", 0.0))))  # type: ignore[arg-type]


def load(
    dense: float = 0.0, expert: float = 0.0, forward: float = 2.0, backward: float = 4.0, **busy: float
) -> RankLoad:
    one = lambda value: np.full((1, 1), value)  # noqa: E731
    return RankLoad(
        dense_parameters=one(dense), expert_parameters=one(expert), forward_s=one(forward), backward_s=one(backward),
        busy_link_forward_s=one(busy.get("forward_link", 0.0)), busy_link_backward_s=one(busy.get("backward_link", 0.0)),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ expert overlap


def test_the_steady_share_leaves_the_ends() -> None:
    """64 sequences over DP2 are 32 micro-batches; 4 ranks: 3 of 32 x VPP turns are alone; without a pipeline one is."""
    assert hidden_share(priced(moe(), pp=4, dp=2, ep_overlap=True))[0, 0] == pytest.approx(1 - 3 / 32)
    assert hidden_share(priced(moe(), pp=4, vpp=2, dp=2, schedule="interleaved", ep_overlap=True))[
        0, 0
    ] == pytest.approx(1 - 3 / 64)
    assert hidden_share(priced(moe(), dp=2, ep_overlap=True))[0, 0] == pytest.approx(31 / 32)
    assert hidden_share(priced(moe(), pp=4, dp=2))[0, 0] == 0.0
    both_ends = priced(moe(), pp=4, vpp=2, dp=2, schedule="adaptive-pipe", ep_overlap=True)
    assert hidden_share(both_ends)[0, 0] == pytest.approx(1 - 3 / 64 / 2)


def test_communication_hides_under_computing_and_slows_it() -> None:
    """3 s of 6 s are communication, 31/32 of it hides; computing is 10% slower beside it, so that 90% is gained."""
    group = priced(moe(), hardware=slow(overlap_slowdown_frac=0.1), dp=2, ep_overlap=True)
    after, taken = hide_expert_communication(stages(1, forward_ep_s=1.0, backward_ep_s=2.0), group)
    gained = 3.0 * 31 / 32 * 0.9
    assert after.forward_s[0, 0] == pytest.approx(2.0 - gained / 3)
    assert after.backward_input_s[0, 0] == pytest.approx(3.0 - gained * 2 / 3)
    assert taken.cause == "ep_comm" and taken.seconds[0, 0] == pytest.approx(-gained)


def test_no_more_hides_than_there_is_computing() -> None:
    """5 s of communication and 1 s of computing; 0.25 s of that is P2P's, twice 0.125."""
    group = priced(moe(), dp=2, ep_overlap=True)
    costs = stages(1, forward_ep_s=2.0, backward_ep_s=3.0)
    assert -hide_expert_communication(costs, group)[1].seconds[0, 0] == pytest.approx(31 / 32)
    sending = replace(costs, p2p_s=np.full(1, 0.125))
    assert -hide_expert_communication(sending, group)[1].seconds[0, 0] == pytest.approx(0.75 * 31 / 32)


# ------------------------------------------------------------------------------------------------ fully sharded


def sharded_group(**axes: object) -> PricedGroup:
    return priced(dp=8, zero_stage=3, **axes)


def test_gathers_and_scatters_by_hand() -> None:
    """Eight layers, 16-bit weights, 4-byte gradients over 8 cards at 100 GB/s; copies pass HBM at 1 TB/s."""
    group = sharded_group()
    assert group.case.workload.grad_reduce_bytes == 4.0
    parameters = float(group.priced(group.table.prices.dense_parameters)[0] @ group.layout.counts.sum(axis=0))
    gather, scatter = (parameters * size * 7 / 8 / 100e9 for size in (2.0, 4.0))
    out, into = parameters * 4.0 / 1e12, parameters * 6.0 / 1e12
    after, taken = gather_parameters(stages(1), group)
    assert after.forward_s[0, 0] == pytest.approx(2.0 + gather / 8 + out)
    assert after.backward_s[0, 0] == pytest.approx(4.0 + scatter / 8 + out + into)
    assert taken.cause == "dp_comm" and taken.seconds[0, 0] > 0
    short = stages(1, forward_s=0.0, backward_input_s=0.0, backward_weight_s=0.0)
    bound, _ = gather_parameters(short, group)
    assert bound.forward_s[0, 0] == pytest.approx(gather * 9 / 8 + out)
    assert bound.backward_s[0, 0] == pytest.approx(gather + scatter * 9 / 8 + out + into)


def test_zero_2_gathers_nothing_for_each_use_but_in_fsdp() -> None:
    plain, _ = gather_parameters(stages(1), priced(dp=8, zero_stage=2))
    assert plain.forward_s[0, 0] == 2.0
    fsdp = priced(dp=8, zero_stage=2, load=workload(stack=SoftwareStack(fsdp=True)))
    assert gather_parameters(stages(1), fsdp)[0].forward_s[0, 0] > 2.0


def test_the_input_gradient_waits_for_its_gather() -> None:
    """Where the wire binds, less computing of the weight part must not lengthen the input part."""
    group = sharded_group()
    quick, slower = (
        gather_parameters(stages(1, forward_s=0.0, backward_input_s=1e-6, backward_weight_s=w), group)[0]
        for w in (0.0, 1e-5)
    )
    assert quick.backward_input_s[0, 0] == pytest.approx(slower.backward_input_s[0, 0])
    assert quick.backward_s[0, 0] <= slower.backward_s[0, 0]


def test_waits_come_after_what_is_hidden() -> None:
    """A stage that hides its communication is no shorter than its gathers."""
    group = priced(moe(), dp=8, zero_stage=3, ep_overlap=True)
    tiny = stages(
        1, forward_s=2e-6, backward_input_s=2e-6, backward_weight_s=0.0, forward_ep_s=1e-6, backward_ep_s=1e-6
    )
    hidden_first = with_effects(tiny, group).costs.forward_s[0, 0]
    alone = gather_parameters(stages(1, forward_s=0.0, backward_input_s=0.0, backward_weight_s=0.0), group)[
        0
    ].forward_s[0, 0]
    assert hidden_first >= alone
    assert EFFECTS[0] is hide_expert_communication
    lanes = with_effects_on_computing(tiny, group)
    assert lanes.costs.forward_s[0, 0] >= alone + 1e-6 and (lanes.of("ep_comm") == 0).all()


# ------------------------------------------------------------------------------------------------ swap, sends


def test_swap_lengthens_a_stage_to_the_host_link() -> None:
    """75 GB over 25 GB/s are 3 s: the forward of 2 s waits, the backward of 4 s does not. 125 GB: 5 s, both wait."""
    hardware = slow(host_link_bytes_per_s=25e9, host_dram_bytes_per_s=1e15)
    group = priced(hardware=hardware, dp=2, swap_frac=1.0)
    three, taken = swap_activations(stages(1, swapped_bytes=75e9), group)
    assert (three.forward_s[0, 0], three.backward_s[0, 0]) == (3.0, 4.0) and taken.cause == "swap"
    five, _ = swap_activations(stages(1, swapped_bytes=125e9), group)
    assert (five.forward_s[0, 0], five.backward_s[0, 0]) == (5.0, 5.0)


def test_a_rank_waits_for_its_sends_where_they_are_not_overlapped() -> None:
    serial = workload(stack=SoftwareStack(overlap_p2p=False))
    after, taken = wait_for_sends(stages(4, p2p_s=0.5), priced(load=serial, pp=4, dp=2))
    assert (after.forward_s == 2.5).all() and (after.backward_input_s == 3.5).all() and after.p2p_s[0] == 0.0
    assert taken.cause == "pp_comm" and (taken.seconds == 1.0).all()
    assert wait_for_sends(stages(4, p2p_s=0.5), priced(pp=4, dp=2))[0].p2p_s[0] == 0.5
    assert (wait_for_sends(stages(1, p2p_s=0.5), priced(load=serial, dp=2))[0].forward_s == 2.0).all()


def test_a_boundary_sends_what_a_rank_holds() -> None:
    """1024 tokens of 1024 values of 2 bytes; CP2 halves it, TP2 with sequence parallelism too; next rank is in the node."""
    whole = 1024 * 1024 * 2.0
    assert boundary_s(priced(pp=2, dp=1))[0] == pytest.approx(whole / 100e9)
    assert boundary_s(priced(pp=2, cp=2))[0] == pytest.approx(whole / 2 / 100e9)
    assert boundary_s(priced(pp=2, tp=2))[0] == pytest.approx(whole / 2 / 100e9)
    assert boundary_s(priced(pp=2, micro_batch=2))[0] == pytest.approx(whole * 2 / 100e9)
    assert boundary_s(priced(pp=2, dp=8))[0] == pytest.approx(whole / 10e9)
    assert boundary_s(priced(dp=8))[0] == 0.0


# ------------------------------------------------------------------------------------------------ end of the step


def test_reduction_over_every_card_that_shares_the_parameters() -> None:
    """1e9 parameters x 4 B over DP2 x CP2 in a node: 3/4 of 4 GB at 100 GB/s; 25 buckets, one of them exposed."""
    end = step_end(load(dense=1e9), priced(dp=2, cp=2))
    assert end.grad_reduce_s[0, 0] == pytest.approx(4e9 * 3 / 4 / 100e9)
    assert end.param_gather_s[0, 0] == pytest.approx(2e9 * 3 / 4 / 100e9)
    assert end.exposed_s[0, 0] == pytest.approx((4e9 + 2e9) * 3 / 4 / 100e9 / 25)
    assert end.overlapped_s[0, 0] == pytest.approx((4e9 + 2e9) * 3 / 4 / 100e9 * 24 / 25)
    assert step_end(load(dense=1e9), priced(dp=2, cp=2, zero_stage=0)).param_gather_s[0, 0] == 0.0
    assert step_end(load(dense=1e9), priced(dp=4, zero_stage=3)).grad_reduce_s[0, 0] == 0.0


def test_experts_are_reduced_over_their_own_group() -> None:
    """TP2 DP4 EP2 ETP2: eight cards in two expert groups of four: expert DP 2, half of 4 GB on the wire."""
    group = priced(moe(), tp=2, dp=4, ep=2, etp=2)
    assert group.batch.expert_dp[0] == 2
    assert step_end(load(expert=1e9), group).grad_reduce_s[0, 0] == pytest.approx(4e9 / 2 / 100e9)


def test_reduction_has_the_links_that_others_leave() -> None:
    """0.03 s of reduction beside 0.04 s of backward whose links are busy for 0.03 s: 0.01 x 24/25 hides."""
    free = step_end(load(dense=1e9, forward=9.0, backward=0.04), priced(dp=4))
    shared = step_end(load(dense=1e9, forward=9.0, backward=0.04, backward_link=0.03), priced(dp=4))
    wire = 4e9 * 3 / 4 / 100e9
    gather = 2e9 * 3 / 4 / 100e9 / 25
    assert free.exposed_s[0, 0] - gather == pytest.approx(wire / 25)
    assert shared.exposed_s[0, 0] - gather == pytest.approx(wire - 0.01 * 24 / 25)
    slow_gather = step_end(load(dense=1e9, forward=0.01, backward=9.0, forward_link=0.01), priced(dp=4))
    assert slow_gather.exposed_s[0, 0] == pytest.approx(wire / 25 + gather * 25)


def test_links_between_nodes_carry_expert_communication_that_leaves_the_node() -> None:
    assert link_share(priced(moe(), dp=8, ep=8))[0, 0] == 0.0
    assert link_share(priced(moe(), dp=32, ep=32))[0, 0] == 1.0
    steps = link_share(priced(moe(), dp=32, ep=32, dispatcher="hierarchical-allgather"))[0, 0]
    assert 0.5 < steps < 1.0


def test_overlapped_reduction_slows_the_busiest_rank() -> None:
    group = priced(hardware=slow(overlap_slowdown_frac=0.1, step_s=2.0, micro_batch_s=0.25), dp=4)
    work = load(dense=1e9)
    end = step_end(work, group)
    assert slowed_by_reduction_s(end, work, group)[0] == pytest.approx(0.1 * end.overlapped_s[0, 0])
    assert beside_the_pipeline_s(end, work, group)[0] == pytest.approx(0.1 * end.overlapped_s[0, 0] + 2.0 + 0.25 * 16)


def test_later_ranks_have_slack() -> None:
    """Rank 1's last backward ends one backward of rank 0 and a hop (4 + 1 s) before rank 0's."""
    group = priced(pp=2, dp=2)
    one = step_end(load(), group)
    end = replace(one, exposed_s=np.array([[2.0, 6.5]]))
    assert exposed_after_slack_s(end, stages(2, p2p_s=1.0), group)[0] == pytest.approx(2.0)
    assert exposed_after_slack_s(replace(end, exposed_s=np.array([[2.0, 9.0]])), stages(2, p2p_s=1.0), group)[0] == 4.0
    folded = priced(pp=2, vpp=2, dp=2, schedule="zb-v")
    assert exposed_after_slack_s(end, stages(4, p2p_s=1.0), folded)[0] == 6.5


def test_stragglers_grow_with_doublings_of_nodes() -> None:
    group = priced(hardware=slow(straggler_frac_per_doubling=0.01), dp=64)
    assert straggler_frac(group)[0] == pytest.approx(0.03)
    quiet, noisy = (
        evaluate(Case(model=gpt(), hardware=h, workload=workload()), strategy(gpt(), dp=64))
        for h in (machine(), slow(straggler_frac_per_doubling=0.01))
    )
    assert noisy.step_s[0] == pytest.approx(1.03 * quiet.step_s[0])


# ------------------------------------------------------------------------------------------------ imbalance, memory


def test_imbalance_grows_with_cards_and_falls_with_experts_a_card() -> None:
    """16 cards of 4 experts are the profile's figure; a stated one holds for every EP; one card has no excess."""
    scaled = workload(expert_imbalance=1.23, imbalance_by_ep=True)
    assert rank_imbalance(scaled, 64.0, np.array([16]))[0] == pytest.approx(1.23)
    assert rank_imbalance(scaled, 64.0, np.array([8]))[0] == pytest.approx(
        1 + 0.23 * np.sqrt(np.log(8) / np.log(16) / 2)
    )
    assert rank_imbalance(scaled, 64.0, np.array([1]))[0] == 1.0
    assert rank_imbalance(workload(expert_imbalance=1.5), 64.0, np.array([8]))[0] == 1.5


def test_static_bytes_by_stage() -> None:
    """1000 dense over DP2 x CP2 and 1000 expert parameters over expert DP 2; 2 + 4 + 12 bytes each."""
    batch, work = strategy(moe(), dp=2, cp=2, ep=2), workload()
    assert batch.expert_dp[0] == 2

    def by_stage(**changes: object) -> list[float]:
        found = static_bytes(np.full((1, 1), 1000.0), np.full((1, 1), 1000.0), replace(batch, **changes), work)
        return [float(found[cause][0, 0]) for cause in ("weights", "gradients", "optimizer")]

    state = work.optimizer_bytes + work.master_grad_bytes
    assert by_stage(zero_stage=np.array([0])) == [4000.0, 8000.0, 2000 * state]
    assert by_stage(zero_stage=np.array([1])) == [4000.0, 8000.0, 750 * state]
    assert by_stage(zero_stage=np.array([1]), offload_frac=np.array([0.5])) == [4000.0, 8000.0, 375 * state]


def test_activations_in_flight() -> None:
    """Five chunks in groups of two with two chunks a rank: 2 of chunk 0, 2 of chunk 1, then one more of chunk 0."""
    assert in_flight_by_chunk(np.array([[5.0]]), np.array([2]), 2)[0, :, 0].tolist() == [3.0, 2.0]
    assert in_flight_v(np.array([[6.0]]), 2)[0, :, 0].tolist() == [3.0, 3.0]


def test_what_ranks_hold_of_each_stage() -> None:
    """Two ranks, two chunks: interleaved rank 0 has 2 of stage 0, 2 of stage 2 and one more of stage 0, rank 1 one less; a V
    holds 2p of them in halves; fed from both ends, rank 0 of 4 has four of stage 0 and one of stage 3."""
    looped = held_on_stages(priced(pp=2, vpp=2, dp=2, schedule="interleaved"))[0]
    assert looped.tolist() == [[3.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 1.0]]
    folded = held_on_stages(priced(pp=2, vpp=2, dp=2, schedule="zb-v"))[0]
    assert folded.tolist() == [[2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [2.0, 0.0]]
    ends = held_on_stages(priced(pp=4, dp=2, schedule="dualpipe"))[0]
    assert np.array([1.0, 2.0, 3.0, 10.0]) @ ends == pytest.approx([4 + 10, 6 + 6, 6 + 6, 10 + 4])


def test_overheads_of_memory() -> None:
    batch = strategy(gpt(), tp=2, dp=4)
    assert communication_groups(batch)[0] == 3  # TP, DP, and the experts' data-parallel group
    hardware = slow(context_bytes=1e9, fragmentation_frac=0.1, communication_buffer_bytes=0.5e9)
    found = overhead_bytes(np.full((1, 1), 10e9), batch, hardware)
    assert found["communication_buffers"][0, 0] == 1.5e9 and found["reserved_overhead"][0, 0] == 2e9


# ------------------------------------------------------------------------------------------------ stages, groups


def test_stages_add_up_to_the_price_list() -> None:
    group = priced(pp=4, dp=2)
    found, prices = stage_costs(group), group.table.prices
    assert found.forward_s.sum() == pytest.approx(prices.forward_s[0].sum(axis=1) @ group.layout.counts.sum(axis=0))
    masked = priced(pp=4, dp=2, recompute=RECOMPUTE_BIT["full"], recompute_layers=1)
    assert full_share(masked)[0].tolist() == [0.5] * 4
    plain, whole = (stage_costs(priced(pp=4, dp=2, recompute=mask)) for mask in (0, RECOMPUTE_BIT["full"]))
    blend = stage_costs(masked)
    assert blend.backward_input_s == pytest.approx((plain.backward_input_s + whole.backward_input_s) / 2)
    assert blend.saved_bytes == pytest.approx((plain.saved_bytes + whole.saved_bytes) / 2)


def test_ranks_of_both_ends_work_on_halves_of_two_stages() -> None:
    group = priced(pp=4, dp=2, schedule="dualpipe")
    assert group.work_by_rank(np.array([[1.0, 2.0, 3.0, 6.0]]))[0].tolist() == [3.5, 2.5, 2.5, 3.5]
    folded = priced(pp=2, vpp=2, dp=2, schedule="zb-v")
    assert folded.by_rank(np.array([[1.0, 2.0, 3.0, 6.0]]))[0].tolist() == [7.0, 5.0]


def test_a_price_list_always_holds_what_is_saved_without_recompute() -> None:
    """Whatever the strategies of the batch recompute: working sets are measured against it."""
    group = priced(dp=2, recompute=RECOMPUTE_BIT["mlp"])
    masks = group.table.prices.masks
    assert 0 in masks and masks[int(group.table.mask[0])] == masks[int(group.table.plain[0])] == RECOMPUTE_BIT["mlp"]


def test_replayed_together_only_with_the_same_graph() -> None:
    from cost_models.strategies import StrategyBatch

    model = moe()
    ways = [
        strategy(model, pp=2, dp=4),
        strategy(model, pp=2, dp=4, ep_overlap=True),
        strategy(model, pp=2, dp=4, zero_stage=3),
    ]
    batch = replace(StrategyBatch.concatenate(ways), layout=np.zeros(3, dtype=np.int64))
    case = Case(model=model, hardware=machine(), workload=workload())
    table = price_table(case, batch)
    assert len(list(replay_groups(case, batch, table))) == 3
    assert len(list(priced_groups(case, batch, table, ()))) == 1


def test_causes_of_a_whole_step() -> None:
    """Gathers of ZeRO-3 are data-parallel communication; nothing is recomputed, so nothing is said to be."""
    cost = evaluate(Case(model=gpt(), hardware=machine(), workload=workload()), strategy(gpt(), dp=64, zero_stage=3))
    assert cost.time_s["dp_comm"][0] > 0 and cost.time_s["recompute"][0] == pytest.approx(0.0, abs=1e-12)
    again = evaluate(
        Case(model=gpt(), hardware=machine(), workload=workload()),
        strategy(gpt(), dp=64, recompute=RECOMPUTE_BIT["full"]),
    )
    assert again.time_s["recompute"][0] > 0
    assert sum(v[0] for v in again.time_s.values()) == pytest.approx(again.step_s[0])

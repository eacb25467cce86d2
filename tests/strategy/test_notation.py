"""The notation both ways."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.errors import InputError
from autodeploy.strategy.notation import Strategy, default_schedule, parse_strategy
from cost_models.strategies import DISPATCHERS, RECOMPUTE_MODULES, SCHEDULES

PANGU = "TP8/PP16/VPP2/EP32/MBS2/selective(mla_up_proj,layernorm,moe)"
LAYOUTS = ("", "noop:61,62,63", "17,20,22,21", "Et*3|(tt|)*29,m|L", "account-for-loss", "fqn:8,9,9,6")
shares = st.floats(0, 1, allow_nan=False)
sizes = st.integers(1, 4096)


@st.composite
def any_strategy(draw: st.DrawFn) -> Strategy:
    modules = st.lists(st.sampled_from(RECOMPUTE_MODULES[:-1]), unique=True).map(tuple)
    recompute = draw(st.one_of(modules, st.just(("full",))))
    return Strategy(
        tp=draw(sizes), pp=draw(sizes), vpp=draw(sizes), cp=draw(sizes), ep=draw(sizes), etp=draw(sizes),
        dp=draw(st.integers(0, 4096)), micro_batch=draw(sizes), micro_batch_group=draw(st.integers(0, 99)),
        zero_stage=draw(st.integers(0, 3)), sequence_parallel=draw(st.booleans()), recompute=recompute,
        recompute_layers=draw(st.integers(0, 9)) if recompute == ("full",) else 0,
        schedule=draw(st.sampled_from(SCHEDULES)), dispatcher=draw(st.sampled_from(DISPATCHERS)),
        ep_overlap=draw(st.booleans()), offload_frac=draw(shares), swap_frac=draw(shares),
        layout=draw(st.sampled_from(LAYOUTS)),
    )  # fmt: skip


@given(any_strategy())
def test_what_is_printed_reads_back_as_the_same(strategy: Strategy) -> None:
    assert parse_strategy(str(strategy)) == strategy


def test_the_published_strategy_prints_as_it_is_written() -> None:
    strategy = parse_strategy(PANGU)
    assert str(strategy) == PANGU
    assert strategy.label == "TP8/PP16/VPP2/EP32"
    assert (strategy.micro_batch, strategy.recompute_kind) == (2, "selective")


def test_what_is_omitted() -> None:
    s = parse_strategy("TP8/PP16/VPP2/EP32")
    assert (s.etp, s.cp, s.micro_batch, s.zero_stage, s.dp) == (1, 1, 1, 1, 0)
    assert s.sequence_parallel and not s.recompute and s.schedule == "interleaved" and s.dispatcher == "alltoall"
    assert str(s) == "TP8/PP16/VPP2/EP32"
    assert parse_strategy("TP1").sequence_parallel is False


@pytest.mark.parametrize(("pp", "vpp", "name"), [(1, 1, "none"), (4, 1, "1f1b"), (4, 2, "interleaved")])
def test_default_schedule_follows_the_pipeline(pp: int, vpp: int, name: str) -> None:
    assert default_schedule(pp, vpp) == parse_strategy(f"PP{pp}/VPP{vpp}").schedule == name


def test_order_and_case_do_not_matter() -> None:
    assert parse_strategy("ep32/Selective(moe,LAYERNORM,mla_up_proj)/vpp2/mbs2/pp16/tp8") == parse_strategy(PANGU)


def test_adaptive_pipe_overlaps_by_itself() -> None:
    strategy = parse_strategy("TP8/PP16/VPP2/EP32/adaptive-pipe")
    assert strategy.ep_overlap and str(strategy) == "TP8/PP16/VPP2/EP32/adaptive-pipe"


def test_a_layout_keeps_its_parentheses() -> None:
    strategy = parse_strategy("TP8/PP16/VPP2/EP64/layout(Et*3|(tt|)*29,m|L)")
    assert strategy.layout == "Et*3|(tt|)*29,m|L"


def test_a_group_of_pp_is_the_default() -> None:
    assert parse_strategy("PP4/VPP2/G4") == parse_strategy("PP4/VPP2")
    assert "G5" in str(parse_strategy("PP4/VPP2/G5"))


@pytest.mark.parametrize(
    "text",
    [
        "", "TP", "TP8//PP2", "TP0", "TP-1", "TP8/TP4", "XP8", "TP8/selective()", "TP8/selective(everything)",
        "TP8/full(0)", "TP8/ZeRO4", "TP8/offload1.5", "TP8/layout(Et|(tL", "TP8/full/selective(moe)", "TP8/1f1b/zb-h1",
        "TP8.5", "TP8/swap", "TP8/selective(full)", "MBS0",
    ],
)  # fmt: skip
def test_bad_notation_is_one_clear_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_strategy(text)
    assert "strategy" in str(caught.value) and "\n" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_strategy_or_bad_input(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_strategy(text)


@pytest.mark.parametrize(
    ("token", "meant"),
    [
        ("adaptive", "adaptive-pipe"),
        ("interleavd", "interleaved"),
        ("alltoal", "alltoall"),
        ("dualpipe-v", "dualpipev"),
    ],
)
def test_a_word_that_is_near_is_named(token: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean {meant}"):
        parse_strategy(f"TP2/{token}")


def test_a_word_that_is_near_nothing_gets_the_list() -> None:
    with pytest.raises(InputError, match="write TP8/PP16"):
        parse_strategy("TP2/qqqq")

"""Megatron's layout grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.errors import InputError
from autodeploy.strategy.layout_text import StageText, parse_layout_text, print_layout_text


@st.composite
def any_layout(draw: st.DrawFn) -> list[StageText]:
    counts = draw(st.lists(st.integers(0, 12), min_size=1, max_size=40))
    mtp = draw(st.integers(0, 2))
    alone = draw(st.booleans()) and len(counts) > 2
    mtp_stage = len(counts) - (2 if alone else 1)
    if alone:
        counts[-1] = 0
    last = len(counts) - 1
    return [StageText(n, int(s == 0), mtp if s == mtp_stage else 0, int(s == last)) for s, n in enumerate(counts)]


@given(any_layout())
def test_what_is_printed_reads_back_as_the_same(stages: list[StageText]) -> None:
    assert list(parse_layout_text(print_layout_text(stages))) == stages


def test_deepseek_v3_on_1024_cards() -> None:
    """User case 45: 3 + 58 = 61 layers over TP2 PP16 VPP2; MTP alone, head alone."""
    stages = parse_layout_text("Et*3|(tt|)*29,m|L")
    assert len(stages) == 32
    assert sum(stage.layers for stage in stages) == 61
    assert stages[30] == StageText(mtp=1) and stages[31] == StageText(loss=1)


def test_llama3_70b_on_64_cards() -> None:
    """User case 47: PP8 VPP5, 2 + 68 + 3 + 6 + 1 = 80 layers."""
    stages = parse_layout_text("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL")
    assert len(stages) == 40
    assert sum(stage.layers for stage in stages) == 80
    assert stages[35].layers == 3 and stages[39] == StageText(layers=1, loss=1)


@pytest.mark.parametrize(
    "text",
    ["", "tt|L", "Ett|tt", "Et|xL", "Et|E|L", "Et|mt|L", "Em|mL", "EL|t", "Et*|L", "Et|(t|*3L", "Et*99999|L", "LtE", "E*2t|L"],
)  # fmt: skip
def test_bad_grammar_is_one_clear_line(text: str) -> None:
    with pytest.raises(InputError, match="pipeline-model-parallel-layout"):
        parse_layout_text(text)

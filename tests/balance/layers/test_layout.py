"""The layout grammar, the named rules, the in-flight counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.balance.layers import RULES, check_layout, format_layout, in_flight_counts, parse_layout
from autodeploy.balance.layers.rules import broken_rules
from autodeploy.errors import InputError

stage = st.text("EtmL", max_size=8)


@given(st.lists(stage, min_size=1, max_size=12), st.integers(1, 5))
def test_round_trip(stages, repeat):
    stages = tuple(stages * repeat)
    assert parse_layout(format_layout(stages)) == stages


def test_published_layouts():
    """DeepSeek-V3 PP16 VPP2 (Megatron's docs), without MTP (Megatron-LM PR 2280), Llama-3 70B (Bridge PR 5391)."""
    stages = parse_layout("Et*3|(tt|)*29,m|L")
    assert stages == ("Ettt", *["tt"] * 29, "m", "L")
    check_layout(stages, 16, 61, 1)
    assert format_layout(stages) == "Et*3|(tt|)*29,m|L"
    check_layout(parse_layout("Et*3|(tt|)*29|L"), 16, 61, 0)
    llama = parse_layout("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL")
    assert len(llama) == 40 and "".join(llama).count("t") == 80
    check_layout(llama, 8, 80, 0)
    assert parse_layout("xy".replace("xy", "tt(t|t)*2,t")) == ("ttt", "tt", "tt")


@pytest.mark.parametrize("text", ["Et x|L", "Et|((t|)*2)*3L", "Et*|L", "E(t|*2L", "Et*999999999|L"])
def test_bad_text_is_named(text):
    with pytest.raises(InputError, match="layout"):
        parse_layout(text)


BROKEN = {  # rule: (layout, pp, layers, mtp)
    "stages_divide": ("Et|t|tL", 2, 3, 0),
    "embedding_first": ("tE|tL", 2, 2, 0),
    "loss_last": ("EtL|t", 2, 2, 0),
    "ends_on_outer_stages": ("|Et|tL|", 2, 2, 0),
    "layer_count": ("Et|tL", 2, 3, 0),
    "mtp_count": ("Et|tL", 2, 2, 1),
    "mtp_after_decoder": ("Et|mtL", 2, 2, 1),
    "mtp_in_one_stage": ("Et|t|m|mL", 4, 2, 2),
    "mtp_on_last_chunk": ("Et|tm||L", 2, 2, 1),
    "mtp_not_on_first_rank": ("Et|t|m|L", 2, 2, 1),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_says_when_it_is_broken(name):
    text, pp, layers, mtp = BROKEN[name]
    assert name in broken_rules(parse_layout(text), pp, layers, mtp)
    with pytest.raises(InputError):
        check_layout(parse_layout(text), pp, layers, mtp)


def test_in_flight_of_1f1b_and_interleaved():
    """min(m, p-r), and min(m*v, 2*(p-r-1) + (v-1)*G + 1) chunks."""
    assert [int(row.max()) for row in in_flight_counts(4, 1, 8).rows] == [4, 3, 2, 1]
    assert [int(row.max()) for row in in_flight_counts(4, 1, 2).rows] == [2, 2, 2, 1]
    for pp, vpp, micro_batches, group, extra in ((4, 2, 8, 0, 0), (4, 3, 16, 4, 0), (4, 2, 10, 5, 0), (2, 2, 8, 2, 1)):
        counts = in_flight_counts(pp, vpp, micro_batches, group, extra)
        for rank, rows in enumerate(counts.rows):
            total = 2 * (pp - rank - 1) + (vpp - 1) * (group or pp) + 1 + extra
            assert rows.sum(axis=1).max() == min(micro_batches * vpp, total)
    assert np.array_equal(in_flight_counts(2, 2, 2).rows[0].max(axis=0), [2, 2])


def test_in_flight_refuses_fewer_micro_batches_than_ranks():
    with pytest.raises(InputError, match="micro_batches"):
        in_flight_counts(4, 2, 3)

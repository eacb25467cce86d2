"""Layouts in the sources' own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.accuracy.layouts import default_split, even_split, megatron_split, parse_split
from autodeploy.errors import InputError

# text, layers, stages -> layers by stage
FORMS = [
    ("no-op slots 2,3 of 4", 2, 2, (2, 0)),
    ("no-op slots 1,15 of 16", 14, 8, (1, 2, 2, 2, 2, 2, 2, 1)),
    ("no-op slots 31,47,63 of 64", 61, 8, (8, 8, 8, 7, 8, 7, 8, 7)),
    ("layers per stage 17,20,22,21", 80, 4, (17, 20, 22, 21)),
    ("15 16 16 14", 61, 4, (15, 16, 16, 14)),
    ("offset [-1,1,1,-1] around 16 layers", 64, 4, (15, 17, 17, 15)),
    (
        "offset [[-1,-1,0,0,0,0,0,0],[-1,0,0,0,0,0,0,0],[0,0,0,1,1,1,1,-1]] (3 chunks x 8 stages around 4 layers)",
        96, 24, (3, 3, 4, 4, 4, 4, 4, 4, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 3),
    ),
    ("embedding slot: first and last stage 5 layers, others 6 (type:transformer|embedding)", 70, 12, (5, *[6] * 10, 5)),
    ("8 layers per stage; embedding also on the first, head on the last stage", 80, 10, (8,) * 10),
    ("7 layers x 11 stages, last stage 1", 78, 12, (*[7] * 11, 1)),
    ("embedding and loss each take one layer slot", 94, 32, (2, *[3] * 30, 2)),
    ("9 layers per stage, first and last one fewer (9*8-2=70)", 70, 8, (8, *[9] * 6, 8)),
    ("first and last stage one layer fewer", 22, 8, (2, *[3] * 6, 2)),
    ("first and last stage one layer fewer", 22, 24, (0, *[1] * 22, 0)),
    (
        "1 layer per chunk; first chunk of the first stage only the embedding, last chunk of the last stage only the "
        "head",
        126, 128, (0, *[1] * 126, 0),
    ),
    ("Et*4|(t*4|)*14tmL", 61, 16, (*[4] * 15, 1)),
    ("Et*4|(tttt|)*14tmL", 61, 16, (*[4] * 15, 1)),
    ("Et|(tt|)*30mL", 61, 32, (1, *[2] * 30, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "layers", "stages", "split"), FORMS)
def test_forms(text, layers, stages, split):
    assert parse_split(text, layers, stages).layers == split


def test_megatron_letters():
    split = megatron_split("Et|(tt|)*30mL")
    assert (split.embedding, split.mtp, split.head) == (0, 31, 31)


def test_every_layout_of_the_runs_parses(run_set):
    for run in run_set.runs:
        if run.pipeline_layout and run.pp and run.pp > 1:
            layers = run_set.models[run.model]["num_layers"]
            assert sum(parse_split(run.pipeline_layout, layers, run.pp * (run.vpp or 1)).layers) == layers, run.id


@pytest.mark.parametrize("text", ["17,20,22,2", "layers per stage 1,2,3", "Et|tL", "as it was"])
def test_what_loses_a_layer_is_refused(text):
    with pytest.raises(InputError, match="pipeline_layout"):
        parse_split(text, 80, 4)


@given(layers=st.integers(1, 200), stages=st.integers(1, 64))
def test_default_split_keeps_every_layer(layers, stages):
    for front_heavy in (False, True):
        split, note = default_split(layers, stages, front_heavy=front_heavy)
        assert sum(split.layers) == layers and len(split.layers) == stages and min(split.layers) >= 0
        assert bool(note) == (layers % stages != 0)


def test_default_splits_of_recipes():
    assert default_split(61, 16)[0].layers == (*[4] * 15, 1)  # Megatron-Bridge, DeepSeek-V3 and Kimi-K2
    assert default_split(94, 8)[0].layers == (11, *[12] * 6, 11)  # Qwen3-235B: embedding and loss slots
    assert even_split(60, 8).layers == (8, 8, 8, 8, 7, 7, 7, 7)


@pytest.mark.parametrize("text", ["even", "uniform split", "Evenly divided", "equal stages", "split evenly over the stages",
                                  "the same number of layers on every stage"])  # fmt: skip
def test_words_that_mean_an_even_split(text):
    assert parse_split(text, 24, 4).layers == (6, 6, 6, 6)
    assert parse_split(text, 26, 4).layers == (7, 7, 6, 6)


@pytest.mark.parametrize(
    "text", ["uneven, see text", "uneven pipeline split", "even, except that the last stage has 3"]
)
def test_words_that_do_not_are_refused(text):
    with pytest.raises(InputError, match="pipeline_layout"):
        parse_split(text, 24, 4)

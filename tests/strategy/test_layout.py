"""Layouts: every layer once, ends where they belong, the defaults of each back end."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.strategy.backends import BACKENDS
from autodeploy.strategy.layout import Placing, default_layout, layouts_for, parse_layout, rank_of
from cost_models.inputs import FeedForward, LayerKind, ModelSpec
from cost_models.strategies import Layout
from tests.strategy import specs

PAIRS = [(1, 1), (2, 1), (4, 1), (4, 2), (5, 5), (7, 3), (8, 1), (8, 6), (12, 1), (16, 1), (16, 2), (16, 4), (48, 1)]


def decoder_layers(layout: Layout) -> list[int]:
    return layout.layers_per_stage.astype(int).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("model", specs.ALL, ids=lambda model: model.name)
@pytest.mark.parametrize("placing", [Placing(), Placing(v_shaped=True), Placing(ep_overlap=True)], ids=str)
def test_every_layout_places_everything_once_and_in_order(model: ModelSpec, backend: str, placing: Placing) -> None:
    sequence = np.array(model.layer_sequence())
    for pp, vpp in PAIRS:
        if placing.v_shaped and vpp != 2:
            continue
        for layout in layouts_for(model, pp, vpp, backend, placing):
            counts, kinds = layout.counts, len(model.kinds)
            assert counts.shape == (pp * vpp, kinds + 3)
            assert counts[:, :kinds].sum() == model.num_layers
            held = np.repeat(np.arange(pp * vpp), decoder_layers(layout))
            for stage in range(pp * vpp):
                expected = np.bincount(sequence[held == stage], minlength=kinds)
                assert (counts[stage, :kinds] == expected).all()
            assert counts[0, kinds] == 1 and counts[:, kinds].sum() == 1
            assert counts[:, kinds + 1].sum() == model.mtp_modules
            assert counts[-1, kinds + 2] == 1 and counts[:, kinds + 2].sum() == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("model", specs.ALL, ids=lambda model: model.name)
@pytest.mark.parametrize("placing", [Placing(), Placing(ep_overlap=True)], ids=str)
def test_the_text_of_a_layout_reads_back_as_the_layout(model: ModelSpec, backend: str, placing: Placing) -> None:
    for pp, vpp in PAIRS:
        found = layouts_for(model, pp, vpp, backend, placing)
        assert [layout.key for layout in found[:1]] in ([], [""])
        for layout in found:
            if layout.text:
                again = parse_layout(layout.text, model, pp, vpp)
                assert (again.counts == layout.counts).all()


def test_mindspeed_with_overlap_and_vpp_has_no_empty_stage_and_no_early_no_op_slot() -> None:
    """DeepSeek-V3 under PP16 VPP2: three no-op slots do not fit in the last stage of two, so the layout is a string."""
    overlap = Placing(ep_overlap=True)
    layout = default_layout(specs.DEEPSEEK_V3, 16, 2, "mindspeed", overlap)
    assert layout.text == "Et|(tt|)*14t|(tt|)*15tmL" and layout.key == ""
    assert default_layout(specs.DEEPSEEK_V3, 8, 2, "mindspeed", overlap).text == "noop:61,62,63"
    for model, (pp, vpp) in product(specs.ALL, [(8, 2), (16, 2), (8, 4), (4, 4), (12, 2), (8, 3)]):
        for found in layouts_for(model, pp, vpp, "mindspeed", overlap):
            assert found.layers_per_stage.min() >= 1
            if found.text.startswith("noop:"):
                slots = found.layers_per_stage.max()
                assert min(map(int, found.text[5:].split(","))) >= slots * (pp * vpp - 1)


def test_mindspeed_pads_pangu_with_no_op_slots_at_the_end() -> None:
    """61 layers + MTP in 64 slots for PP16 VPP2: two slots a stage, the MTP module on the last."""
    layout = default_layout(specs.PANGU_ULTRA_MOE, 16, 2, "mindspeed")
    assert layout.text == "noop:61,62,63"
    assert decoder_layers(layout) == [2] * 30 + [1, 0]
    assert layout.counts[-1, -2] == 1
    assert layout.counts[0, :2].tolist() == [2, 0] and layout.counts[1, :2].tolist() == [
        1,
        1,
    ]  # 3 dense layers in front


def test_megatron_counts_embedding_and_loss_as_layers() -> None:
    """User case 45: 94 layers over 32 virtual stages as 96 - 2; also 126 = 128 - 2."""
    assert decoder_layers(default_layout(specs.QWEN3_235B, 8, 4, "megatron")) == [2] + [3] * 30 + [2]
    layout = default_layout(specs.LLAMA31_405B, 16, 8, "megatron")
    assert layout.text == "account-for-embedding-and-loss"
    assert decoder_layers(layout) == [0] + [1] * 126 + [0]


def test_torchtitan_weighs_both_ends_as_a_layer() -> None:
    assert decoder_layers(default_layout(specs.LLAMA3_8B, 4, 1, "torchtitan")) == [8, 9, 8, 7]


def test_even_where_it_divides() -> None:
    layout = default_layout(specs.LLAMA3_70B, 8, 5, "megatron")
    assert decoder_layers(layout) == [2] * 40 and layout.text == ""


def test_a_heavy_head_gets_a_lighter_last_stage_as_an_alternate() -> None:
    default, *others = layouts_for(specs.LLAMA3_8B, 4, 1, "megatron")
    assert decoder_layers(default) == [8, 8, 8, 8]
    assert others and all(decoder_layers(layout)[-1] < 8 and layout.key == layout.text for layout in others)


def test_uneven_dense_layers_of_user_case_3() -> None:
    """8 dense layers laid out [1, 2, 2, 3]."""
    dense = LayerKind(attention=specs.gqa(4, 4, 8), feed_forward=FeedForward(width=64))
    model = ModelSpec(name="eight", hidden=32, vocab=128, layers=((dense, 8),))
    for text in ("1,2,2,3", "Et|tt|tt|t*3L"):
        layout = parse_layout(text, model, 4, 1)
        assert decoder_layers(layout) == [1, 2, 2, 3]
        assert layout.counts[:, -3].tolist() == [1, 0, 0, 0] and layout.counts[:, -1].tolist() == [0, 0, 0, 1]


def test_published_no_op_slots() -> None:
    """Kimi K2 on 512 dies: no-op slots 31, 47, 63 of 64 over PP8."""
    layout = parse_layout("noop:31,47,63", specs.DEEPSEEK_V3, 8, 1)
    assert decoder_layers(layout) == [8, 8, 8, 7, 8, 7, 8, 7]


@pytest.mark.parametrize(
    "text",
    [
        "11,13", "even", "noop:64", "noop:61,62", "noop:61,61,62", "Et*30|t*31L", "Et*30|t*30mL", "account-for-embedding-and-loss",
        "Et|t*60mL|", "Etm|t*60L", "1,2,x", "account-for-nothing", "noop:",
    ],
)  # fmt: skip
def test_a_layout_that_loses_layers_is_refused(text: str) -> None:
    """User cases 37-42: layers were dropped in silence."""
    with pytest.raises(InputError):
        parse_layout(text, specs.DEEPSEEK_V3, 2, 1)


def test_mtp_sits_in_the_last_virtual_stage_of_its_rank_and_not_on_rank_0() -> None:
    chunks = ["Et*30", "t*10", "t*10", "t*11"]
    with pytest.raises(InputError, match="MTP in the last virtual stage"):
        parse_layout("Et*30|t*31m||L", specs.DEEPSEEK_V3, 2, 2)
    with pytest.raises(InputError, match="not on rank 0"):
        parse_layout("|".join(chunks[:2]) + "|t*21m|L", specs.DEEPSEEK_V3, 2, 2)
    assert parse_layout("|".join(chunks) + "mL", specs.DEEPSEEK_V3, 2, 2).counts[-1, -2] == 1


def test_v_shaped_schedules_turn_at_the_last_rank() -> None:
    assert [rank_of(s, 4, True) for s in range(8)] == [0, 1, 2, 3, 3, 2, 1, 0]
    assert [rank_of(s, 4, False) for s in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_interleaved_chunks_as_megatron_places_them() -> None:
    """User case 95: 8 layers PP2 VPP2: rank 0 holds the layers 0, 1 and 4, 5."""
    stages = [s for s in range(4) if rank_of(s, 2, False) == 0]
    assert [2 * s + i for s in stages for i in range(2)] == [0, 1, 4, 5]


def test_too_many_stages() -> None:
    assert layouts_for(specs.LLAMA3_8B, 32, 8, "megatron") == []
    with pytest.raises(InputError, match="32 layers"):
        default_layout(specs.LLAMA3_8B, 32, 8, "mindspeed")

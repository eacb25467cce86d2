"""Layer items: they add up to the stages of the closed form; balanced layouts are better and can be written."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.errors import InputError
from autodeploy.replay.balanced import balanced, stages_of
from autodeploy.replay.items import price_items
from autodeploy.strategy.convert import batch_to_strategy
from cost_models.step import evaluate
from tests.replay.cases import DENSE, MOE, SELECTIVE, strategy


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (DENSE, "TP2/PP4/VPP2"),
        (DENSE, "TP2/PP4/full"),
        (MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}"),
        (MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}/adaptive-pipe/hierarchical-allgather"),
    ],
)
def test_items_add_up_to_the_stage_costs(of: tuple, text: str) -> None:
    case, batch = strategy(of, text)
    items = price_items(case, batch)
    cost = evaluate(case, batch, per_rank=True)
    micro_batches = batch.micro_batches(case.workload.global_batch)[0]
    assert cost.rank_busy_s is not None and cost.rank_memory_bytes is not None
    assert items.seconds.sum() * micro_batches == pytest.approx(cost.rank_busy_s.sum(), rel=1e-9)
    static = sum(cost.rank_memory_bytes[cause].sum() for cause in ("weights", "gradients", "optimizer"))
    assert items.static_bytes.sum() <= static * (1 + 1e-9)
    assert items.num_layers == case.model.num_layers and items.mtp_modules == case.model.mtp_modules


@pytest.mark.parametrize(
    ("text", "backend", "written"),
    [(f"TP8/PP16/VPP2/EP32/{SELECTIVE}/ep-overlap", "any", "Et*3|")],
)
def test_a_balanced_layout_is_written_and_better(text: str, backend: str, written: str) -> None:
    case, batch = strategy(MOE, text, backend)
    rows, found = balanced(case, batch, backend)
    assert rows.tolist() == [0]
    assert written in str(batch_to_strategy(found))
    assert found.layouts[0].counts.sum(axis=0) == pytest.approx(batch.layouts[0].counts.sum(axis=0))
    assert evaluate(case, found).step_s < evaluate(case, batch).step_s


def test_nothing_slower_than_the_start_is_given() -> None:
    """Pangu with its MTP module beside the head: ranks and chunks are even already, to whole layers."""
    case, batch = strategy(MOE, f"TP8/PP16/VPP2/EP32/{SELECTIVE}", "mindspeed")
    rows, found = balanced(case, batch, "mindspeed")
    assert not len(rows) or evaluate(case, found).step_s < evaluate(case, batch).step_s


def test_what_is_even_already_stays() -> None:
    case, batch = strategy(DENSE, "TP2/PP1")
    assert not len(balanced(case, batch, "megatron")[0])


def test_layout_as_symbols() -> None:
    *_, batch = strategy(DENSE, "TP2/PP4")
    stages = stages_of(batch.layouts[0])
    assert stages[0][0] == "E" and stages[-1][-1] == "L" and "".join(stages).count("t") == 32
    assert np.all([set(stage) <= set("EtmL") for stage in stages])


def test_a_schedule_placed_in_a_v_is_refused() -> None:
    with pytest.raises(InputError, match="schedule"):
        price_items(*strategy(DENSE, "TP2/PP4/VPP2/zb-v"))

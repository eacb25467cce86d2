"""The axis table is complete: what it does not name cannot be typed, printed, told apart or searched."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from autodeploy.search.candidates import IDENTITY
from autodeploy.strategy.axes import Axes
from autodeploy.strategy.axis_table import AXIS_TABLE, COLUMNS, DEFAULT_OF, OPTIONS, TOKEN_OF, departures
from autodeploy.strategy.convert import strategy_to_batch
from autodeploy.strategy.notation import Strategy, parse_strategy
from autodeploy.study.landscape import AXES
from cost_models.strategies import StrategyBatch
from tests.strategy import specs


def test_every_axis_is_in_the_table_once() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS) == len(AXIS_TABLE)
    assert {f.name for f in fields(Strategy)} == set(COLUMNS) == {f.name for f in fields(StrategyBatch)} - {"layouts"}
    assert {f.name for f in fields(Axes)} == set(OPTIONS)
    assert set(IDENTITY) | {"micro_batch_group", "layout"} == set(COLUMNS) == set(AXES) - {"devices"} | {"dp"}


def test_defaults_are_those_of_a_strategy_that_says_nothing() -> None:
    plain = Strategy()
    assert all(getattr(plain, column) == default for column, default in DEFAULT_OF.items())
    assert departures(strategy_to_batch(parse_strategy("TP2/PP2/VPP2/EP2/DP1"), specs.QWEN3_30B)).tolist() == [0]


def test_a_token_with_a_number_is_read_as_its_axis() -> None:
    for column, token in TOKEN_OF.items():
        number = 1 if column in ("offload_frac", "swap_frac") else 3
        assert getattr(parse_strategy(f"{token}{number}"), column) == number


def test_departures_count_every_option_that_is_said() -> None:
    texts = ["TP2/PP2", "TP2/PP2/MBS2", "TP2/PP2/MBS2/noSP", "TP2/PP2/full/swap0.5", "PP2/selective(mlp,layernorm)",
             "PP4/VPP2/G8", "PP4/VPP2/layout(even)", "PP4/ZeRO0/zb-h1"]  # fmt: skip
    batches = [strategy_to_batch(parse_strategy(f"{text}/DP1"), specs.LLAMA3_8B, backend="any") for text in texts]
    counted = departures(StrategyBatch.concatenate(batches))
    assert np.array_equal(counted, [0, 1, 2, 2, 2, 1, 1, 2])

"""Every schedule's record: what its fields promise, against its own order, and what a wrong record says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autodeploy.schedule import SCHEDULES
from autodeploy.schedule.live_memory import in_flight_chunks as counted
from autodeploy.schedule.operations import I
from autodeploy.schedule.table import build_schedule, order_function
from autodeploy.strategy.backends import BACKENDS
from cost_models.errors import ConfigError
from cost_models.schedules import SCHEDULE_TABLE, Chunks, find_schedule, in_flight_chunks
from tests.schedule.cases import shape

ALL = sorted(SCHEDULE_TABLE)


@pytest.mark.parametrize("name", ALL)
def test_record_agrees_with_its_order(name: str) -> None:
    """Placement, copies of the weights and in-flight chunks, as the operations of every rank show them."""
    record = SCHEDULE_TABLE[name]
    if name not in SCHEDULES:
        assert record.replayed_as in SCHEDULES
        return
    p, m = 4, 16
    order = build_schedule(name, shape(name, p, m))
    vpp = order.stages // p
    assert record.chunks.allow(np.array(vpp))
    assert order.weight_copies == record.weight_copies == len(order.rank_of)
    rank_of = {"loop": lambda s: s % p, "both-ends": lambda s: s, "v": lambda s: s if s < p else 2 * p - 1 - s}
    assert list(order.rank_of[0]) == [rank_of[record.placement](s) for s in range(order.stages)]
    held, limit = counted(order), in_flight_chunks(name, p, vpp, m)[0]
    assert (held <= limit).all() if record.limit_only else (held == limit).all()
    paired = any(len(slot) == 2 for ops in order.orders for slot in ops)
    assert paired == (record.pairs != "none")
    split = any(op[0] == I for ops in order.orders for slot in ops for op in slot)
    assert split == record.splits_backward


@pytest.mark.parametrize("name", ALL)
def test_names_lead_to_records_orders_and_back_ends(name: str) -> None:
    record = SCHEDULE_TABLE[name]
    assert callable(order_function(name))
    assert set(record.launched_by) | set(record.searched_by) <= set(BACKENDS)
    assert set(record.searched_by) <= {*record.launched_by, "any"}
    assert all(name in BACKENDS[backend].schedules for backend in record.launched_by)
    for alias in (name, *record.aliases):
        assert find_schedule(alias.upper()) is record
    if record.overlapped_as:
        assert SCHEDULE_TABLE[record.overlapped_as].pairs != "none"
        assert SCHEDULE_TABLE[record.overlapped_as].placement == record.placement


def test_aliases_are_each_of_one_schedule() -> None:
    names = [word for record in SCHEDULE_TABLE.values() for word in (record.name, *record.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "ZB/V"}, "Schedule.name"),
        ({"chunks": Chunks(2, None)}, "Schedule.chunks"),
        ({"weight_copies": 2}, "Schedule.weight_copies"),
        ({"grouped": True}, "Schedule.grouped"),
        ({"needs_overlap": True}, "Schedule.overlapped_as"),
        ({"pairs_ends": True}, "Schedule.pairs_ends"),
        ({"placement": "w"}, "Schedule.placement"),
        ({"order": "zb_v"}, "Schedule.order"),
    ],
)
def test_a_wrong_record_is_refused_when_it_is_built(change: dict, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(SCHEDULE_TABLE["zb-v"], **change)


@pytest.mark.parametrize("name", ALL)
def test_figures_are_within_reason(name: str) -> None:
    SCHEDULE_TABLE[name].check_figures()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"closed_form": lambda c: np.zeros(1)}, "Schedule.closed_form"),
        ({"in_flight": lambda s: 0 * s.rank}, "Schedule.in_flight"),
    ],
)
def test_wrong_figures_are_refused(change: dict, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(SCHEDULE_TABLE["zb-v"], **change).check_figures()


def test_unknown_name_lists_the_table() -> None:
    with pytest.raises(ConfigError, match="zb-v-half"):
        find_schedule("zb-w")

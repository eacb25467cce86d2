"""The catalogue of lane orders against every lane order there is, on one layer a stream."""

from __future__ import annotations

import numpy as np
import pytest

from autodeploy.schedule.lane_orders import CATALOGUE, lane_order, ordered_streams
from autodeploy.schedule.operations import B, F
from autodeploy.schedule.segments import COMPUTE, LANE_OF
from autodeploy.schedule.templates import make_template
from tests.schedule.exhaustive import MASK, all_templates, random_layers, rate_s


def catalogue_rates(seconds: np.ndarray, most_pieces: int) -> np.ndarray:
    rates = []
    for entry in CATALOGUE:
        if entry.pieces <= most_pieces:
            streams, sequence = ordered_streams((F, B), ((MASK,), (MASK,)), entry)
            rates.append(rate_s(make_template(streams, sequence, blocking=False), seconds))
    return np.min(rates, axis=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_catalogue_against_exhaustive_search(seed: int) -> None:
    seconds = random_layers(100, seed)
    templates = list(all_templates())
    assert len(templates) > 250
    best = np.min([rate_s(template, seconds) for template in templates], axis=0)
    ratio = catalogue_rates(seconds, most_pieces=1) / best
    assert (ratio >= 1 - 1e-9).all(), "exhaustive search must cover the catalogue"
    assert ratio.mean() < 1.005
    assert ratio.max() < 1.12
    cut = catalogue_rates(seconds, most_pieces=4) / best  # finer cuts can beat the best uncut order
    assert cut.mean() < 1.001


def test_chunk_order_hides_little() -> None:
    """The yardstick bites: the coarsest entry is far from the best."""
    seconds = random_layers(50, 2)
    streams, sequence = ordered_streams((F, B), ((MASK,), (MASK,)), lane_order("chunk"))
    coarse = rate_s(make_template(streams, sequence, blocking=False), seconds)
    assert (coarse / catalogue_rates(seconds, 4)).mean() > 1.3


def test_pace_is_never_below_the_busiest_lane() -> None:
    seconds = random_layers(50, 3)
    lanes = np.array(LANE_OF[:20])
    used = np.array([MASK >> k & 1 for k in range(20)], dtype=bool)
    for lane in (COMPUTE, 1, 2):
        busy = seconds[:20][used & (lanes == lane)].sum(axis=0)
        assert (catalogue_rates(seconds, 4) >= busy * (1 - 1e-9)).all()


@pytest.mark.parametrize("entry", [e.name for e in CATALOGUE])
def test_sequences_are_topological(entry: str) -> None:
    for kinds in ((F, B), (F, F), (B, B), (F,), (B,)):
        streams, sequence = ordered_streams(kinds, ((MASK, MASK),) * len(kinds), lane_order(entry))
        place = {n: at for at, n in enumerate(sequence)}
        assert sorted(sequence) == list(range(len(streams.nodes)))
        assert all(place[a] < place[n] for n, node in enumerate(streams.nodes) for a in node.after)

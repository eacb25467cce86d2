"""Splits of the layers over virtual stages that are worth trying, best balanced first.

Axes: N splits, S = pp * vpp virtual stages, P = pp ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from autodeploy.strategy.split import Split
from autodeploy.strategy.weights import head_weight, layer_weight, mtp_weight
from cost_models.inputs import ModelSpec
from cost_models.records import record
from cost_models.strategies import F64, I64

Balance = tuple[float, float]  # largest rank sum and largest stage, in rough weight


@record(kw_only=False)
class Stages:
    """PP and VPP; V-shaped schedules place odd chunks in reverse."""

    pp: int
    vpp: int
    v_shaped: bool = False

    def __len__(self) -> int:
        return self.pp * self.vpp

    def ranks(self, chunk: int) -> slice:
        """Of each stage of a chunk."""
        return slice(None, None, -1) if self.v_shaped and chunk % 2 else slice(None)


def balance(model: ModelSpec, stages: Stages, split: Split) -> Balance:
    ranks, largest = _balances(model, stages, np.array([split.layers]), np.array([split.mtp]))
    return float(ranks[0]), float(largest[0])


def _balances(model: ModelSpec, stages: Stages, layers: I64, mtp: I64) -> tuple[F64, F64]:
    """The largest rank sum and the largest stage of splits [N, S], [N] each."""
    upto, head, mtp_modules = _cumulative_weight(model)
    ends = np.zeros((len(layers), len(stages) + 1), dtype=np.int64)
    np.cumsum(layers, axis=1, out=ends[:, 1:])
    stage = np.diff(upto[ends], axis=1)
    stage[:, -1] += head
    stage[np.arange(len(layers)), mtp] += mtp_modules
    return _rank_sums(stages, stage).max(axis=1), stage.max(axis=1)


def _rank_sums(stages: Stages, of_stage: F64) -> F64:
    """[N, S] -> [N, P]"""
    total = np.zeros((len(of_stage), stages.pp))
    for chunk in range(stages.vpp):
        total[:, stages.ranks(chunk)] += of_stage[:, chunk * stages.pp : (chunk + 1) * stages.pp]
    return total


@lru_cache(maxsize=64)
def _cumulative_weight(model: ModelSpec) -> tuple[F64, float, float]:
    """Rough weight of the first n layers [L + 1], of the head, and of the MTP modules."""
    kinds = np.array([layer_weight(model.hidden, kind) for kind in model.kinds])
    layers = kinds[np.array(model.layer_sequence())]
    return np.concatenate([[0.0], layers.cumsum()]), head_weight(model), mtp_weight(model)


# ----------------------------------------------------------------------------------------------- candidates


@record(kw_only=False)
class Ends:
    """What a back end leaves free at the ends of the pipeline: the least and the most layers of a stage, whether a stage in
    the middle may be empty, and whether the MTP modules may stand alone, with the head in a stage behind them."""

    least: int
    most: int
    empty: bool
    alone: bool


@record(kw_only=False, eq=False)
class Splits:
    """N splits, best balanced first: their layers [N, S], the stage of the MTP modules, and both weights [N]."""

    layers: I64
    mtp: I64
    largest_rank: F64
    largest: F64

    def split(self, i: int) -> Split:
        return Split(tuple(self.layers[i].tolist()), int(self.mtp[i]), "")

    def __iter__(self) -> Iterator[tuple[Split, Balance]]:
        """Each with its balance."""
        for i in range(len(self.layers)):
            yield self.split(i), (float(self.largest_rank[i]), float(self.largest[i]))


@lru_cache(maxsize=1024)
def balanced_splits(model: ModelSpec, stages: Stages, ends: Ends) -> Splits:
    """First stage two fewer to one more, last stage down to none, the rest even to one layer."""
    if len(stages) == 1:
        parts = [(np.array([[model.num_layers]]), 0)]
    else:  # the tail: stages behind the MTP modules, which hold the head alone
        parts = [
            (
                _inner_layers(model, stages, *_sizes(model.num_layers, len(stages), ends, tail), tail),
                len(stages) - 1 - tail,
            )
            for tail in ((0, 1) if ends.alone else (0,))
        ]
    layers = np.concatenate([rows for rows, _ in parts])
    mtp = np.repeat([at for _, at in parts], [len(rows) for rows, _ in parts])
    largest_rank, largest = _balances(model, stages, layers, mtp)
    order = np.lexsort((largest, largest_rank))
    return Splits(layers[order], mtp[order], largest_rank[order], largest[order])


def _sizes(total: int, stages: int, ends: Ends, tail: int) -> tuple[I64, I64]:
    """Layers of the first and of the last stage of each split, [N]."""
    slots, inner = -(-total // stages), stages - 2 - tail
    first, last = (
        axis.reshape(-1)
        for axis in np.meshgrid(
            np.arange(max(ends.least, slots - 2), ends.most + 1), np.arange(max(ends.least, slots - 5), slots + 1),
            indexing="ij",
        )
    )  # fmt: skip
    rest = total - first - last
    if not inner:
        return first[rest == 0], last[rest == 0]
    ok = (rest >= 0) & (-(-rest // inner) <= ends.most) & (ends.empty | (rest >= inner))
    return first[ok], last[ok]


def _inner_layers(model: ModelSpec, stages: Stages, first: I64, last: I64, tail: int) -> I64:
    """Layers of every stage, [N, S]. Even to one layer in between; the larger stages go to the ranks that carry least, later
    stages first (less is in flight)."""
    inner = len(stages) - 2 - tail
    base, extra = np.divmod(model.num_layers - first - last, max(inner, 1))
    layers = np.zeros((len(first), len(stages)), dtype=np.int64)
    layers[:, 0] = first
    layers[:, 1 : 1 + inner] = base[:, None]
    layers[:, 1 + inner] = last
    if not inner or not extra.any():
        return layers
    falling = np.arange(inner, 0, -1)  # stages between the ends, the latest first
    order = np.argsort(_carried(model, stages, layers, tail)[:, falling], axis=1, kind="stable")
    grown = np.arange(inner) < extra[:, None]
    layers[np.nonzero(grown)[0], falling[order[grown]]] += 1
    return layers


def _carried(model: ModelSpec, stages: Stages, layers: I64, tail: int) -> F64:
    """What the rank of each stage carries when that stage's turn to grow comes, [N, S]: the stages of a rank grow one after
    the other, the latest first."""
    layer = layer_weight(model.hidden, model.layers[-1][0])
    load = _rank_sums(stages, layers.astype(np.float64) * layer)
    rank = np.concatenate([np.arange(stages.pp)[stages.ranks(chunk)] for chunk in range(stages.vpp)])
    load[:, rank[-1]] += head_weight(model)
    load[:, rank[-1 - tail]] += mtp_weight(model)
    carried = np.zeros(layers.shape)
    for chunk in reversed(range(stages.vpp)):
        places = np.arange(chunk * stages.pp, (chunk + 1) * stages.pp)
        places = places[(places > 0) & (places < len(stages) - 1 - tail)]
        carried[:, places] = load[:, rank[places]]
        load[:, rank[places]] += layer
    return carried

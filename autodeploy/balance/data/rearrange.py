"""The whole of D: lengths in, the order of every rank out, with the imbalance before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autodeploy.balance.data.assign import assign_batches
from autodeploy.balance.data.assign_free import assign_freely
from autodeploy.balance.data.cost import SampleCost
from autodeploy.balance.data.delay import Delay, delay_outliers
from autodeploy.balance.data.imbalance import Imbalance, measure_imbalance
from autodeploy.balance.data.lengths import check_fits, check_lengths
from autodeploy.balance.data.packing import first_fit_decreasing
from autodeploy.balance.data.split import ROOMY_FRACS, Parts, choose_parts, place_parts
from autodeploy.errors import InputError

PACKINGS = ("none", "ffd")
FREE_ABOVE = 1.001  # step over max(mean, costliest): below, fixed counts are as good as it gets
FREE_WORK = 10**8  # samples x slots of one batch: above, fixed counts are kept (and close to the bound anyhow)


_LEAST = {"ranks": 1, "ep_ranks": 1, "micro_batches": 0, "micro_batch": 1, "most_parts": 1, "most_delay": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """One global batch: ``ranks * micro_batches * micro_batch`` places for samples."""

    ranks: int  # data-parallel ranks, R
    ep_ranks: int = 1  # data-parallel ranks that one expert-parallel group spans, E
    micro_batches: int = 0  # J; 0: one global batch holds the whole input
    micro_batch: int = 1  # samples a micro-batch, K
    free_counts: bool = True  # a micro-batch may hold more or fewer samples, within K sequences of tokens; False where
    # samples are padded to one length, so that a place costs the same full or not
    most_parts: int = 1  # context-parallel ranks that a long sample may be split over, of the R
    most_delay: int = 0  # batches that an outlier may wait for others

    def __post_init__(self) -> None:
        for name, least in (
            ("ranks", 1),
            ("ep_ranks", 1),
            ("micro_batches", 0),
            ("micro_batch", 1),
            ("most_parts", 1),
            ("most_delay", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"BatchShape.{name}", getattr(self, name), f"a whole number >= {least}")
        if self.most_parts > 1 and not self.free_counts:
            raise InputError(
                "BatchShape.most_parts", self.most_parts, "1 with fixed counts", "samples must not be padded"
            )
        if self.most_delay and not self.micro_batches:
            raise InputError("BatchShape.most_delay", self.most_delay, "0 without --micro-batches", "give a batch size")
        if self.ranks % self.ep_ranks:
            raise InputError(
                "BatchShape.ep_ranks",
                self.ep_ranks,
                f"a divisor of the {self.ranks} data-parallel ranks",
                "give the data-parallel ranks that one expert-parallel group spans: EP * ETP / TP",
            )

    def micro_batches_for(self, samples: int) -> int:
        return self.micro_batches or max(1, -(-samples // (self.ranks * self.micro_batch)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The training sequences, in order of arrival. ``of_document`` [D] says where each document went."""

    tokens: np.ndarray  # int64 [N]
    squares: np.ndarray  # int64 [N], sum of squared document lengths
    of_document: np.ndarray  # int64 [D]
    batch_starts: np.ndarray  # int64 [B + 1], samples of batch b are batch_starts[b] : batch_starts[b + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlan:
    """``order`` and ``order_before`` [B, R, J, K]: sample ids, -1 an empty place."""

    shape: BatchShape
    samples: Samples
    cost_s: np.ndarray  # [N]
    order: np.ndarray
    order_before: np.ndarray
    before: Imbalance
    after: Imbalance
    packed: bool = False
    parts: np.ndarray  # int64 [N] context-parallel ranks of each sample, 1: not split
    delay: Delay | None = None


def rearrange(
    lengths: np.ndarray, sequence_length: int, shape: BatchShape, cost: SampleCost, packing: str = "none"
) -> DataPlan:
    """Assign samples to ranks and micro-batches within each global batch; no sample leaves its batch.

    With ``free_counts`` a batch that stays above its bound is assigned by tokens rather than by count; with
    ``most_parts`` its long samples are split, and stand at several ranks; with ``most_delay`` outliers change batch.
    ``before`` is the same samples in order of arrival, dealt as Megatron's sampler deals them. ``ffd`` packs
    the documents of each batch; what does not fit waits for the next batch.
    """
    lengths = check_lengths(lengths)
    if sequence_length < 1:
        raise InputError("sequence_length", sequence_length, "a whole number >= 1")
    if packing not in PACKINGS:
        raise InputError("packing", packing, f"one of {', '.join(PACKINGS)}")
    check_fits(lengths, sequence_length)
    samples = _make_samples(lengths, sequence_length, shape, packing)
    cost_s = cost.seconds(samples.tokens, samples.squares)
    dealt = _dealt(samples, shape)
    delay, ids = _delayed(samples, cost_s, dealt, shape)
    chosen = assign_batches(
        np.append(cost_s, 0.0)[ids.reshape(len(ids), -1)], shape.ranks, shape.ep_ranks, ids.shape[1], shape.micro_batch
    )
    order = np.take_along_axis(ids.reshape(len(ids), -1), chosen.reshape(len(ids), -1), axis=1).reshape(chosen.shape)
    if shape.free_counts:
        order = _improve_freely(order, samples, cost_s, shape, sequence_length * shape.micro_batch)
    parts, piece_s = np.ones(cost_s.size, dtype=np.int64), cost_s
    if shape.most_parts > 1:
        order, parts, piece_s = _split(order, samples, cost, shape, sequence_length * shape.micro_batch)
    order_before = np.moveaxis(dealt, 1, 2)  # [B, J, R, K] -> [B, R, J, K]
    return DataPlan(
        shape=shape,
        samples=samples,
        cost_s=cost_s,
        order=order,
        order_before=order_before,
        before=measure_imbalance(order_before, cost_s, shape.ep_ranks),
        after=measure_imbalance(order, piece_s, shape.ep_ranks, parts),
        packed=packing != "none",
        parts=parts,
        delay=delay,
    )


def _dealt(samples: Samples, shape: BatchShape) -> np.ndarray:
    """Sample ids [B, J, R, K] in order of arrival: micro-batch by micro-batch, rank by rank; -1 where none is left.

    Source: Megatron-LM, megatron/legacy/data/data_samplers.py, MegatronPretrainingSampler.
    """
    counts = np.diff(samples.batch_starts)
    micro_batches = shape.micro_batches_for(int(counts.max()))
    position = np.arange(micro_batches * shape.ranks * shape.micro_batch)
    ids = np.where(position < counts[:, None], samples.batch_starts[:-1, None] + position, -1)
    return ids.reshape(len(counts), micro_batches, shape.ranks, shape.micro_batch)


def _delayed(
    samples: Samples, cost_s: np.ndarray, dealt: np.ndarray, shape: BatchShape
) -> tuple[Delay | None, np.ndarray]:
    """(what the delay does, sample ids [B, J, R, K] batch by batch once outliers have waited)."""
    if not shape.most_delay:
        return None, dealt
    slots = dealt[0].size
    delay = delay_outliers(cost_s, samples.tokens, slots, shape.ranks, shape.most_delay)
    batches = -(-delay.order.size // slots)
    ids = np.full(batches * slots, -1, dtype=np.int64)
    ids[: delay.order.size] = delay.order
    return delay, ids.reshape(batches, *dealt.shape[1:])


def _split(
    order: np.ndarray, samples: Samples, cost: SampleCost, shape: BatchShape, limit_tokens: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order, parts [N], seconds of a part [N]) with long samples split in every batch where that shortens the step."""
    parts = np.ones(samples.tokens.size, dtype=np.int64)
    piece_s = cost.seconds(samples.tokens, samples.squares)
    batches = list(order)
    for b, batch in enumerate(batches):
        ids = np.sort(batch[batch >= 0])
        best = measure_imbalance(batch[None], piece_s, shape.ep_ranks).coupled_s
        for light_frac in ROOMY_FRACS:
            tokens, squares = samples.tokens[ids], samples.squares[ids]
            chosen = choose_parts(cost, tokens, squares, shape, limit_tokens, light_frac)
            found = _with_parts(chosen, shape, batch.shape[1], limit_tokens)
            if found is None:
                continue
            coupled = measure_imbalance(found[None], chosen.piece_s, shape.ep_ranks, chosen.count).coupled_s
            if coupled < best * (1 - 1e-9):
                best, batches[b] = coupled, np.where(found >= 0, ids[found], -1)
                parts[ids], piece_s[ids] = chosen.count, chosen.piece_s
    places = max(batch.shape[2] for batch in batches)
    return np.stack([_widened(batch, places) for batch in batches]), parts, piece_s


def _with_parts(parts: Parts, shape: BatchShape, micro_batches: int, limit_tokens: int) -> np.ndarray | None:
    """Order [R, J, K] of one batch's samples: split ones first, the others into what they leave."""
    filled = place_parts(parts, shape.ranks, shape.ep_ranks, micro_batches, limit_tokens)
    if filled is None:
        return None
    whole = np.flatnonzero(parts.count == 1)
    found = assign_freely(
        parts.piece_s[whole],
        parts.piece_tokens[whole],
        shape.ranks,
        shape.ep_ranks,
        micro_batches,
        limit_tokens,
        filled,
    )
    if found is None:
        return None
    order = np.where(found >= 0, whole[found], -1) if whole.size else found
    for sample, first, micro_batch in filled.placed:
        places = order[first : first + parts.count[sample], micro_batch]
        if (places >= 0).all(axis=1).any():
            order = _widened(order, order.shape[2] + 1)
            places = order[first : first + parts.count[sample], micro_batch]
        places[np.arange(len(places)), (places < 0).argmax(axis=1)] = sample
    return order


def _widened(batch: np.ndarray, places: int) -> np.ndarray:
    """[R, J, places] with empty places added."""
    return np.pad(batch, ((0, 0), (0, 0), (0, places - batch.shape[2])), constant_values=-1)


def _improve_freely(
    order: np.ndarray, samples: Samples, cost_s: np.ndarray, shape: BatchShape, limit_tokens: int
) -> np.ndarray:
    """``order`` with the batches that stay above their bound assigned anew by free counts, where that is shorter."""
    batches = list(order)
    for b, batch in enumerate(batches):
        fixed = measure_imbalance(batch[None], cost_s, shape.ep_ranks)
        if fixed.coupled_over_bound <= FREE_ABOVE or batch.size**2 > FREE_WORK:
            continue
        ids = np.sort(batch[batch >= 0])
        found = assign_freely(
            cost_s[ids], samples.tokens[ids], shape.ranks, shape.ep_ranks, batch.shape[1], limit_tokens
        )
        if found is None:
            continue
        freely = np.where(found >= 0, ids[found], -1)
        if measure_imbalance(freely[None], cost_s, shape.ep_ranks).coupled_s < fixed.coupled_s:
            batches[b] = freely
    places = max(batch.shape[2] for batch in batches)
    return np.stack([_widened(batch, places) for batch in batches])


def _make_samples(lengths: np.ndarray, sequence_length: int, shape: BatchShape, packing: str) -> Samples:
    slots = shape.ranks * shape.micro_batches * shape.micro_batch  # 0: one batch
    if packing == "none":
        count = lengths.size
        starts = np.append(np.arange(0, count, slots or count), count)
        return Samples(tokens=lengths, squares=lengths**2, of_document=np.arange(count), batch_starts=starts)
    of_document = np.empty(lengths.size, dtype=np.int64)
    starts_list = [0]
    for documents, sequence in _packed_batches(lengths, sequence_length, slots):
        of_document[documents] = starts_list[-1] + _by_arrival(sequence)
        starts_list.append(starts_list[-1] + int(sequence.max()) + 1)
    total = starts_list[-1]
    return Samples(
        tokens=np.bincount(of_document, weights=lengths, minlength=total).astype(np.int64),
        squares=np.bincount(of_document, weights=lengths.astype(float) ** 2, minlength=total).astype(np.int64),
        of_document=of_document,
        batch_starts=np.array(starts_list),
    )


def _packed_batches(lengths: np.ndarray, capacity: int, slots: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(documents, sequence of each) of each batch, at most ``slots`` sequences; the emptiest wait for the next."""
    if slots == 0:
        yield np.arange(lengths.size), first_fit_decreasing(lengths, capacity)
        return
    total = np.cumsum(lengths)
    waiting, taken = np.empty(0, dtype=np.int64), 0
    while taken < lengths.size or waiting.size:
        room = slots * capacity - int(lengths[waiting].sum()) + (int(total[taken - 1]) if taken else 0)
        end = max(taken, int(np.searchsorted(total, room, side="right")))
        if end == taken and not waiting.size:
            end = taken + 1
        documents = np.concatenate([waiting, np.arange(taken, end)])
        sequence = first_fit_decreasing(lengths[documents], capacity)
        fill = np.bincount(sequence, weights=lengths[documents])
        keep = np.zeros(fill.size, dtype=bool)
        keep[np.argsort(-fill, kind="stable")[:slots]] = True
        renumber = np.cumsum(keep) - 1
        kept = keep[sequence]
        yield documents[kept], renumber[sequence[kept]]
        waiting, taken = documents[~kept], end


def _by_arrival(sequence: np.ndarray) -> np.ndarray:
    """Sequences renumbered by their first document, so that ``before`` is not sorted by length."""
    _, first = np.unique(sequence, return_index=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return rank[sequence]

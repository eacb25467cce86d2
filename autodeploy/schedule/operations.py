"""What a schedule is: for each pipeline rank, the order of its operations.

Axes in this package: N scenarios, P pipeline ranks, S virtual stages (model order), M micro-batches, V chunks a rank.

An operation is a plain tuple `(kind, stage, micro_batch)`; `stage` is the virtual stage in model order, so the
data dependencies are the same for every schedule:

    F(s, i) after F(s-1, i);  W(s, i) after I(s, i);
    B or I (S-1, i) after F(S-1, i);  B or I (s, i) after B or I (s+1, i)

A slot is one operation, or two that a rank runs side by side (forward of one micro-batch, backward of another).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from cost_models.records import record

F, B, I, W = 0, 1, 2, 3  # noqa: E741  forward; full backward; backward for the input; backward for the weights
KIND_NAMES = ("F", "B", "I", "W")

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

Op = tuple[int, int, int]
Slot = tuple[Op, ...]
Order = tuple[Slot, ...]
NO_OP = (-1, -1, -1)


class ScheduleError(ValueError):
    """A shape that a schedule cannot run: names the field, its value and what is allowed."""

    def __init__(self, field_name: str, value: object, allowed: str) -> None:
        super().__init__(f"{field_name} = {value!r}: must be {allowed}")


@record
class OrderCosts:
    """Seconds (any unit) that an automatic schedule plans with; one value per virtual stage."""

    forward_s: tuple[float, ...]
    backward_input_s: tuple[float, ...]
    backward_weight_s: tuple[float, ...]
    p2p_s: float = 0.0
    weight_kept_frac: float = (
        0.5  # of a chunk's activations, held between I and W; 0.5: as the published scheduler plans
    )

    @classmethod
    def equal(
        cls, stages: int, forward_s: float = 1.0, input_s: float = 1.0, weight_s: float = 1.0, p2p_s: float = 0.0
    ) -> OrderCosts:
        """The same cost on each of `stages` virtual stages."""
        return cls(
            forward_s=(forward_s,) * stages,
            backward_input_s=(input_s,) * stages,
            backward_weight_s=(weight_s,) * stages,
            p2p_s=p2p_s,
        )


@record
class PipelineShape:
    """What an order depends on. `group` is Megatron's micro-batch group size (0: the default, `pp`)."""

    pp: int
    micro_batches: int
    vpp: int = 1
    group: int = 0
    ep_overlap: bool = False
    costs: OrderCosts | None = None

    def __post_init__(self) -> None:
        for name in ("pp", "micro_batches", "vpp"):
            if getattr(self, name) < 1:
                raise ScheduleError(f"PipelineShape.{name}", getattr(self, name), "an integer >= 1")

    @property
    def group_size(self) -> int:
        return self.group or self.pp


@record(eq=False)
class Schedule:
    """The slots of all ranks as arrays, and where each virtual stage lives. B slots.

    `ops` [B, 2, 3]: kind, stage and micro-batch of the one or two operations of each slot, `NO_OP` where there is no second;
    rank after rank, `first` [P + 1] the first slot of each rank and the end. `rank_of[d][s]` is the rank of stage s for
    direction d; `direction_of[i]` the direction of micro-batch i (all 0 but for DualPipe, which holds two copies of the
    weights).
    """

    name: str
    pp: int
    stages: int
    micro_batches: int
    rank_of: tuple[tuple[int, ...], ...]
    ops: I32
    first: I64
    direction_of: tuple[int, ...]
    weight_copies: int = 1

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """The slots of each rank, as tuples."""
        slots = [(tuple(one),) if two[0] < 0 else (tuple(one), tuple(two)) for one, two in self.ops.tolist()]
        return tuple(tuple(slots[self.first[r] : self.first[r + 1]]) for r in range(self.pp))

    def rank(self, stage: int, micro_batch: int) -> int:
        return self.rank_of[self.direction_of[micro_batch]][stage]

    @property
    def warm_up(self) -> I64:
        """Slots of each rank before its first backward, [P]."""
        forwards = np.asarray((self.ops[:, :, 0] <= F).all(axis=1))
        return np.array([_leading(forwards[low:high]) for low, high in pairwise(self.first)])


def _leading(flags: NDArray[np.bool_]) -> int:
    return len(flags) if flags.all() else int(np.argmin(flags))


ScheduleFn = Callable[[PipelineShape], Schedule]


def slot_arrays(orders: Sequence[Sequence[Slot]]) -> tuple[I32, I64]:
    """`ops` and `first` of a schedule, from the slots of each rank."""
    count = sum(len(order) for order in orders)
    pairs: Iterable[Slot] = (slot if len(slot) == 2 else (*slot, NO_OP) for order in orders for slot in order)
    flat = chain.from_iterable(chain.from_iterable(pairs))
    ops = np.fromiter(flat, dtype=np.int32, count=6 * count).reshape(count, 2, 3)
    return ops, np.cumsum([0, *(len(order) for order in orders)])


def one_direction(name: str, shape: PipelineShape, rank_of: list[int], orders: list[list[Slot]]) -> Schedule:
    """A schedule with one copy of the weights."""
    return of_arrays(name, shape, rank_of, *slot_arrays(orders))


def one_by_one(name: str, shape: PipelineShape, rank_of: list[int], orders: Sequence[Sequence[Op]]) -> Schedule:
    """As `one_direction`, with one operation a slot."""
    first = np.cumsum([0, *(len(order) for order in orders)])
    ops = np.full((first[-1], 2, 3), -1, dtype=np.int32)
    flat = chain.from_iterable(chain.from_iterable(orders))
    ops[:, 0] = np.fromiter(flat, dtype=np.int32, count=3 * first[-1]).reshape(-1, 3)
    return of_arrays(name, shape, rank_of, ops, first)


def of_arrays(name: str, shape: PipelineShape, rank_of: list[int], ops: I32, first: I64) -> Schedule:
    """As `one_direction`, for slots that are arrays already."""
    return Schedule(
        name=name,
        pp=shape.pp,
        stages=len(rank_of),
        micro_batches=shape.micro_batches,
        rank_of=(tuple(rank_of),),
        ops=ops,
        first=first,
        direction_of=(0,) * shape.micro_batches,
    )


def loop_placement(pp: int, vpp: int) -> list[int]:
    """Rank of each virtual stage when chunks wrap around: rank r holds r, r+p, r+2p ... (Megatron)."""
    return [stage % pp for stage in range(pp * vpp)]


def v_placement(pp: int) -> list[int]:
    """Rank of each of 2p stages folded as a V: rank r holds r and 2p-1-r (ZB-V, DualPipeV)."""
    return list(range(pp)) + list(range(pp - 1, -1, -1))


def require_single_chunk(name: str, shape: PipelineShape) -> None:
    if shape.vpp != 1:
        raise ScheduleError(f"{name}: vpp", shape.vpp, "1 (use interleaved for several chunks a rank)")


def require_two_chunks(name: str, shape: PipelineShape) -> None:
    if shape.vpp != 2:
        raise ScheduleError(f"{name}: vpp", shape.vpp, "2 (each rank holds the stages r and 2p-1-r)")

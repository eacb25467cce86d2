"""What a schedule is: for each pipeline rank, the order of its operations.

Axes in this package: N scenarios, P pipeline ranks, S virtual stages (model order), M micro-batches, V chunks a rank.

An operation is a plain tuple `(kind, stage, micro_batch)`; `stage` is the virtual stage in model order, so the
data dependencies are the same for every schedule:

    F(s, i) after F(s-1, i);  W(s, i) after I(s, i);
    B or I (S-1, i) after F(S-1, i);  B or I (s, i) after B or I (s+1, i)

A slot is one operation, or two that a rank runs side by side (forward of one micro-batch, backward of another).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

F, B, I, W = 0, 1, 2, 3  # noqa: E741  forward; full backward; backward for the input; backward for the weights
KIND_NAMES = ("F", "B", "I", "W")

Op = tuple[int, int, int]
Slot = tuple[Op, ...]
Order = tuple[Slot, ...]


class ScheduleError(ValueError):
    """A shape that a schedule cannot run: names the field, its value and what is allowed."""

    def __init__(self, field_name: str, value: object, allowed: str) -> None:
        super().__init__(f"{field_name} = {value!r}: must be {allowed}")


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Operation lists of all ranks, and where each virtual stage lives.

    `rank_of[d][s]` is the rank of stage s for direction d; `direction_of[i]` the direction of micro-batch i (all 0
    but for DualPipe, which holds two copies of the weights). `warm_up[r]` counts the slots of rank r before its first
    backward, `cool_down[r]` those after its last forward.
    """

    name: str
    pp: int
    stages: int
    micro_batches: int
    rank_of: tuple[tuple[int, ...], ...]
    orders: tuple[Order, ...]
    direction_of: tuple[int, ...]
    weight_copies: int = 1
    warm_up: tuple[int, ...] = field(default=())
    cool_down: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.warm_up:
            object.__setattr__(self, "warm_up", tuple(_leading_forwards(o) for o in self.orders))
            object.__setattr__(self, "cool_down", tuple(_trailing_backwards(o) for o in self.orders))

    def rank(self, stage: int, micro_batch: int) -> int:
        return self.rank_of[self.direction_of[micro_batch]][stage]


def _leading_forwards(order: Order) -> int:
    for position, slot in enumerate(order):
        if any(kind != F for kind, _, _ in slot):
            return position
    return len(order)


def _trailing_backwards(order: Order) -> int:
    for position, slot in enumerate(reversed(order)):
        if any(kind == F for kind, _, _ in slot):
            return position
    return len(order)


ScheduleFn = Callable[[PipelineShape], Schedule]


def slots_of(orders: Sequence[Sequence[Op]]) -> list[list[Slot]]:
    """One operation a slot."""
    return [[(op,) for op in order] for order in orders]


def one_direction(name: str, shape: PipelineShape, rank_of: list[int], orders: list[list[Slot]]) -> Schedule:
    """A schedule with one copy of the weights."""
    return Schedule(
        name=name,
        pp=shape.pp,
        stages=len(rank_of),
        micro_batches=shape.micro_batches,
        rank_of=(tuple(rank_of),),
        orders=tuple(tuple(order) for order in orders),
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

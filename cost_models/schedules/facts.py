"""What a pipeline schedule is, as one record: every room reads it here and none keeps a list of names of its own.

Axes: N strategies that share schedule, pp and vpp; P pipeline ranks; S = P x vpp virtual stages in model order.
Costs are one micro-batch's, in seconds: F forward, I backward for the input, W for the weights, B = I + W; t one hop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cost_models.errors import ConfigError
from cost_models.records import record
from cost_models.schedules.lanes import LaneCosts

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

Placement = Literal["loop", "v", "both-ends"]
PLACEMENTS: tuple[Placement, ...] = ("loop", "v", "both-ends")
Pairs = Literal["none", "joint", "early"]
PAIRS: tuple[Pairs, ...] = ("none", "joint", "early")


@record
class PipelineCosts:
    """A block of strategies; [S, N] costs, [N] the rest. Operations then run along contiguous strategies. With `lanes` the
    stages have lanes of their own for expert communication, and what runs side by side is priced by these."""

    forward_s: F64
    input_s: F64
    weight_s: F64
    p2p_s: F64
    micro_batches: I64
    group: I64
    pp: int
    vpp: int
    lanes: LaneCosts | None = None


@record
class Shape:
    """What in-flight chunks depend on: micro-batches and group size [N, 1], ranks [1, P]."""

    micro_batches: I64
    group: I64
    rank: I64
    pp: int
    vpp: int


@record(kw_only=False)
class Chunks:
    """How many chunks (virtual stages) a rank may hold; `most` None: any number."""

    least: int
    most: int | None

    def allow(self, vpp: I64) -> NDArray[np.bool_]:
        """Elementwise."""
        return np.asarray((vpp >= self.least) & (True if self.most is None else vpp <= self.most))


@record
class Schedule:
    """One pipeline schedule, its facts checked when it is built.

    `placement`: "loop": rank r holds the stages r, r + p, r + 2p ...; "v": r and 2p - 1 - r; "both-ends": micro-batches
    enter from both ends, so that a rank holds two stages' weights. `weight_copies`: copies of the model that the ranks
    hold together. `order`: "module:function" under `autodeploy.schedule` that lists each rank's operations.

    `closed_form`: seconds of the pipeline [N]; `closed_forms`: of several shapes, where that is cheaper.
    `in_flight`: most chunks that a rank holds, [N, P]; with `limit_only` an automatic order may hold fewer. `grouped`:
    micro-batches go in groups of G. `plans_with_costs`: the order depends on the costs. `least_turns` x pp micro-batches at
    least; `even`: of ranks and micro-batches.

    `pairs`: a forward and a backward run side by side, "joint": both hand on at the end of the pair; "early": each hands
    on when its own part is done, the gradient before the weight part. `pairs_ends`: so do two micro-batches of one
    direction where only one runs. `splits_backward`: weight parts may run later than the gradient leaves; else a backward
    runs whole, but for what "early" pairs hand on. `needs_overlap`: the schedule is the overlap of expert communication.
    `replayed_as`: the order that the simulator runs; `overlapped_as`: with expert communication under computing on lanes
    of its own (None: that overlap stays within a micro-batch, and its closed form is what the replay uses too).

    `launched_by`: back ends whose programs run it; `searched_by`: those whose free search tries it ("any": the search of
    everything that can be priced); `aliases`: other names;
    `torch_class`: its name in torch.distributed.pipelining, as torchtitan takes it.
    """

    name: str
    closed_form: Callable[[PipelineCosts], F64]
    closed_forms: Callable[[Sequence[PipelineCosts]], list[F64]] | None = None
    in_flight: Callable[[Shape], I64]
    order: str
    chunks: Chunks = Chunks(1, 1)
    placement: Placement = "loop"
    weight_copies: int = 1
    limit_only: bool = False
    grouped: bool = False
    plans_with_costs: bool = False
    least_turns: int = 0
    even: bool = False
    pairs: Pairs = "none"
    pairs_ends: bool = False
    splits_backward: bool = False
    needs_overlap: bool = False
    replayed_as: str = ""
    overlapped_as: str | None = None
    launched_by: tuple[str, ...] = ()
    searched_by: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    torch_class: str = ""

    def __post_init__(self) -> None:
        if not self.replayed_as:
            object.__setattr__(self, "replayed_as", self.name)
        self._check_words()
        self._check_facts()

    @property
    def v_shaped(self) -> bool:
        return self.placement == "v"

    @property
    def single_chunk(self) -> bool:
        return self.chunks.most == 1

    @property
    def runs_overlapped(self) -> bool:
        """Expert communication of one micro-batch runs under computing of another."""
        return self.overlapped_as is not None

    def _check_words(self) -> None:
        for name in (self.name, *self.aliases):
            if not name or name != name.lower() or "/" in name:
                raise ConfigError("Schedule.name", name, "lower case without a slash: it is a token of the notation")
        if self.placement not in PLACEMENTS:
            raise ConfigError("Schedule.placement", self.placement, f"one of {', '.join(PLACEMENTS)}")
        if self.pairs not in PAIRS:
            raise ConfigError("Schedule.pairs", self.pairs, f"one of {', '.join(PAIRS)}")
        if self.order.count(":") != 1:
            raise ConfigError("Schedule.order", self.order, "module:function under autodeploy.schedule")

    def _check_facts(self) -> None:
        if self.v_shaped and self.chunks != Chunks(2, 2):
            raise ConfigError("Schedule.chunks", self.chunks, "two a rank: a V folds the stages once")
        if self.weight_copies != (2 if self.placement == "both-ends" else 1):
            raise ConfigError("Schedule.weight_copies", self.weight_copies, "2 where both ends are fed, else 1")
        if self.grouped and (self.single_chunk or self.placement != "loop"):
            raise ConfigError("Schedule.grouped", True, "False: groups of micro-batches go with several looped chunks")
        if self.needs_overlap and self.overlapped_as is None:
            raise ConfigError("Schedule.overlapped_as", None, "the order of the overlap, which the schedule needs")
        if self.pairs_ends and self.pairs == "none":
            raise ConfigError("Schedule.pairs_ends", True, "False where nothing is paired")

    def check_figures(self) -> None:
        """Equal stages, two ranks, eight micro-batches: no shorter than a rank's work, nothing held that is not there.

        Left to the tests: the table is built by every command.
        """
        vpp, m = self.chunks.least, 8
        one, eight = np.ones((2 * vpp, 1)), np.full(1, m)
        costs = PipelineCosts(
            forward_s=one, input_s=one, weight_s=one, p2p_s=np.zeros(1), micro_batches=eight, group=np.full(1, 2), pp=2,
            vpp=vpp,
        )  # fmt: skip
        seconds, work = float(self.closed_form(costs)[0]), 3.0 * vpp * m
        if not work <= seconds <= 3 * work:
            raise ConfigError("Schedule.closed_form", seconds, f"{work} to {3 * work} s for {self.name} on two ranks")
        shape = Shape(micro_batches=eight[:, None], group=np.full((1, 1), 2), rank=np.arange(2)[None, :], pp=2, vpp=vpp)
        held = self.in_flight(shape)
        if not (held >= 1).all():
            raise ConfigError("Schedule.in_flight", held.tolist(), f"at least one chunk a rank for {self.name}")


def steady_limit(limit: Callable[[int], int]) -> Callable[[Shape], I64]:
    """In-flight chunks of a schedule that keeps every rank at `limit(p)`."""
    return lambda s: limit(s.pp) * np.ones_like(s.rank)

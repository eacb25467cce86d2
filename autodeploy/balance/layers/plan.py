"""A placement with its figures: rank sums, chunks, bytes, the layout string, and how good it is proven to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodeploy.balance.layers.items import LayerItems
from autodeploy.balance.layers.layout import format_layout
from autodeploy.balance.layers.problem import LayerProblem, Placement, price
from autodeploy.balance.layers.rules import check_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One placement, priced. Stage s is chunk s // P of rank s % P."""

    placement: Placement
    stages: tuple[str, ...]  # symbols of each stage, [S]
    chunk_s: np.ndarray  # [S]
    rank_s: np.ndarray  # [P]
    rank_bytes: np.ndarray  # [P], the worst moment
    excess_bytes: float  # above the cap, summed over ranks

    @property
    def layout(self) -> str:
        return format_layout(self.stages)

    @property
    def largest_rank_s(self) -> float:
        return float(self.rank_s.max())

    @property
    def largest_chunk_s(self) -> float:
        return float(self.chunk_s.max())

    @property
    def rank_imbalance(self) -> float:
        """Largest rank sum over the mean: 1.0 is perfect."""
        return float(self.rank_s.max() / self.rank_s.mean())

    @property
    def chunk_imbalance(self) -> float:
        return float(self.chunk_s.max() / self.chunk_s.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """``exact``: no placement has a smaller (largest rank sum, then largest chunk), ties within 1e-6.

    Bounds are proven; where not exact, the gaps say how far the placement may be from the best.
    """

    problem: LayerProblem
    before: Evaluated
    after: Evaluated
    method: str
    feasible: bool
    exact: bool
    rank_bound_s: float
    chunk_bound_s: float

    @property
    def rank_gap_frac(self) -> float:
        return max(0.0, self.after.largest_rank_s / self.rank_bound_s - 1) if self.feasible else float("nan")

    @property
    def chunk_gap_frac(self) -> float:
        return max(0.0, self.after.largest_chunk_s / self.chunk_bound_s - 1) if self.feasible else float("nan")

    @property
    def launchable(self) -> bool:
        return self.feasible and not self.problem.items.prescription

    @property
    def not_launchable_because(self) -> str:
        if not self.feasible:
            return "no placement fits the memory of every pipeline rank"
        return self.problem.items.prescription

    @property
    def option_of_stage(self) -> tuple[str, ...]:
        return tuple(self.problem.items.options[o] for o in self.after.placement.options)


def even_layout(items: LayerItems, pp: int, vpp: int) -> Placement:
    """What is done without a balancer: equal slots a stage, no-op slots at the end, MTP modules with the head.

    Source: MindSpeed-LLM's DeepSeek-V3 scripts, 61 layers in 64 slots, ``--noop-layers 61,62,63``.
    """
    stages = pp * vpp
    slots = -(-items.num_layers // stages)
    counts = np.clip(items.num_layers - slots * np.arange(stages), 0, slots)
    mtp_stage = stages - 1 if items.mtp_modules else -1
    return Placement(counts=tuple(int(c) for c in counts), mtp_stage=mtp_stage, options=(0,) * stages)


def placement_of_layout(stages: tuple[str, ...]) -> Placement:
    """The placement that a parsed layout describes, every stage with the default option."""
    mtp = [s for s, stage in enumerate(stages) if "m" in stage]
    return Placement(
        counts=tuple(stage.count("t") for stage in stages), mtp_stage=mtp[0] if mtp else -1, options=(0,) * len(stages)
    )


def evaluate_layout(problem: LayerProblem, stages: tuple[str, ...]) -> Evaluated:
    """A layout of the user's, checked against the rules, each rank with its best options."""
    check_layout(stages, problem.pp, problem.items.num_layers, problem.items.mtp_modules)
    return evaluate(problem, placement_of_layout(stages), choose_options=True)


def evaluate(problem: LayerProblem, placement: Placement, choose_options: bool = False) -> Evaluated:
    options = None if choose_options else np.array(placement.options)
    priced = price(problem, np.array([placement.counts]), placement.mtp_stage, options)
    chosen = Placement(
        counts=placement.counts, mtp_stage=placement.mtp_stage, options=tuple(int(o) for o in priced.options[0])
    )
    return Evaluated(
        placement=chosen,
        stages=chosen.symbols(problem.items.mtp_modules),
        chunk_s=priced.chunk_s[0],
        rank_s=priced.rank_s[0],
        rank_bytes=priced.rank_bytes[0],
        excess_bytes=float(priced.excess_bytes[0]),
    )

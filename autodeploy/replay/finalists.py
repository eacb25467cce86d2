"""Layer placements scored by the simulator: the layout now, balanced ones, and recompute or swap chosen by stage.

What the closed form of rank sums cannot tell, the replay does: under overlap the largest chunk sets the pace. The layout
now, where it fits, is among the finalists, so the answer is never slower than it.
Axes: O options (recompute, swap), S virtual stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autodeploy.balance.layers import BalanceOptions, LayerItems, LayerPlan, balance_layers
from autodeploy.balance.layers.balance import problem_of
from autodeploy.balance.layers.chunks import even_chunk_placements
from autodeploy.balance.layers.plan import Evaluated, evaluate, placement_of_layout
from autodeploy.balance.layers.problem import LayerProblem, Placement
from autodeploy.replay.groups import groups_of
from autodeploy.replay.items import price_items
from autodeploy.replay.request import step_request
from autodeploy.schedule import LayerSegments, ScheduleError, StageMemory, simulate
from autodeploy.schedule import StageCosts as StageSeconds
from autodeploy.strategy.layout import parse_layout
from cost_models.case import Case
from cost_models.errors import ConfigError
from cost_models.strategies import Layout, StrategyBatch

EVEN_S_FRAC = 2e-3  # a step is taken over a launchable one, or over the layout now, only if it is shorter by this
PER_STAGE = "recompute differs from stage to stage: no back end has an argument for that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """One placement, and its step as the simulator replays it."""

    name: str
    evaluated: Evaluated
    step_s: float  # inf where the simulator has no such schedule
    fits: bool
    launchable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """All finalists, the layout now first; ``chosen`` is the plan to print."""

    finalists: tuple[Finalist, ...]
    chosen: Finalist
    plan: LayerPlan

    @property
    def start(self) -> Finalist:
        return self.finalists[0]


@dataclass(frozen=True, slots=True)
class Variant:
    """The strategy under one option."""

    name: str
    batch: StrategyBatch
    items: LayerItems


def variants_of(
    case: Case, given: StrategyBatch, make: Callable[[tuple[str, ...], float], StrategyBatch | None]
) -> list[Variant]:
    """The strategy as given, then with other recompute or swap, where ``make`` finds that its back end runs them."""
    found = [Variant("as given", given, price_items(case, given))]
    for modules in CHOICES:
        batch = make(modules, 0.0)
        if batch is not None and int(batch.recompute[0]) != int(given.recompute[0]):
            found.append(Variant("+".join(modules) or "none", batch, price_items(case, batch)))
    swapped = make(SWAPPED, 1.0)
    if swapped is not None and not given.swap_frac.any():
        found.append(Variant("+".join((*SWAPPED, "swap")), swapped, price_items(case, swapped)))
    return _undominated(found)


CHOICES: tuple[tuple[str, ...], ...] = (
    (),
    ("core_attn",),
    ("mla_up_proj", "layernorm"),
    ("moe_act", "layernorm"),
    ("mla_up_proj", "layernorm", "moe_act"),
    ("mla_up_proj", "layernorm", "moe"),
    ("moe",),
    ("full",),
)
SWAPPED: tuple[str, ...] = ()


def _undominated(found: list[Variant]) -> list[Variant]:
    """The first, and those that no other beats in seconds and bytes of every item."""
    kept = found[:1]
    for i, own in enumerate(found[1:], 1):
        others = [v for j, v in enumerate(found) if j != i]
        if not any(_dominates(other.items, own.items) for other in others if other in kept or found.index(other) > i):
            kept.append(own)
    return kept


def _dominates(one: LayerItems, other: LayerItems) -> bool:
    quicker, smaller = one.seconds <= other.seconds, one.activation_bytes <= other.activation_bytes
    return bool(quicker.all() and smaller.all())


def find_finals(case: Case, variants: list[Variant], options: BalanceOptions, backend: str) -> Finals:
    """Places under every option alone and under all of them by stage; the simulator scores what fits."""
    layout = variants[0].batch.layouts[0]
    pp, vpp = layout.pp, layout.vpp
    items = _stacked(variants)
    problem = problem_of(items, pp, vpp, options)
    base = placement_of_layout(options.before)
    candidates: dict[str, Placement] = {"now": base}
    for o, variant in enumerate(variants):
        candidates[f"now, {variant.name}"] = replace(base, options=(o,) * len(base.counts))
        share = replace(options, time_limit_s=options.time_limit_s / (2 * len(variants)))
        alone = balance_layers(variant.items, pp, vpp, share).after.placement
        candidates[f"balanced, {variant.name}"] = replace(alone, options=(o,) * len(alone.counts))
    for chunks in even_chunk_placements(items, pp, vpp, options.mtp_apart):
        for o, variant in enumerate(variants):
            name = f"even chunks{', MTP apart' if chunks.mtp_stage not in (-1, problem.stages - 1) else ''}"
            candidates[f"{name}, {variant.name}"] = replace(chunks, options=(o,) * len(chunks.counts))
    mixed = balance_layers(items, pp, vpp, replace(options, time_limit_s=options.time_limit_s / 2))
    candidates["by stage"] = mixed.after.placement
    for name, placement in list(
        candidates.items()
    ):  # the same layers, every rank with its own fastest options that fit
        by_stage = f"{name.split(',')[0]}, by stage" if name != "by stage" else name
        chosen_options = evaluate(problem, placement, choose_options=True).placement
        candidates[by_stage if by_stage not in candidates else f"{name}, by stage"] = chosen_options
    finalists = []
    seen: set[tuple[object, ...]] = set()
    for name, placement in candidates.items():
        key = (placement.counts, placement.mtp_stage, placement.options)
        if key not in seen:
            seen.add(key)
            finalists.append(_scored(name, problem, placement, case, variants, backend))
    chosen = _choose(finalists)
    return Finals(finalists=tuple(finalists), chosen=chosen, plan=_plan(problem, finalists[0], chosen, mixed))


def _stacked(variants: list[Variant]) -> LayerItems:
    """Items with every variant as an option."""
    return replace(
        variants[0].items,
        options=tuple(variant.name for variant in variants),
        forward_s=np.concatenate([variant.items.forward_s for variant in variants]),
        backward_s=np.concatenate([variant.items.backward_s for variant in variants]),
        activation_bytes=np.concatenate([variant.items.activation_bytes for variant in variants]),
    )


def _scored(
    name: str, problem: LayerProblem, placement: Placement, case: Case, variants: list[Variant], backend: str
) -> Finalist:
    evaluated = evaluate(problem, placement)
    uniform = len(set(placement.options)) == 1
    fits = evaluated.excess_bytes <= 0
    step_s = float("inf")
    try:
        layout = parse_layout(evaluated.layout, case.model, problem.pp, problem.vpp)
        step_s = replayed_s(case, variants, layout, placement.options)
    except (ConfigError, ScheduleError):
        uniform = False
    launchable = uniform and (backend != "mindspeed" or placement.mtp_stage in (-1, problem.stages - 1))
    return Finalist(name=name, evaluated=evaluated, step_s=step_s, fits=fits, launchable=launchable)


def replayed_s(case: Case, variants: list[Variant], layout: Layout, options: tuple[int, ...]) -> float:
    """Seconds of the step with the option of every stage [S]: each stage's work is that of its own variant."""
    asked = {}
    for o in sorted(set(options)):
        batch = replace(variants[o].batch, layout=np.zeros(1, dtype=np.int64), layouts=(layout,))
        asked[o] = step_request(next(groups_of(case, batch)))
    first = asked[options[0]]
    costs = _picked([asked[o].request.costs for o in options])
    memories = [asked[o].request.memory for o in options]
    held = [memory.activation_bytes[:, s] for s, memory in enumerate(memories) if isinstance(memory, StageMemory)]
    whole = first.request.memory
    memory = replace(whole, activation_bytes=np.stack(held, axis=1)) if isinstance(whole, StageMemory) else None
    request = replace(first.request, costs=costs, memory=memory)
    return float(first.step_s(simulate(request).step_s)[0])


def _picked(costs: list[StageSeconds | LayerSegments]) -> StageSeconds | LayerSegments:
    """Stage s of the s-th of ``costs`` [S]."""
    if isinstance(costs[0], LayerSegments):
        return LayerSegments(seconds=np.stack([c.seconds[:, s] for s, c in enumerate(costs)], axis=1))  # type: ignore[union-attr]
    fields = ("forward_s", "backward_input_s", "backward_weight_s")
    return StageSeconds(**{name: np.stack([getattr(c, name)[:, s] for s, c in enumerate(costs)], 1) for name in fields})


def _choose(finalists: list[Finalist]) -> Finalist:
    """The shortest step that fits; a launchable one, and the layout now, are kept unless they are clearly slower."""
    fitting = [f for f in finalists if f.fits] or [min(finalists, key=lambda f: f.evaluated.excess_bytes)]
    best = min(fitting, key=lambda f: f.step_s)
    for group in ([f for f in fitting if f is finalists[0]], [f for f in fitting if f.launchable]):
        if group:
            own = min(group, key=lambda f: f.step_s)
            if own.step_s <= best.step_s * (1 + EVEN_S_FRAC):
                return own
    return best


def _plan(problem: LayerProblem, start: Finalist, chosen: Finalist, mixed: LayerPlan) -> LayerPlan:
    uniform = len(set(chosen.evaluated.placement.options)) == 1
    items = problem.items if uniform else replace(problem.items, prescription=PER_STAGE)
    return LayerPlan(
        problem=replace(problem, items=items),
        before=start.evaluated,
        after=chosen.evaluated,
        method=f"simulated: {chosen.name}",
        feasible=chosen.fits,
        exact=False,
        rank_bound_s=mixed.rank_bound_s,
        chunk_bound_s=min(mixed.chunk_bound_s, chosen.evaluated.largest_chunk_s),
    )


__all__ = ["Finalist", "Finals", "Variant", "find_finals", "replayed_s", "variants_of"]
